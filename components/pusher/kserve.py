"""KServe: a new version is a new revision of an InferenceService, first without requests, then with a share, then all.

`Ready` may speak of the revision before: it counts only once the controller has observed our generation and the latest
revision created is the latest that is ready.
"""

import time
import urllib.parse
from collections.abc import Callable
from typing import Any

from components.pusher import manifests, object_store
from components.pusher.base_folder import BaseFolder
from components.pusher.config import PushTarget
from components.pusher.errors import PushError
from components.pusher.golden import read_golden
from components.pusher.journal import State
from components.pusher.kube_api import KubernetesApi
from components.pusher.replica import RestReplica
from components.pusher.servers import probe

_API_VERSION = "serving.kserve.io/v1beta1"
_KIND = "InferenceService"
_POLL_S = 0.2
_LATEST_TAG = "latest"


class KServe:
    """An InferenceService that serves one version, or two while a canary runs."""

    def __init__(self, target: PushTarget, folder: BaseFolder, api: KubernetesApi) -> None:
        self._target = target
        self._folder = folder
        self._api = api
        self._cluster = target.cluster()

    def snapshot(self) -> dict[str, Any]:
        return {"live": self.live_version()}

    def highest_version(self) -> int:
        service = self._get()
        return max(_version_of(service) or 0, self.live_version() or 0) if service else 0

    def live_version(self) -> int | None:
        """The version that gets most requests: noted on the service, since its spec may name a canary."""
        service = self._get()
        if service is None:
            return None
        noted = service["metadata"].get("annotations", {}).get(manifests.LIVE_ANNOTATION, "")
        return int(noted) if noted.isdigit() else _version_of(service)

    def steps(self) -> dict[State, Callable[[int], None]]:
        steps: dict[State, Callable[[int], None]] = {
            State.AVAILABLE: self._make_available,
            State.PROBED: self._probe,
            State.PROMOTED: self._promote,
        }
        return steps | ({State.CANARY: self._canary} if self._cluster.serverless else {})

    def release(self, version: int) -> set[int]:
        """Uploads whose folder is gone go too; those of the folders that stay are there for a rollback."""
        uri = self._cluster.storage_uri
        if not uri.startswith("pvc://"):
            for old in object_store.versions(uri) - self._folder.versions().keys() - {version}:
                object_store.remove(f"{uri.rstrip('/')}/{old}")
        return {version}

    def restore(self, snapshot: dict[str, Any], failed: int) -> None:
        live = snapshot.get("live")
        if live is None:
            self._api.delete(_API_VERSION, _KIND, self._target.name)
            return
        service = self._get()
        if self._cluster.serverless and service is not None and _version_of(service) == failed:
            self._apply(failed, live=live, canary_percent=0)  # at once: the revision before is still there
        self._upload(live)
        self._apply(live, live=live, canary_percent=None)
        self._probe_url(self._wait_ready(live), live)

    def after_withdrawal(self, snapshot: dict[str, Any]) -> None:
        """Nothing polls the folder: revisions load what their own spec names."""

    def _make_available(self, version: int) -> None:
        """The first version gets all requests at once, since there is nothing else; a later one gets none yet."""
        self._upload(version)
        live = self.live_version()
        first = live in (None, version)
        self._apply(version, live=None if first else live, canary_percent=None if first else 0)
        self._wait_ready(version)

    def _probe(self, version: int) -> None:
        service = self._wait_ready(version)
        traffic = service["status"].get("components", {}).get("predictor", {}).get("traffic", [])
        url = next((entry["url"] for entry in traffic if entry.get("tag") == _LATEST_TAG and "url" in entry), None)
        self._probe_url(service, version, url)

    def _canary(self, version: int) -> None:
        live = self.live_version()
        if live == version:
            return
        self._apply(version, live=live, canary_percent=self._cluster.canary_percent)
        self._wait_ready(version)
        for _ in range(self._target.canary_probes):
            self._probe(version)

    def _promote(self, version: int) -> None:
        self._apply(version, live=version, canary_percent=None)
        self._probe_url(self._wait_ready(version), version)

    def _upload(self, version: int) -> None:
        if self._cluster.storage_uri.startswith("pvc://") or version not in self._folder.versions():
            return  # the cluster sees the folder itself; or it is gone, and only what was uploaded is left
        manifest = self._folder.manifest(version)
        if manifest is None:
            raise PushError(f"{self._folder.path}: version {version} is not of this folder; push its model again")
        uri = f"{self._cluster.storage_uri.rstrip('/')}/{version}/{version}"
        object_store.upload(self._folder.model_path(version), uri, manifest)

    def _apply(self, version: int, *, live: int | None, canary_percent: int | None) -> None:
        self._api.apply(
            manifests.inference_service(
                self._target.name, self._cluster, version, live=live, canary_percent=canary_percent
            )
        )

    def _wait_ready(self, version: int) -> dict[str, Any]:
        deadline = time.monotonic() + self._target.available_timeout_s
        while True:
            service = self._get()
            if service is None:
                raise PushError(f"InferenceService {self._target.name} was deleted during the push")
            waiting = why_not_ready(service, self._cluster.serverless)
            if not waiting:
                return service
            if time.monotonic() >= deadline:
                raise PushError(
                    f"InferenceService {self._target.name} is not ready with version {version} after "
                    f"{self._target.available_timeout_s:g} s: {waiting}"
                )
            time.sleep(_POLL_S)

    def _probe_url(self, service: dict[str, Any], version: int, url: str | None = None) -> None:
        url = url or service["status"].get("url", "")
        host = urllib.parse.urlsplit(url).netloc
        ingress = self._cluster.ingress
        replica = RestReplica(ingress or url, self._target.probe_timeout_s, {"Host": host} if ingress else None)
        probe(replica, self._target.name, read_golden(self._folder.model_path(version)), version=version)

    def _get(self) -> dict[str, Any] | None:
        return self._api.get(_API_VERSION, _KIND, self._target.name)


def why_not_ready(service: dict[str, Any], serverless: bool) -> str:
    """What is still missing for the newest spec to be served, "" when nothing is. Raises PushError if it failed."""
    status, generation = service.get("status", {}), service["metadata"].get("generation", 0)
    if status.get("observedGeneration", 0) < generation:
        return f"generation {generation} is not observed yet (observed: {status.get('observedGeneration', 0)})"
    model = status.get("modelStatus", {})
    if model.get("transitionStatus") in ("BlockedByFailedLoad", "InvalidSpec"):
        failure = model.get("lastFailureInfo", {})
        raise PushError(
            f"InferenceService {service['metadata']['name']} failed: {model['transitionStatus']}: "
            f"{failure.get('message') or failure.get('reason') or 'no reason given'}"
        )
    predictor = status.get("components", {}).get("predictor", {})
    created, ready = predictor.get("latestCreatedRevision"), predictor.get("latestReadyRevision")
    if serverless and (created is None or created != ready):
        return f"revision {created} is not ready (latest ready: {ready})"
    conditions = {condition["type"]: condition for condition in status.get("conditions", [])}
    condition = conditions.get("Ready", {})
    if condition.get("status") != "True":
        return f"not Ready: {condition.get('reason', 'no condition yet')} {condition.get('message', '')}".strip()
    return ""


def _version_of(service: dict[str, Any]) -> int | None:
    uri = service["spec"]["predictor"].get("model", {}).get("storageUri", "")
    last = uri.rstrip("/").rpartition("/")[2]
    return int(last) if last.isdigit() else None
