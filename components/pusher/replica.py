"""One running model server, asked through TensorFlow Serving's public API: REST here, gRPC in grpc_replica.py."""

import base64
import dataclasses
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Protocol

import numpy as np

from components.pusher.golden import Golden

MAX_MESSAGE_BYTES = 256 << 20  # gRPC's own default of 4 MiB is less than a large batch


class ReplicaError(RuntimeError):
    """The server did not answer, or refused. `code` is gRPC's name of the reason, UNAVAILABLE when nobody is there."""

    def __init__(self, message: str, code: str = "UNKNOWN") -> None:
        super().__init__(message)
        self.code = code


@dataclasses.dataclass(frozen=True)
class VersionStatus:
    """What a server says of one version: START, LOADING, AVAILABLE, UNLOADING or END, and the error if it failed."""

    state: str
    error: str = ""

    @property
    def has_failed(self) -> bool:
        """The load was given up; the server will not try again by itself."""
        return self.state == "END" and bool(self.error)


class Replica(Protocol):
    """A server at one address."""

    address: str

    def status(self, name: str) -> dict[int, VersionStatus]:
        """The versions of the model `name` that the server knows of; {} when it knows no such model."""

    def predict(self, name: str, golden: Golden, *, version: int | None = None, label: str = "") -> dict[str, Any]:
        """Asks the golden examples of a version, of a label, or of whatever the server serves by default."""

    def check_metadata(self, name: str, *, version: int | None = None, label: str = "") -> None:
        """Asks for the signatures: all that can be asked of a model without knowing what to feed it."""

    def reload(self, config: Any, timeout_s: float) -> None:
        """Replaces the server's whole list of models by a ModelServerConfig message; waits until new ones are there."""


def connect(address: str, timeout_s: float) -> Replica:
    """A replica by its address: "http://host:port" speaks REST, "host:port" gRPC."""
    if address.startswith(("http://", "https://")):
        return RestReplica(address, timeout_s)
    from components.pusher.grpc_replica import GrpcReplica  # imports TensorFlow's protos, which takes seconds

    return GrpcReplica(address, timeout_s)


class RestReplica:
    """A server by its REST API. It cannot reload: that is gRPC only."""

    def __init__(self, address: str, timeout_s: float, headers: dict[str, str] | None = None) -> None:
        self.address = address.rstrip("/")
        self._timeout_s = timeout_s
        self._headers = headers or {}

    def status(self, name: str) -> dict[int, VersionStatus]:
        try:
            answer = self._ask("GET", _path(name))
        except ReplicaError as error:
            if error.code == "NOT_FOUND":
                return {}
            raise
        return {
            int(entry["version"]): VersionStatus(
                entry["state"], "" if entry["status"].get("error_code") in ("OK", None) else _reason(entry["status"])
            )
            for entry in answer.get("model_version_status", [])
        }

    def predict(self, name: str, golden: Golden, *, version: int | None = None, label: str = "") -> dict[str, Any]:
        rows = [{"b64": base64.b64encode(example).decode()} for example in golden.examples]
        body = {"signature_name": golden.signature, "inputs": {golden.input_key: rows}}
        outputs = self._ask("POST", f"{_path(name, version, label)}:predict", body)["outputs"]
        if not isinstance(outputs, dict) or not golden.outputs.keys() <= outputs.keys():
            outputs = {next(iter(golden.outputs)): outputs}  # a signature with one output is answered by it alone
        return {key: _decoded(value) for key, value in outputs.items()}

    def check_metadata(self, name: str, *, version: int | None = None, label: str = "") -> None:
        self._ask("GET", f"{_path(name, version, label)}/metadata")

    def reload(self, config: Any, timeout_s: float) -> None:
        raise ReplicaError(f"{self.address}: a REST address cannot reload the model config; give the gRPC address")

    def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Content-Type": "application/json", **self._headers}
        request = urllib.request.Request(self.address + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as response:
                return json.loads(response.read())
        except urllib.error.HTTPError as error:
            reason = error.read(2000).decode(errors="replace")
            code = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 412: "FAILED_PRECONDITION"}.get(error.code, "UNKNOWN")
            raise ReplicaError(f"{self.address}{path}: HTTP {error.code}: {reason}", code) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ReplicaError(f"{self.address}{path}: {error}", "UNAVAILABLE") from None


def _path(name: str, version: int | None = None, label: str = "") -> str:
    path = f"/v1/models/{urllib.parse.quote(name, safe='')}"
    if version is not None:
        return f"{path}/versions/{version}"
    return f"{path}/labels/{urllib.parse.quote(label, safe='')}" if label else path


def _reason(status: dict[str, str]) -> str:
    return f"{status.get('error_code')}: {status.get('error_message', '')}"


def _decoded(value: Any) -> Any:
    """Byte strings come as {"b64": ...}, anywhere in a nested list."""
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if isinstance(value, dict) and value.keys() == {"b64"}:
        return base64.b64decode(value["b64"])
    return np.asarray(value) if isinstance(value, dict) else value
