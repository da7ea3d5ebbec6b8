"""The output of all pods of a job, as it comes, through restarts and broken connections."""

import http
import threading
import time
from collections.abc import Callable
from typing import Any

from kubernetes.client.exceptions import ApiException

from components.trainer.errors import TrainingError
from components.trainer.kubernetes.api import CONNECTION_ERRORS, Api

_TERMINAL = ("Succeeded", "Failed")
_BEGINNING = ("", "")


class PodLogs:
    """Follows every pod of a job from a thread of its own and passes each line on, marked with the task."""

    def __init__(self, api: Api, label_selector: str, on_line: Callable[[str], None], poll_seconds: float = 2.0):
        self._api = api
        self._label_selector = label_selector
        self._on_line = on_line
        self._poll_seconds = poll_seconds
        self._stopping = threading.Event()
        self._followers: dict[str, threading.Thread] = {}  # by the pod's uid: a restarted worker has a new one
        self._said: dict[str, str] = {}  # what was last said about a pod that does not start
        self._finder = threading.Thread(target=self._find_pods, name="pod-logs", daemon=True)

    def start(self) -> None:
        """Starts following."""
        self._finder.start()

    def finish(self, timeout_seconds: float = 5.0) -> None:
        """Waits until what the pods have said until now was passed on, but not for ever."""
        self._stopping.set()
        deadline = time.monotonic() + timeout_seconds
        self._finder.join(timeout_seconds)  # it may still find pods that were quick
        for thread in self._followers.values():
            thread.join(max(0.0, deadline - time.monotonic()))

    def _find_pods(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._stopping.wait(self._poll_seconds)  # once more after the end, for pods that were quick
            try:
                pods = self._api.pods(self._label_selector)
            except (TrainingError, ApiException, *CONNECTION_ERRORS) as error:
                self._say("", f"the list of pods could not be read, logs may be late: {error}")
                continue
            for pod in pods:
                self._look_at(pod)

    def _look_at(self, pod: dict[str, Any]) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self._followers:
            return
        if pod["status"].get("phase") in ("Running", *_TERMINAL):
            thread = threading.Thread(target=self._follow, args=(pod,), name=f"log-{task_of(pod)}", daemon=True)
            self._followers[uid] = thread
            thread.start()
        elif reason := waiting_reason(pod):
            self._say(uid, f"[{task_of(pod).replace('-', ' ')}] has not started: {reason}")

    def _say(self, about: str, line: str) -> None:
        if self._said.get(about) != line:
            self._said[about] = line
            self._on_line(line)

    def _follow(self, pod: dict[str, Any]) -> None:
        name, container = pod["metadata"]["name"], pod["spec"]["containers"][0]["name"]
        prefix = f"[{task_of(pod).replace('-', ' ')}] "
        last = _BEGINNING  # time of the last line that was passed on
        read_at = 0.0  # by our own clock: when it was
        while True:
            seen = last  # a new connection repeats lines up to here; after that, equal times are different lines
            try:
                since = None if last == _BEGINNING else int(time.monotonic() - read_at) + 2
                for line in self._api.log(name, container, since):
                    stamp, _, text = line.partition(" ")
                    read_at = time.monotonic()
                    if _order(stamp) > seen:
                        self._on_line(prefix + text)
                        last = _order(stamp)
                is_complete = self._has_ended(name, pod["metadata"]["uid"])
            except CONNECTION_ERRORS:
                is_complete = False
            except ApiException as error:
                is_complete = error.status == http.HTTPStatus.NOT_FOUND
            if is_complete or self._stopping.wait(self._poll_seconds):
                return

    def _has_ended(self, name: str, uid: str) -> bool:
        try:
            pod = self._api.pod(name)
        except (TrainingError, ApiException, *CONNECTION_ERRORS):
            return False
        return pod is None or pod["metadata"]["uid"] != uid or pod["status"].get("phase") in _TERMINAL


def task_of(pod: dict[str, Any]) -> str:
    """The pod's task, such as "worker-1"."""
    labels = pod["metadata"].get("labels", {})
    if "training.kubeflow.org/replica-type" in labels:
        return f"{labels['training.kubeflow.org/replica-type']}-{labels['training.kubeflow.org/replica-index']}".lower()
    # A label since Kubernetes 1.28, an annotation before.
    index = labels | pod["metadata"].get("annotations", {})
    return f"worker-{index.get('batch.kubernetes.io/job-completion-index', '0')}"


def waiting_reason(pod: dict[str, Any]) -> str:
    """Why a pod does not run yet, if there is a reason that a person should know."""
    status = pod["status"]
    for container in status.get("containerStatuses", []):
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            return ": ".join(filter(None, (waiting["reason"], waiting.get("message"))))
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return ": ".join(filter(None, (condition.get("reason"), condition.get("message"))))
    return ""


def _order(stamp: str) -> tuple[str, str]:
    """Sorts RFC 3339 times, whose fraction has as many digits as it needs: "5Z" is later than "49Z"."""
    seconds, _, fraction = stamp.rstrip("Z").partition(".")
    return seconds, fraction.ljust(9, "0")
