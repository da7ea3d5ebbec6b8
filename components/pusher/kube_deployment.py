"""TensorFlow Serving in a plain Deployment: our manifests, then the deployment by labels through the model config."""

import time
from collections.abc import Callable
from typing import Any

from components.pusher import manifests
from components.pusher.base_folder import BaseFolder
from components.pusher.config import PushTarget
from components.pusher.configured import ConfiguredServers
from components.pusher.errors import PushError
from components.pusher.journal import State
from components.pusher.kube_api import KubernetesApi
from components.pusher.servers import Servers

_POLL_S = 0.2


class KubernetesDeployment(ConfiguredServers):
    """ConfiguredServers whose servers are the pods of a Deployment that we apply."""

    def __init__(self, target: PushTarget, folder: BaseFolder, servers: Servers, api: KubernetesApi) -> None:
        super().__init__(target, folder, servers)
        self._api = api

    def highest_version(self) -> int:
        """Before the Deployment's first pod there is nobody to ask."""
        if self._api.get("apps/v1", "Deployment", self._target.name) is None:
            return 0
        return super().highest_version()

    def steps(self) -> dict[State, Callable[[int], None]]:
        return {**super().steps(), State.AVAILABLE: self._roll_out}

    def _roll_out(self, version: int) -> None:
        """The pods of the newest manifest first; they become ready with the model that they are then told to load."""
        self._file.ensure_exists()
        for manifest in manifests.tensorflow_serving(self._target.name, self._target.cluster()):
            self._api.apply(manifest)
        self._wait(lambda deployment: why_not_rolled_out(deployment, ready=False))
        self._make_available(version)
        self._wait(lambda deployment: why_not_rolled_out(deployment, ready=True))

    def _wait(self, why_not: Callable[[dict[str, Any]], str]) -> None:
        deadline = time.monotonic() + self._target.available_timeout_s
        while True:
            deployment = self._api.get("apps/v1", "Deployment", self._target.name)
            if deployment is None:
                raise PushError(f"Deployment {self._target.name} was deleted during the push")
            if not (waiting := why_not(deployment)):
                return
            if time.monotonic() >= deadline:
                raise PushError(f"Deployment {self._target.name} is not rolled out: {waiting}")
            time.sleep(_POLL_S)


def why_not_rolled_out(deployment: dict[str, Any], ready: bool) -> str:
    """What is missing until every pod runs the newest template (and, with `ready`, answers); "" when nothing is."""
    status, generation = deployment.get("status", {}), deployment["metadata"].get("generation", 0)
    if status.get("observedGeneration", 0) < generation:
        return f"generation {generation} is not observed yet (observed: {status.get('observedGeneration', 0)})"
    wanted = deployment["spec"].get("replicas", 1)
    counts = {"updatedReplicas": status.get("updatedReplicas", 0), "replicas": status.get("replicas", 0)}
    if ready:
        counts["availableReplicas"] = status.get("availableReplicas", 0)
    conditions = {condition["type"]: condition for condition in status.get("conditions", [])}
    if conditions.get("Progressing", {}).get("reason") == "ProgressDeadlineExceeded" and ready:
        raise PushError(
            f"Deployment {deployment['metadata']['name']} failed: {conditions['Progressing'].get('message')}"
        )
    different = [f"{name} {count}" for name, count in counts.items() if count != wanted]
    return f"{', '.join(different)} of {wanted}" if different else ""
