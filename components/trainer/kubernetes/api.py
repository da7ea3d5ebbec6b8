"""The few calls to the Kubernetes API that a training job needs, with plain dicts in and out.

Calls are repeated when the server is busy or the connection breaks; what the server refuses is said in one line.
"""

import http
import json
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import urllib3
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from components.trainer.errors import TrainingConfigError, TrainingError

T = TypeVar("T")
Object = dict[str, Any]

_NAMESPACE_FILE = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_BUSY = (429, 500, 502, 503, 504)
_PLURALS = {"TrainingRuntime": "trainingruntimes", "TrainJob": "trainjobs", "JobSet": "jobsets"}
_PLURALS |= {"Job": "jobs", "TFJob": "tfjobs"}

# What a broken connection looks like, from reading as well as from connecting.
CONNECTION_ERRORS = (urllib3.exceptions.HTTPError, ConnectionError, TimeoutError)


class AlreadyExistsError(Exception):
    """An object of that name is there."""


class GoneError(Exception):
    """The version to watch from is too old for the server: read the object again."""


class Api:
    """One namespace of one cluster."""

    def __init__(self, api_client: client.ApiClient, namespace: str, num_tries: int = 5, first_delay: float = 0.5):
        """Uses a configured client; `first_delay` (seconds) is doubled from try to try."""
        self.namespace = namespace
        self._custom = client.CustomObjectsApi(api_client)
        self._core = client.CoreV1Api(api_client)
        self._num_tries = num_tries
        self._first_delay = first_delay

    def serves(self, group: str, version: str, plural: str) -> bool:
        """Whether the cluster knows this kind of object.

        Raises:
          TrainingError: the server does not answer, or does not want to.
        """
        found = self._found(f"look for {plural}.{group}", self._custom.get_api_resources, group, version)
        return found is not None and any(resource.name == plural for resource in found.resources)

    def create(self, manifest: Object) -> Object:
        """Creates an object.

        Raises:
          AlreadyExistsError: it is there already.
          TrainingError: the server refuses it.
        """
        what = f"create {manifest['kind']} {manifest['metadata']['name']}"
        try:
            if manifest["kind"] == "Service":
                return self._call(what, self._core.create_namespaced_service, self.namespace, manifest).to_dict()
            return self._call(what, self._custom.create_namespaced_custom_object, *self._path(manifest), manifest)
        except ApiException as error:
            if error.status == http.HTTPStatus.CONFLICT:
                raise AlreadyExistsError(manifest["metadata"]["name"]) from error
            raise _refused(what, self.namespace, error) from error

    def get(self, manifest: Object) -> Object | None:
        """The object as it is now; None when it is not there."""
        name = manifest["metadata"]["name"]
        what = f"read {manifest['kind']} {name}"
        return self._found(what, self._custom.get_namespaced_custom_object, *self._path(manifest), name)

    def patch(self, manifest: Object, change: Object) -> Object | None:
        """Merges a change into the object; None when it is not there."""
        name = manifest["metadata"]["name"]
        what = f"change {manifest['kind']} {name}"
        if manifest["kind"] == "Service":
            return self._found(what, self._core.patch_namespaced_service, name, self.namespace, change)
        return self._found(what, self._custom.patch_namespaced_custom_object, *self._path(manifest), name, change)

    def delete(self, manifest: Object) -> None:
        """Deletes an object and, in the background, what belongs to it. Its absence is not an error."""
        name = manifest["metadata"]["name"]
        what = f"delete {manifest['kind']} {name}"
        if manifest["kind"] == "Service":
            self._found(what, self._core.delete_namespaced_service, name, self.namespace)
            return
        body = client.V1DeleteOptions(propagation_policy="Background")
        self._found(what, self._custom.delete_namespaced_custom_object, *self._path(manifest), name, body=body)

    def watch(self, manifest: Object, resource_version: str, timeout_seconds: int) -> Iterator[Object]:
        """Yields the object each time that it changes, until the server ends the watch.

        Raises:
          GoneError: resource_version is too old.
          CONNECTION_ERRORS: the connection broke.
        """
        try:
            response = self._custom.list_namespaced_custom_object(
                *self._path(manifest),
                field_selector=f"metadata.name={manifest['metadata']['name']}",
                resource_version=resource_version,
                timeout_seconds=timeout_seconds,
                watch=True,
                _preload_content=False,
                _request_timeout=(10, timeout_seconds + 30),
            )
        except ApiException as error:
            if error.status == http.HTTPStatus.GONE:
                raise GoneError from error
            raise
        for line in _lines(response):
            event = json.loads(line)
            if event["type"] == "ERROR":
                raise GoneError(event["object"].get("message"))
            if event["type"] in ("ADDED", "MODIFIED"):
                yield event["object"]
            if event["type"] == "DELETED":
                return

    def pods(self, label_selector: str) -> list[Object]:
        """Pods with these labels."""
        response = self._call(
            "list pods",
            self._core.list_namespaced_pod,
            self.namespace,
            label_selector=label_selector,
            _preload_content=False,
        )
        return json.loads(response.data)["items"]

    def pod(self, name: str) -> Object | None:
        """One pod; None when it is not there."""
        response = self._found(
            f"read pod {name}", self._core.read_namespaced_pod, name, self.namespace, _preload_content=False
        )
        return None if response is None else json.loads(response.data)

    def log(self, pod: str, container: str, since_seconds: int | None) -> Iterator[str]:
        """Yields a container's lines, each behind its time, until the container ends or the connection does."""
        response = self._core.read_namespaced_pod_log(
            pod,
            self.namespace,
            container=container,
            follow=True,
            timestamps=True,
            since_seconds=since_seconds,
            _preload_content=False,
            _request_timeout=(10, 300),
        )
        return _lines(response)

    def _path(self, manifest: Object) -> tuple[str, str, str, str]:
        group, _, version = manifest["apiVersion"].rpartition("/")
        return group, version, self.namespace, _PLURALS[manifest["kind"]]

    def _found(self, what: str, call: Callable[..., T], *args: Any, **kwargs: Any) -> T | None:
        try:
            return self._call(what, call, *args, **kwargs)
        except ApiException as error:
            if error.status == http.HTTPStatus.NOT_FOUND:
                return None
            raise _refused(what, self.namespace, error) from error

    def _call(self, what: str, call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        delay = self._first_delay
        for remaining in reversed(range(self._num_tries)):
            try:
                return call(*args, **kwargs)
            except CONNECTION_ERRORS as error:
                if not remaining:
                    raise TrainingError(f"cannot {what}: the Kubernetes API does not answer ({error})") from error
            except ApiException as error:
                if error.status not in _BUSY or not remaining:
                    raise
            time.sleep(delay)
            delay *= 2
        raise AssertionError("the last try returns or raises")


def connect(namespace: str = "") -> Api:
    """The cluster that this process runs in, else the one of the kubeconfig file.

    Raises:
      TrainingConfigError: there is neither.
    """
    try:
        config.load_incluster_config()
        return Api(client.ApiClient(), namespace or _NAMESPACE_FILE.read_text(encoding="utf-8").strip())
    except config.ConfigException:
        pass  # not in a cluster: a kubeconfig file it is
    try:
        config.load_kube_config()
        _, active = config.list_kube_config_contexts()
    except config.ConfigException as error:
        raise TrainingConfigError(
            f"cluster: no Kubernetes cluster to train on ({error}); run in one, set KUBECONFIG, or use backend local"
        ) from error
    return Api(client.ApiClient(), namespace or active["context"].get("namespace", "default"))


def _lines(response: urllib3.HTTPResponse) -> Iterator[str]:
    """The lines of a response that arrives in pieces which end anywhere."""
    rest = b""
    try:
        for piece in response.stream(decode_content=True):
            *lines, rest = (rest + piece).split(b"\n")
            yield from (line.decode("utf-8", errors="replace") for line in lines)
        if rest:
            yield rest.decode("utf-8", errors="replace")
    finally:
        response.close()


def _refused(what: str, namespace: str, error: ApiException) -> TrainingError:
    try:
        reason = json.loads(error.body)["message"]
    except (ValueError, TypeError, KeyError):
        reason = error.reason
    advice = ""
    if error.status in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN):
        advice = "; give the step's service account a Role for it"
    return TrainingError(f"cannot {what} in namespace {namespace}: {reason}{advice}")
