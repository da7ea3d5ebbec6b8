"""Talks to Kubeflow Pipelines' API (v2beta1), and says in plain words what is wrong when it does not work."""

import contextlib
import json
import re
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from kubeflow import answers
from kubeflow.auth import is_page, wants_login
from kubeflow.connection import Connection, Explained
from kubeflow.errors import ConnectionSettingError, KubeflowError

_API = "/apis/v2beta1"
_FINAL_STATES = ("SUCCEEDED", "FAILED", "SKIPPED", "CANCELED")
_RETRIED_STATUS = (429, 502, 503, 504)
_ATTEMPTS = 4
_OF_KUBEFLOW = re.compile(r"(executor|root|entrypoint|pipeline)(\(\d+\))?|.*\..*")
"""Nodes of an Argo workflow that are no steps of the pipeline (names.RESERVED keeps steps from these names)."""


class KubeflowClient:
    """One session. Use it as a context manager."""

    def __init__(self, connection: Connection, pause: Callable[[float], None] | None = None) -> None:
        self._connection, self._pause = connection, pause or time.sleep
        self._host = connection.url
        self._has_answered = False
        verify = connection.trust()
        try:
            self._http = httpx.Client(base_url=self._host, timeout=connection.timeout_seconds, verify=verify)
        except httpx.InvalidURL as error:
            raise ConnectionSettingError(f"--host {connection.host!r}: {error}") from None
        with self._explained():
            connection.credentials.apply(self._http)

    def __enter__(self) -> "KubeflowClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    # -- what there is ---------------------------------------------------------------------------------------------

    def health(self) -> dict[str, Any]:
        """{"multi_user": bool, "version": str}; the version is empty where the server does not say."""
        answer = self._call("GET", f"{_API}/healthz")
        version = ""
        with contextlib.suppress(KubeflowError):  # newer servers have no v1beta1, and v2beta1 does not tell the version
            version = self._call("GET", "/apis/v1beta1/healthz").get("tag_name", "")
        return {"multi_user": bool(answer.get("multi_user")), "version": version}

    def experiment(self, name: str) -> str:
        """Id of the experiment with this name, which is created where there is none."""
        predicate = {"predicates": [{"operation": "EQUALS", "key": "display_name", "string_value": name}]}
        query = {"filter": json.dumps(predicate), "page_size": "1", **self._namespace()}
        found = answers.listed(self._call("GET", f"{_API}/experiments", params=query), "experiments")
        if found:
            return self._id(found[0], "experiment_id")
        body = {"display_name": name, **self._namespace()}
        return self._id(self._call("POST", f"{_API}/experiments", body=body), "experiment_id")

    def experiments(self) -> list[str]:
        """Names of experiments that one may see, a page of them."""
        found = self._call("GET", f"{_API}/experiments", params={"page_size": "100", **self._namespace()})
        return [answers.text(item, "display_name") for item in answers.listed(found, "experiments")]

    # -- runs ------------------------------------------------------------------------------------------------------

    def create_run(
        self,
        name: str,
        experiment_id: str,
        documents: list[dict[str, Any]],
        parameters: dict[str, Any],
        *,
        pipeline_root: str = "",
        service_account: str = "",
    ) -> dict[str, Any]:
        """Starts a run of a compiled pipeline (pipeline spec and platform spec) and returns it."""
        body = self._run_body(name, experiment_id, documents, parameters, pipeline_root, service_account)
        made = self._call("POST", f"{_API}/runs", body=body, params={"experiment_id": experiment_id})
        self._id(made, "run_id")
        return made

    def create_recurring_run(
        self,
        name: str,
        experiment_id: str,
        documents: list[dict[str, Any]],
        parameters: dict[str, Any],
        cron: str,
        *,
        pipeline_root: str = "",
        service_account: str = "",
    ) -> dict[str, Any]:
        """Starts a run whenever `cron` (six fields, seconds first) says, one at a time, and without catching up."""
        body = self._run_body(name, experiment_id, documents, parameters, pipeline_root, service_account)
        body |= {
            "trigger": {"cron_schedule": {"cron": cron}},
            "mode": "ENABLE",
            "max_concurrency": "1",
            "no_catchup": True,
            **self._namespace(),
        }
        made = self._call("POST", f"{_API}/recurringruns", body=body)
        self._id(made, "recurring_run_id")
        return made

    def run(self, run_id: str) -> dict[str, Any]:
        """The run as it is now."""
        found = self._call("GET", f"{_API}/runs/{_quoted(run_id)}")
        self._id(found, "run_id")
        return found

    def cancel(self, run_id: str) -> None:
        """Stops the run; steps that run are killed."""
        self._call("POST", f"{_API}/runs/{_quoted(run_id)}:terminate")

    def disable_recurring_run(self, recurring_run_id: str) -> None:
        """No run is started by it from now on; those that run go on."""
        self._call("POST", f"{_API}/recurringruns/{_quoted(recurring_run_id)}:disable")

    def wait(self, run_id: str, deadline_seconds: float, poll_seconds: float = 10.0) -> Iterator[dict[str, Any]]:
        """The run, at every look at it, until it has ended.

        Raises:
          KubeflowError: where it has not ended after `deadline_seconds`.
        """
        end = time.monotonic() + deadline_seconds
        while True:
            current = self.run(run_id)
            yield current
            if answers.text(current, "state") in _FINAL_STATES:
                return
            if time.monotonic() > end:
                raise KubeflowError(f"run {run_id} has not ended after {deadline_seconds:.0f} s; it goes on without us")
            self._pause(poll_seconds)

    def log(self, run_id: str, pods: list[str]) -> str:
        """The log of the first of `pods` that has one."""
        errors = []
        for pod in pods:
            try:
                with self._explained():
                    response = self._send(
                        "GET", f"/apis/v1alpha1/runs/{_quoted(run_id)}/nodes/{_quoted(pod)}/log", None, None
                    )
            except KubeflowError as error:
                errors.append(str(error))
                continue
            text = response.text
            if response.status_code == 200 and '"error_message"' not in text[:200] and not wants_login(response):
                return text
            errors.append(f"{pod}: {_reason(response)}")
        raise KubeflowError(
            f"run {run_id}: Kubeflow has no log of this step ({'; '.join(errors) or 'it has no pod yet'})"
        )

    def _run_body(
        self,
        name: str,
        experiment_id: str,
        documents: list[dict[str, Any]],
        parameters: dict[str, Any],
        pipeline_root: str,
        service_account: str,
    ) -> dict[str, Any]:
        spec: dict[str, Any] = {"pipeline_spec": documents[0]}
        if len(documents) > 1:
            spec["platform_spec"] = documents[1]
        body: dict[str, Any] = {
            "display_name": name,
            "experiment_id": experiment_id,
            "pipeline_spec": spec,
            "runtime_config": {"parameters": parameters},
        }
        if pipeline_root:
            body["runtime_config"]["pipeline_root"] = pipeline_root
        if service_account:
            body["service_account"] = service_account
        return body

    # -- one call --------------------------------------------------------------------------------------------------

    def _namespace(self) -> dict[str, str]:
        return {"namespace": self._connection.namespace} if self._connection.namespace else {}

    def _call(
        self, method: str, path: str, body: dict[str, Any] | None = None, params: dict[str, str] | None = None
    ) -> dict[str, Any]:
        with self._explained():
            response = self._send(method, path, body, params)
            if wants_login(response):
                raise KubeflowError(
                    f"{self._host} wants a login: give --token-file, or --dex-user for a Dex user. "
                    "Inside the cluster, mount the pod's Kubeflow token."
                )
            if response.has_redirect_location:
                place = response.headers["location"]
                raise KubeflowError(f"{self._host} is not Kubeflow Pipelines: it points to {place}. Is --host right?")
            if not response.is_success:
                raise KubeflowError(self._refusal(response))
            try:
                answer = response.json()
            except (json.JSONDecodeError, UnicodeDecodeError):
                answer = None
            if not isinstance(answer, dict):
                raise KubeflowError(f"{self._host} answers, but not as Kubeflow Pipelines does; is it the right URL?")
            return answer

    def _id(self, answer: dict[str, Any], field: str) -> str:
        if not (found := answers.text(answer, field)):
            raise KubeflowError(f"{self._host} has answered without {field}: is it Kubeflow Pipelines 2.x?")
        return found

    def _send(self, method: str, path: str, body: Any, params: dict[str, str] | None) -> httpx.Response:
        """One request; again after a pause where the server is overloaded, or has answered before and is gone now.

        What creates something is sent only once.
        """
        attempts = _ATTEMPTS if method == "GET" else 1
        for attempt in range(attempts):
            is_last = attempt == attempts - 1
            try:
                response = self._http.request(method, path, json=body, params=params)
            except httpx.TransportError as error:
                if method != "GET" and not isinstance(error, httpx.ConnectError):
                    raise KubeflowError(
                        f"{self._host}: no answer came back ({error or 'connection lost'}). What was asked for may "
                        "have been done: look into the Kubeflow UI before asking again."
                    ) from None
                if is_last or not self._has_answered:
                    raise
            else:
                self._has_answered = True
                if is_last or response.status_code not in _RETRIED_STATUS:
                    return response
            self._pause(2.0**attempt)
        raise AssertionError("unreachable")

    def _refusal(self, response: httpx.Response) -> str:
        reason = _reason(response)
        namespace = self._connection.namespace
        if response.status_code == 401:
            credentials = self._connection.credentials
            advice = "has the --token-file expired?" if credentials.are_given else "give --token-file or --dex-user"
            return f"{self._host} does not know who you are ({reason}); {advice}"
        if response.status_code == 403:
            where = f"in namespace {namespace!r}" if namespace else "without --namespace"
            return f"{self._host}: you may not do this {where} ({reason}). Is it your profile's namespace?"
        if response.status_code == 404 and not _is_of_the_api(response):
            return f"{self._host} has no {response.url.path}: it is older than Kubeflow Pipelines 2.0, or no Kubeflow"
        if response.status_code == 404:
            return f"{self._host}: there is no such run or experiment ({reason})"
        if "single-user" in reason.lower():
            return f"{self._host}: this Kubeflow has one user: leave out --namespace ({reason})"
        if "namespace" in reason.lower() and not namespace:
            return f"{self._host}: this Kubeflow has several users: give --namespace, your profile's ({reason})"
        if "task final status" in reason.lower():
            return f"{self._host}: `outcome` of the config needs Kubeflow Pipelines 2.14 or newer ({reason})"
        return f"{self._host} answered {response.status_code}: {reason}"

    def _explained(self) -> Explained:
        return Explained(self._host, self._connection.timeout_seconds)


def _quoted(identifier: str) -> str:
    return urllib.parse.quote(identifier, safe="")


def _reason(response: httpx.Response) -> str:
    try:
        body = response.json()
    except (json.JSONDecodeError, UnicodeDecodeError):
        text = "" if is_page(response) else " ".join(response.text.split())[:200]
        return text or response.reason_phrase
    if not isinstance(body, dict):
        return str(body)[:200]
    return str(body.get("message") or body.get("error_message") or body.get("error") or response.reason_phrase)


def _is_of_the_api(response: httpx.Response) -> bool:
    """Whether Kubeflow itself says this: with a message. Gateways and other programs have a page, or no words."""
    try:
        body = response.json()
    except (json.JSONDecodeError, UnicodeDecodeError):
        return False
    return isinstance(body, dict) and bool(body.get("message")) and _reason(response) != "Not Found"


def tasks_of(run: dict[str, Any]) -> list[dict[str, Any]]:
    """Steps of a run as people see them: {"name", "state", "pods", "error"}, in the order in which they started.

    Kubeflow lists every node of the Argo workflow; drivers, executors and DAGs are left out or folded into their step.
    """
    steps = []
    for task in answers.listed(answers.mapping(run, "run_details"), "task_details"):
        name = answers.text(task, "display_name")
        if name.endswith("-driver") or _OF_KUBEFLOW.fullmatch(name) or name == run.get("display_name"):
            continue
        pods = [answers.text(node, "pod_name") for node in (task, *answers.listed(task, "child_tasks"))]
        steps.append(
            {
                "name": name,
                "state": answers.text(task, "state") or "PENDING",
                "pods": [pod for pod in pods if pod],
                "error": answers.text(answers.mapping(task, "error"), "message"),
                "start": answers.text(task, "start_time"),
            }
        )
    return sorted(steps, key=lambda step: step["start"] or "~")


def pod_names(pods: list[str]) -> list[str]:
    """Names that a step's pods may have: Kubeflow gives ids of Argo nodes; Argo puts the template between."""
    names = []
    for pod in pods:
        names.append(pod)
        workflow, _, number = pod.rpartition("-")
        names += [
            f"{workflow}-{template}-{number}" for template in ("system-container-impl", "retry-system-container-impl")
        ]
    return names
