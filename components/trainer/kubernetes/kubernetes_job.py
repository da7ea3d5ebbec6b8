"""A training cluster on Kubernetes, as the step sees it: created or adopted, watched, restarted, cancelled."""

import pathlib
import queue
import threading
import time
from typing import Any

from kubernetes.client.exceptions import ApiException

from components.trainer.errors import TrainingError
from components.trainer.failure import cancelled, too_late
from components.trainer.job import JobResult
from components.trainer.kubernetes.api import CONNECTION_ERRORS, AlreadyExistsError, Api, GoneError
from components.trainer.kubernetes.job_spec import JOB_LABEL, SPEC_HASH_ANNOTATION, KubernetesJobSpec, Owner
from components.trainer.kubernetes.manifests import JobKind
from components.trainer.kubernetes.outcome import Outcome, outcome_of, result_of
from components.trainer.kubernetes.pod_logs import PodLogs
from components.trainer.supervised_job import SupervisedJob

_CANCEL = "cancel"


class KubernetesJob(SupervisedJob):
    """See `components.trainer.job.Job`."""

    _whom = "pods"

    def __init__(
        self,
        spec: KubernetesJobSpec,
        kind: JobKind,
        api: Api,
        log_path: pathlib.Path,
        poll_seconds: float = 2.0,
        watch_seconds: int = 240,
    ):
        """Nothing is created yet.

        Args:
          spec: the cluster.
          kind: what to create.
          api: where to create it.
          log_path: a local file that collects the lines of all pods.
          poll_seconds: between two looks at pods that come or go, and after a broken connection.
          watch_seconds: length of one watch request; it is then asked anew.
        """
        super().__init__(spec.cluster, log_path)
        self._spec = spec
        self._kind = kind
        self._api = api
        self._manifests = kind.build(spec)
        self._job = self._manifests[-1]
        self._poll_seconds = poll_seconds
        self._watch_seconds = watch_seconds
        self._events: queue.SimpleQueue[Outcome | BaseException | str] = queue.SimpleQueue()
        self._cancelling = threading.Event()

    def submit(self) -> None:
        """Creates the job, or adopts the one that an earlier try of this very step has left running."""
        self._create()
        super().submit()

    def cancel(self) -> None:
        """Deletes the job; its pods get SIGTERM and their grace period."""
        self._cancelling.set()
        self._events.put(_CANCEL)

    def _run_attempts(self) -> JobResult:
        pod_logs = PodLogs(self._api, self._pod_selector, self._log.append, self._poll_seconds)
        pod_logs.start()
        try:
            return super()._run_attempts()
        finally:
            pod_logs.finish()

    @property
    def _pod_selector(self) -> str:
        return f"{JOB_LABEL}={self._spec.name}"

    def _may_restart(self, result: JobResult) -> bool:
        return not self._kind.restarts_itself and super()._may_restart(result)

    def _is_cancelled(self) -> bool:
        return self._cancelling.is_set()

    def _pause(self, seconds: float) -> None:
        self._delete_and_wait()
        self._cancelling.wait(max(0.0, min(seconds, self._deadline - time.monotonic())))

    def _run_attempt(self, attempt: int) -> JobResult:
        if attempt:  # `submit` has created the first
            self._create()
        return self._await_end(attempt)

    def _await_end(self, attempt: int) -> JobResult:
        stopping = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(stopping,), name="job-watch", daemon=True)
        watcher.start()
        try:
            timeout = None if self._deadline == float("inf") else max(0.0, self._deadline - time.monotonic())
            event = self._events.get(timeout=timeout)
        except queue.Empty:
            self._delete_and_wait()
            return too_late(attempt)
        finally:
            stopping.set()
        if isinstance(event, BaseException):
            raise event
        if isinstance(event, str):
            self._delete_and_wait()
            return cancelled(attempt)
        return result_of(event, self._api.pods(self._pod_selector), attempt)

    def _watch(self, stopping: threading.Event) -> None:
        """Finds the end of the job, through whatever happens to the connection, and puts it into the queue."""
        try:
            while not stopping.is_set():
                job = self._api.get(self._job)
                if job is None:
                    raise TrainingError(f"{self._job['kind']} {self._spec.name} was deleted by somebody else")
                if self._report(job, stopping):
                    return
                self._watch_once(job["metadata"]["resourceVersion"], stopping)
        except BaseException as error:
            if not stopping.is_set():
                self._events.put(error)

    def _watch_once(self, resource_version: str, stopping: threading.Event) -> None:
        try:
            for job in self._api.watch(self._job, resource_version, self._watch_seconds):
                if self._report(job, stopping):
                    stopping.set()
                    return
        except GoneError:
            return  # the object is read again, and watched from where it is now
        except (ApiException, *CONNECTION_ERRORS):
            stopping.wait(self._poll_seconds)

    def _report(self, job: dict[str, Any], stopping: threading.Event) -> bool:
        outcome = outcome_of(self._kind, job)
        if outcome is None or stopping.is_set():
            return stopping.is_set()
        self._events.put(outcome)
        return True

    def _create(self) -> None:
        for manifest in self._manifests:
            try:
                self._api.create(manifest)
            except AlreadyExistsError:
                self._adopt(manifest)

    def _adopt(self, manifest: dict[str, Any]) -> None:
        """Takes over an object of the same name, or replaces it where it is of no more use."""
        if manifest is self._job:
            found = self._api.get(manifest)
            outcome = None if found is None else outcome_of(self._kind, found)
            is_over = outcome is not None and not outcome.has_succeeded
            if found is None or is_over or "deletionTimestamp" in found["metadata"]:
                self._delete_and_wait(keep=self._manifests[:-1])
                self._api.create(manifest)
                return
            wanted = manifest["metadata"]["annotations"][SPEC_HASH_ANNOTATION]
            if found["metadata"].get("annotations", {}).get(SPEC_HASH_ANNOTATION) != wanted:
                raise TrainingError(
                    f"{manifest['kind']} {self._spec.name} is there already, for other settings; delete it first: "
                    f"kubectl -n {self._api.namespace} delete {self._kind.plural}.{self._kind.group} {self._spec.name}"
                )
            self._log.append(f"going on with {manifest['kind']} {self._spec.name}, which an earlier try has started")
        if self._spec.owner:
            self._become_owner(manifest, self._spec.owner)

    def _become_owner(self, manifest: dict[str, Any], owner: Owner) -> None:
        """The pod that has created the object may be gone soon, and would take it along."""
        try:
            self._api.patch(manifest, {"metadata": {"ownerReferences": [owner.reference()]}})
        except TrainingError as error:
            self._log.append(f"{manifest['kind']} {self._spec.name} may go with the pod that has created it: {error}")

    def _delete_and_wait(self, keep: list[dict[str, Any]] | None = None) -> None:
        """Deletes everything and waits until no pod is left, which takes up to the pods' grace period."""
        for manifest in reversed(self._manifests):
            if manifest not in (keep or []):
                self._api.delete(manifest)
        deadline = time.monotonic() + self._spec.pods.termination_grace_seconds + 30
        while self._api.get(self._job) is not None or self._api.pods(self._pod_selector):
            if time.monotonic() > deadline:
                raise TrainingError(f"pods of {self._spec.name} are still there after they were deleted")
            time.sleep(self._poll_seconds)
