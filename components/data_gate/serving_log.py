"""Logged requests as tf.Examples: files of tf.Examples, or of PredictionLogs as TensorFlow Serving writes them."""

import os
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_serving.apis import input_pb2, prediction_log_pb2

from components.data_gate import example_files
from components.data_gate.errors import GateConfigError


def serving_batches(folder: str) -> Iterator[pa.RecordBatch]:
    """The requests in all TFRecord files below `folder`, as list columns.

    Raises:
      GateConfigError: no such folder, no TFRecord in it, or logs that hold no tf.Example.
    """
    files = [os.path.join(root, name) for root, _, names in tf.io.gfile.walk(folder) for name in sorted(names)]
    files = [file for file in files if example_files.is_tfrecord_file(file)]
    if not files:
        raise GateConfigError(f"{folder}: no TFRecord files; log tf.Examples or PredictionLogs there")
    for file in files:
        for records in example_files.record_batches(file):
            examples = _examples(records, file)
            if examples:
                yield example_files.decode(examples)


def _examples(records: np.ndarray, file: str) -> list[bytes]:
    """What each record asked about; a tf.Example is its own answer."""
    try:
        first = prediction_log_pb2.PredictionLog.FromString(records[0])
    except DecodeError as error:
        raise GateConfigError(f"{file}: its records are neither tf.Examples nor PredictionLogs") from error
    if first.WhichOneof("log_type") is None:  # a tf.Example has none of these fields
        return list(records)
    examples = [example for record in records for example in _requested(record)]
    if not examples:
        raise GateConfigError(f"{file}: its PredictionLogs hold no tf.Example; log the signature that takes examples")
    return examples


def _requested(record: bytes) -> Sequence[bytes]:
    log = prediction_log_pb2.PredictionLog.FromString(record)
    if log.HasField("predict_log"):
        inputs = log.predict_log.request.inputs.values()
        return [value for tensor in inputs for value in tensor.string_val if _is_example(value)]
    for kind in ("classify_log", "regress_log"):
        if log.HasField(kind):
            return _listed(getattr(log, kind).request.input)
    return []


def _listed(requested: input_pb2.Input) -> list[bytes]:
    examples = requested.example_list.examples or requested.example_list_with_context.examples
    return [example.SerializeToString() for example in examples]


def _is_example(value: bytes) -> bool:
    try:
        return bool(tf.train.Example.FromString(value).features.feature)
    except DecodeError:
        return False
