"""TensorFlow Serving's REST API as a function from (method, path, body) to a reply; the web server is elsewhere."""

import dataclasses
import functools
import json
import logging
import re
import time
import urllib.parse
from typing import Any

from google.protobuf import json_format
from tensorflow_serving.apis import get_model_metadata_pb2, model_pb2

from modules.serving import json_examples, json_tensors, model_api
from modules.serving.manager import ModelManager, ModelRef
from modules.serving.messages import status_response
from modules.serving.metrics import ServingMetrics
from modules.serving.status import Code, ServingError, invalid

METRICS_PATH = "/monitoring/prometheus/metrics"

_LOG = logging.getLogger(__name__)
_MODEL = r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_PREDICTION = re.compile(rf"{_MODEL}:(?P<method>classify|regress|predict)", re.IGNORECASE | re.ASCII)
_STATUS = re.compile(rf"{_MODEL}(?P<metadata>/metadata)?", re.IGNORECASE | re.ASCII)
_INT64_MAX = 2**63 - 1


@dataclasses.dataclass(frozen=True)
class Reply:
    """What goes back to the client."""

    status: int
    body: bytes
    content_type: str = "application/json"


class RestApi:
    """Answers requests. Every failure is a reply with {"error": reason}; nothing is raised."""

    def __init__(self, manager: ModelManager, metrics: ServingMetrics, timeout: float):
        self._manager = manager
        self._metrics = metrics
        self._timeout = timeout

    def answer(self, method: str, path: str, body: bytes) -> Reply:
        """The reply to one request; `path` as it was sent, without the query."""
        if method == "GET" and path == METRICS_PATH:
            return Reply(200, self._metrics.page(), "text/plain; version=0.0.4")
        started = time.monotonic()
        status, api, ref = "OK", "", ModelRef("")
        try:
            ref, api = _route(method, path)
            reply = _document(200, self._dispatch(ref, api, body))
        except ServingError as error:
            status = error.code.name
            reply = error_reply(error.code.http_status, error.message)
        except Exception as error:  # the one place where a fault of this server becomes an answer
            _LOG.exception("%s %s failed", method, path)
            status = Code.INTERNAL.name
            reply = error_reply(500, f"internal error: {type(error).__name__}: {error}")
        if api:
            name = ref.name if ref.name in self._manager.models() else ""  # any client could invent names without end
            self._metrics.request(name, api, "REST", time.monotonic() - started, status)
        return reply

    def _dispatch(self, ref: ModelRef, api: str, body: bytes) -> Any:
        if api == "status":
            return _message(status_response(self._manager.status(ref)))
        if api == "metadata":
            return self._metadata(ref)
        document = json_tensors.parse_document(body)
        name = json_tensors.signature_name(document)
        with self._manager.use(ref) as version:
            run = functools.partial(version.run, timeout=self._timeout)
            if api == "predict":
                signature = version.model.signature(name)
                inputs, rows = json_tensors.predict_inputs(document, signature)
                return json_tensors.predict_response(model_api.predict(run, signature, inputs), rows)
            examples = json_examples.examples_from_json(document)
            if api == "classify":
                return {"results": model_api.classify(run, version.model, name, examples)}
            return {"results": model_api.regress(run, version.model, name, examples)}

    def _metadata(self, ref: ModelRef) -> dict[str, Any]:
        with self._manager.use(ref) as version:
            signatures = get_model_metadata_pb2.SignatureDefMap(signature_def=version.model.meta_graph.signature_def)
            spec = model_pb2.ModelSpec(name=ref.name)
            spec.version.value = version.number
            return {"model_spec": _message(spec), "metadata": {"signature_def": _message(signatures)}}


def _route(method: str, path: str) -> tuple[ModelRef, str]:
    """The model and the API (predict, classify, regress, status or metadata) that a request addresses."""
    pattern = {"POST": _PREDICTION, "GET": _STATUS}.get(method)
    match = pattern.fullmatch(path) if pattern else None
    if match is None:
        if method == "GET" and path.rstrip("/").lower() == "/v1/models":
            raise invalid("Missing model name in request.")
        if not path.lower().startswith("/v1/"):
            raise ServingError(Code.NOT_FOUND, f"Not found: {method} {path}")
        raise invalid(f"Malformed request: {method} {path}")
    parts = match.groupdict()
    version = int(parts["version"]) if parts["version"] and len(parts["version"]) < 20 else None
    if parts["version"] and (version is None or version > _INT64_MAX):
        raise invalid(f"Failed to convert version: {parts['version'][:40]} to numeric.")
    ref = ModelRef(_decoded(parts["name"]), version, _decoded(parts["label"] or ""))
    if method == "POST":
        return ref, parts["method"].lower()
    return ref, "metadata" if parts["metadata"] else "status"


def _decoded(text: str) -> str:
    return urllib.parse.unquote(text, errors="replace")


def _message(message: Any) -> Any:
    """A protocol message as JSON values, with TensorFlow Serving's spelling."""
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def _document(status: int, document: Any) -> Reply:
    return Reply(status, json.dumps(document).encode("ascii"))


def error_reply(status: int, message: str) -> Reply:
    """A reply that says what went wrong."""
    return _document(status, {"error": message})
