"""Warm-up requests: recorded requests that run before a version takes traffic. One that fails fails the load."""

import os
from collections.abc import Iterator

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_serving.apis import input_pb2, prediction_log_pb2

from modules.serving import model_api
from modules.serving.proto_tensors import array_from_proto, examples_from_input
from modules.serving.saved_model import LoadedModel
from modules.serving.status import Code, ServingError, invalid

WARMUP_FILE = "tf_serving_warmup_requests"
MAX_RECORDS = 1000


def run_warmup(model: LoadedModel, assets_extra: str) -> int:
    """Run every request of the warm-up file, in order; returns how many there were.

    Raises:
      ServingError: names the record (from 1) that failed.
    """
    count = 0
    for count, record in enumerate(_records(os.path.join(assets_extra, WARMUP_FILE)), start=1):
        if count > MAX_RECORDS:
            raise invalid(f"Number of warmup records exceeds the maximum ({MAX_RECORDS})")
        try:
            _run(model, prediction_log_pb2.PredictionLog.FromString(record))
        except DecodeError:
            raise invalid(f"warm-up record {count} is not a PredictionLog") from None
        except ServingError as error:
            raise ServingError(error.code, f"warm-up record {count} failed: {error.message}") from error
    return count


def _records(path: str) -> Iterator[bytes]:
    if not os.path.isfile(path):
        return
    try:
        yield from tf.data.TFRecordDataset(path).as_numpy_iterator()
    except tf.errors.OpError as error:
        raise ServingError(Code.INTERNAL, f"cannot read warm-up records from {path}: {error.message}") from error


def _run(model: LoadedModel, log: prediction_log_pb2.PredictionLog) -> None:
    kind = log.WhichOneof("log_type")
    if kind == "predict_log":
        request = log.predict_log.request
        inputs = {alias: array_from_proto(proto) for alias, proto in request.inputs.items()}
        signature = model.signature(request.model_spec.signature_name)
        model_api.predict(model.run, signature, inputs, tuple(request.output_filter))
    elif kind == "classify_log":
        _warm_examples(model, log.classify_log.request.model_spec.signature_name, log.classify_log.request.input, True)
    elif kind == "regress_log":
        _warm_examples(model, log.regress_log.request.model_spec.signature_name, log.regress_log.request.input, False)
    else:
        raise ServingError(Code.UNIMPLEMENTED, f"warm-up records of kind {kind or 'none'} are not supported")


def _warm_examples(model: LoadedModel, name: str, given: input_pb2.Input, classify: bool) -> None:
    examples = examples_from_input(given)
    call = model_api.classify if classify else model_api.regress
    call(model.run, model, name, examples)
