"""The verifying process: `python -m components.pusher.verify_process '{"model": ..., ...}'`.

It loads the SavedModel into a session, which is how TensorFlow Serving loads it, and prints one JSON object last:
a report, or {"error": why}. It imports TensorFlow, not TFX.
"""

import ctypes
import json
import os
import pathlib
import re
import signal
import sys
import time
from typing import Any

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import fingerprint_pb2, meta_graph_pb2, saved_model_pb2
from tensorflow.python.saved_model.pywrap_saved_model import fingerprinting
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from components.pusher.golden import GOLDEN_PATH, WARMUP_PATH, Golden, GoldenError, read_golden

MAX_WARMUP_RECORDS = 1000  # TensorFlow Serving refuses a model with more
_PR_SET_PDEATHSIG = 1
_VARIABLE_OPS = {"VarHandleOp", "VariableV2", "Variable"}


class RefusedError(Exception):
    """The model must not be served; the message says why."""


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Verifies the model of the request and returns the report."""
    started = time.monotonic()
    folder = pathlib.Path(request["model"])
    graph = read_serving_graph(folder)
    check_files(folder, graph)
    session = load(folder)
    golden = read_golden(folder)
    if golden is None and request["require_golden"]:
        raise RefusedError(f"{GOLDEN_PATH} is missing, and the push target requires it (require_golden)")
    warnings = [] if golden else [f"no {GOLDEN_PATH}: only loading was checked, not what the model predicts"]
    difference = compare_golden(session, graph, golden) if golden else None
    if golden and not (folder / WARMUP_PATH).exists():
        write_warmup(folder, request["name"], golden, request["warmup_batch_sizes"])
    return {
        "signatures": {name: sorted(signature.inputs) for name, signature in graph.signature_def.items()},
        "golden": {"rows": len(golden.examples), "max_difference": difference} if golden else None,
        "warmup_records": replay_warmup(session, graph, folder / WARMUP_PATH),
        "warnings": warnings,
        "seconds": round(time.monotonic() - started, 3),
    }


def read_serving_graph(folder: pathlib.Path) -> meta_graph_pb2.MetaGraphDef:
    """The graph tagged `serve` of saved_model.pb or, where that is missing, saved_model.pbtxt."""
    binary, text = folder / "saved_model.pb", folder / "saved_model.pbtxt"
    saved_model = saved_model_pb2.SavedModel()
    try:
        if binary.exists():
            saved_model.ParseFromString(binary.read_bytes())
        elif text.exists():
            text_format.Parse(text.read_text(encoding="utf-8"), saved_model)
        else:
            raise RefusedError("neither saved_model.pb nor saved_model.pbtxt is there: it is not a SavedModel")
    except (DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise RefusedError(f"the graph file is damaged or cut short: {error}") from None
    tags = [sorted(graph.meta_info_def.tags) for graph in saved_model.meta_graphs]
    for graph, graph_tags in zip(saved_model.meta_graphs, tags, strict=True):
        if graph_tags == ["serve"]:
            if not any(signature.inputs for signature in graph.signature_def.values()):
                raise RefusedError("the graph has no signature that takes inputs: export it with `signatures=`")
            return graph
    raise RefusedError(f"no graph is tagged 'serve'; tags found: {tags}")


def check_files(folder: pathlib.Path, graph: meta_graph_pb2.MetaGraphDef) -> None:
    """Refuses what TensorFlow Serving would load without a word: no variables, or another model's graph file."""
    has_variables = any(node.op in _VARIABLE_OPS for node in graph.graph_def.node)
    if has_variables and not (folder / "variables" / "variables.index").exists():
        raise RefusedError("the graph has variables, and variables/variables.index is missing")
    if (folder / "saved_model.pb").exists() and (folder / "fingerprint.pb").exists():
        written = fingerprint_pb2.FingerprintDef.FromString((folder / "fingerprint.pb").read_bytes())
        found = fingerprint_pb2.FingerprintDef.FromString(fingerprinting.CreateFingerprintDef(str(folder)))
        if written.saved_model_checksum != found.saved_model_checksum:
            raise RefusedError(
                "saved_model.pb is not the file that fingerprint.pb was written for: it is damaged, or was edited "
                "after the export (then delete fingerprint.pb)"
            )


def load(folder: pathlib.Path) -> tf.compat.v1.Session:
    """The model in a session; reading every variable checks its checksum."""
    session = tf.compat.v1.Session(graph=tf.Graph())
    try:
        with session.graph.as_default():
            tf.compat.v1.saved_model.load(session, ["serve"], str(folder))
    except (tf.errors.OpError, OSError, ValueError, RuntimeError, KeyError) as error:
        raise RefusedError(f"it does not load: {cause(error)}") from None
    return session


def compare_golden(session: tf.compat.v1.Session, graph: meta_graph_pb2.MetaGraphDef, golden: Golden) -> float:
    """Predicts the golden examples and returns the largest difference; refuses one above the tolerance."""
    signature = graph.signature_def.get(golden.signature)
    if signature is None:
        raise RefusedError(f"no signature {golden.signature!r}; there are {', '.join(sorted(graph.signature_def))}")
    if golden.input_key not in signature.inputs:
        raise RefusedError(f"signature {golden.signature!r} takes {sorted(signature.inputs)}, not {golden.input_key!r}")
    return golden.compare(run(session, signature, {golden.input_key: np.array(golden.examples, dtype=object)}))


def write_warmup(folder: pathlib.Path, name: str, golden: Golden, batch_sizes: list[int]) -> None:
    """Writes one Predict request per batch size, so that the first real request of each size finds a warm server."""
    if not batch_sizes:
        return
    path = folder / WARMUP_PATH
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for size in batch_sizes:
            rows = [golden.examples[row % len(golden.examples)] for row in range(size)]
            request = predict_pb2.PredictRequest()
            request.model_spec.name = name
            request.model_spec.signature_name = golden.signature
            request.inputs[golden.input_key].CopyFrom(tf.make_tensor_proto(rows, dtype=tf.string, shape=[size]))
            log = prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))
            writer.write(log.SerializeToString())


def replay_warmup(session: tf.compat.v1.Session, graph: meta_graph_pb2.MetaGraphDef, path: pathlib.Path) -> int:
    """Runs the warm-up requests as the server will at load, where a failing one fails the load. Returns how many."""
    if not path.exists():
        return 0
    count = 0
    try:
        for record in tf.compat.v1.io.tf_record_iterator(str(path)):
            log = prediction_log_pb2.PredictionLog.FromString(record)
            count += 1
            if log.WhichOneof("log_type") == "predict_log":
                _replay_predict(session, graph, log.predict_log.request)
    except (tf.errors.OpError, DecodeError, ValueError, KeyError) as error:
        raise RefusedError(f"warm-up request {count} of {WARMUP_PATH} fails: {cause(error)}") from None
    if count > MAX_WARMUP_RECORDS:
        raise RefusedError(f"{count} warm-up requests; the server loads no model with more than {MAX_WARMUP_RECORDS}")
    return count


def _replay_predict(session: Any, graph: meta_graph_pb2.MetaGraphDef, request: predict_pb2.PredictRequest) -> None:
    name = request.model_spec.signature_name or "serving_default"
    inputs = {key: tf.make_ndarray(tensor) for key, tensor in request.inputs.items()}
    run(session, graph.signature_def[name], inputs)


def run(session: Any, signature: meta_graph_pb2.SignatureDef, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs a signature: inputs and outputs by key."""
    feed = {signature.inputs[key].name: value for key, value in inputs.items()}
    try:
        return session.run({key: output.name for key, output in signature.outputs.items()}, feed)
    except tf.errors.OpError as error:
        raise RefusedError(f"predicting fails: {cause(error)}") from None


def cause(error: BaseException) -> str:
    """What went wrong, in one line: without TensorFlow's headings ("Graph execution error:") and names of nodes."""
    message = re.sub(r"\{\{[^{}]*\}\}", "", getattr(error, "message", None) or str(error))
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    causes = [line for line in lines if not line.endswith((":", "root error(s) found."))]
    return (causes or lines or [repr(error)])[0][:500]


def die_with(parent: int) -> None:
    """Ends this process when the deployer dies: nobody may write into a staging folder that a later push removes."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:  # Linux
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died while TensorFlow was imported
        os._exit(1)


if __name__ == "__main__":
    _request = json.loads(sys.argv[1])
    die_with(_request["parent"])
    try:
        _report = main(_request)
    except (RefusedError, GoldenError) as refused:
        _report = {"error": str(refused)}
    print(json.dumps(_report), flush=True)
    os._exit(0)  # TensorFlow's own exit takes a second and has nothing left to do
