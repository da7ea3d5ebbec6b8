"""The few calls to the Kubernetes API that a deployment needs, with errors that say what to do."""

from typing import Any

from components.pusher.errors import PushError
from components.pusher.kubernetes_config import KubernetesConfig

FIELD_MANAGER = "sluice"
_PLURALS = {
    "InferenceService": "inferenceservices",
    "Deployment": "deployments",
    "Service": "services",
    "ConfigMap": "configmaps",
    "HorizontalPodAutoscaler": "horizontalpodautoscalers",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "HTTPRoute": "httproutes",
}


class KubernetesApi:
    """Get, server-side apply and delete of namespaced objects."""

    def __init__(self, config: KubernetesConfig, timeout_s: float = 30.0) -> None:
        from kubernetes import client  # a second to import, and only needed here

        self._namespace = config.namespace
        self._timeout_s = timeout_s
        self._client = client.ApiClient(_configuration(config))

    def get(self, api_version: str, kind: str, name: str) -> dict[str, Any] | None:
        """The object, None where there is none."""
        return self._call("GET", self._path(api_version, kind, name), f"read {kind} {name}")

    def apply(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Creates or changes an object to what `manifest` says of it; fields that we set before and drop now go."""
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        path = self._path(manifest["apiVersion"], kind, name)
        applied = self._call("PATCH", path, f"apply {kind} {name}", manifest)
        if applied is None:
            raise PushError(f"cannot apply {kind} {name}: the cluster does not know {manifest['apiVersion']} {kind}")
        return applied

    def delete(self, api_version: str, kind: str, name: str) -> None:
        """Deletes an object; one that is not there is as good as deleted."""
        self._call("DELETE", self._path(api_version, kind, name), f"delete {kind} {name}")

    def _path(self, api_version: str, kind: str, name: str) -> str:
        root = "api" if "/" not in api_version else "apis"
        return f"/{root}/{api_version}/namespaces/{self._namespace}/{_PLURALS[kind]}/{name}"

    def _call(self, method: str, path: str, action: str, body: Any = None) -> dict[str, Any] | None:
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        is_apply = method == "PATCH"
        try:
            return self._client.call_api(
                path,
                method,
                query_params=[("fieldManager", FIELD_MANAGER), ("force", "true")] if is_apply else [],
                header_params={
                    "Accept": "application/json",
                    "Content-Type": "application/apply-patch+yaml" if is_apply else "application/json",
                },
                body=body,
                response_type="object",
                auth_settings=["BearerToken"],
                _return_http_data_only=True,
                _request_timeout=self._timeout_s,
            )
        except ApiException as error:
            if error.status == 404:
                return None
            raise PushError(f"cannot {action} in namespace {self._namespace}: {_reason(error)}") from None
        except (HTTPError, OSError) as error:
            raise PushError(f"cannot {action}: the Kubernetes API does not answer: {error}") from None


def _configuration(config: KubernetesConfig) -> Any:
    from kubernetes import client
    from kubernetes import config as loading

    configuration = client.Configuration()
    if config.api_server:
        configuration.host = config.api_server
        return configuration
    try:
        loading.load_incluster_config(client_configuration=configuration)
    except loading.ConfigException:
        try:
            loading.load_kube_config(client_configuration=configuration)
        except loading.ConfigException as error:
            raise PushError(f"no cluster to push to: not in a pod, and no kubeconfig: {error}") from None
    return configuration


def _reason(error: Any) -> str:
    advice = {
        401: "not logged in, or the token has expired",
        403: "the account lacks the right; bind it a role with get, patch, create and delete",
        409: "another manager owns the same fields",
        422: "the API server refuses the object",
    }
    text = (error.body or "")[:300]
    return f"{error.status} {error.reason}: {advice.get(error.status, 'see the message')}: {text}"
