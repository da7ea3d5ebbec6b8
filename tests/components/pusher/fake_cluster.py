"""An HTTP server that speaks the part of the Kubernetes API that the Pusher uses, with controllers that lag behind.

It is no Kubernetes. It does what is documented of it and what has bitten: `generation` rises with the spec, a status
describes the generation before for a while (`lag` reads), a revision that fails to load leaves the one before serving
and `Ready`, an object store is copied once, when a revision starts. Models are really served, by the development
server.
"""

import contextlib
import http.server
import json
import pathlib
import threading
from typing import Any

import fsspec
import yaml


class FakeCluster:
    """Holds objects by (plural, name); `revisions` are the running model servers of an InferenceService."""

    def __init__(self, claim: pathlib.Path, scratch: pathlib.Path, lag: int = 1) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.applied: list[dict[str, Any]] = []
        self.refuse: int | None = None
        self.revisions: list[dict[str, Any]] = []
        self._claim, self._scratch, self._lag = claim, scratch, lag
        self._reads_to_go = 0
        self._stack = contextlib.ExitStack()
        cluster = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(cluster.get(*_key(self.path)))

            def do_PATCH(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.headers["Content-Type"] == "application/apply-patch+yaml"
                assert "fieldManager=sluice" in self.path
                self._answer(cluster.apply(_key(self.path), yaml.safe_load(body)))

            def do_DELETE(self) -> None:
                self._answer(cluster.objects.pop(_key(self.path), None))

            def _answer(self, found: dict[str, Any] | None) -> None:
                status = cluster.refuse or (200 if found is not None else 404)
                body = json.dumps(found if status == 200 else {"message": "refused"}).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> "FakeCluster":
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._stack.close()

    def apply(self, key: tuple[str, str], manifest: dict[str, Any]) -> dict[str, Any]:
        self.applied.append(manifest)
        old = self.objects.get(key)
        generation = old["metadata"]["generation"] if old else 0
        if old is None or old.get("spec") != manifest.get("spec"):
            generation += 1
            self._reads_to_go = self._lag
        metadata = {**manifest["metadata"], "generation": generation}
        self.objects[key] = {**manifest, "metadata": metadata, "status": old.get("status", {}) if old else {}}
        return self.objects[key]

    def get(self, plural: str, name: str) -> dict[str, Any] | None:
        found = self.objects.get((plural, name))
        if found is None:
            return None
        if self._reads_to_go > 0:
            self._reads_to_go -= 1
        elif plural == "inferenceservices":
            self._reconcile_inference_service(found)
        elif plural == "deployments":
            found["spec"].setdefault("replicas", 1)
            counts = dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas"), found["spec"]["replicas"])
            found["status"] = {"observedGeneration": found["metadata"]["generation"], **counts}
        return found

    def _reconcile_inference_service(self, service: dict[str, Any]) -> None:
        status, generation = service["status"], service["metadata"]["generation"]
        if status.get("observedGeneration") == generation:
            return
        status["observedGeneration"] = generation
        predictor = service["spec"]["predictor"]
        uri = predictor["model"]["storageUri"]
        if not self.revisions or self.revisions[-1]["uri"] != uri:
            self.revisions.append(self._start(uri, service["metadata"]["name"]))
        latest = self.revisions[-1]
        ready = [revision for revision in self.revisions if revision["url"]]
        if "canaryTrafficPercent" not in predictor and latest["url"]:
            for revision in self.revisions:
                revision["rolled_out"] = revision is latest
        main = next((revision for revision in ready if revision["rolled_out"]), None)
        status["modelStatus"] = {"transitionStatus": "UpToDate"}
        if not latest["url"]:
            failure = {"message": "the model server did not load the model"}
            status["modelStatus"] = {"transitionStatus": "BlockedByFailedLoad", "lastFailureInfo": failure}
        status["conditions"] = [{"type": "Ready", "status": "True" if ready else "False", "reason": "Revisions"}]
        status["url"] = main["url"] if main else ""
        status["components"] = {
            "predictor": {
                "latestCreatedRevision": latest["name"],
                "latestReadyRevision": ready[-1]["name"] if ready else None,
                "traffic": [{"tag": "latest", "url": latest["url"], "percent": 0}] if latest["url"] else [],
            }
        }

    def _start(self, uri: str, name: str) -> dict[str, Any]:
        """Starts a model server on the storage, as a predictor pod would; its URL is empty if it does not load."""
        from modules.serving.manager import LoadingConfig, ModelRef
        from modules.serving.model_config import ModelConfig
        from modules.serving.server import ModelServer, ServerConfig

        number = len(self.revisions) + 1
        if uri.startswith("pvc://"):
            folder = self._claim / uri.removeprefix("pvc://").partition("/")[2]
        else:
            folder = self._scratch / f"revision-{number}"
            filesystem, path = fsspec.core.url_to_fs(uri)
            filesystem.get(path + "/", f"{folder}/", recursive=True)
        config = ServerConfig(
            rest_port=0, grpc_port=0, drain_seconds=1.0, loading=LoadingConfig(poll_seconds=0.05, max_retries=0)
        )
        server = self._stack.enter_context(ModelServer([ModelConfig(name, str(folder))], config, roots=["/"]))
        loaded = any(version.state.name == "AVAILABLE" for version in server.manager.status(ModelRef(name)))
        return {
            "name": f"{name}-{number:05d}",
            "uri": uri,
            "url": server.rest_url if loaded else "",
            "rolled_out": False,
        }


def _key(path: str) -> tuple[str, str]:
    plural, name = path.partition("?")[0].split("/")[-2:]
    return plural, name
