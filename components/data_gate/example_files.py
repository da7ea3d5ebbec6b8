"""Reading files of tf.Examples, gzipped or not, as batches of Arrow columns."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders import example_coder

from components.data_gate.record_blocks import GZIP_MAGIC

BATCH_ROWS = 4096


def is_tfrecord_file(path: str) -> bool:
    """Whether the file begins with a whole TFRecord, gzipped or not; an empty file does not."""
    try:
        return next(_records(path).take(1).as_numpy_iterator(), None) is not None
    except tf.errors.DataLossError:  # the checksum of what would be the first length is wrong
        return False


def record_batches(path: str) -> Iterator[np.ndarray]:
    """Batches of serialized records (object arrays of bytes) of one TFRecord file, in its order."""
    yield from _records(path).batch(BATCH_ROWS).as_numpy_iterator()


def _records(path: str) -> tf.data.Dataset:
    with tf.io.gfile.GFile(path, "rb") as file:
        compression = "GZIP" if file.read(2) == GZIP_MAGIC else ""
    return tf.data.TFRecordDataset(path, compression_type=compression, buffer_size=1 << 20)


def decode(records: Sequence[bytes] | np.ndarray) -> pa.RecordBatch:
    """Serialized tf.Examples as list columns, one for each feature that any of them has, sorted by name."""
    batch = example_coder.ExamplesToRecordBatchDecoder().DecodeBatch(list(records))
    names = sorted(batch.schema.names)
    return batch.select(names)


def decode_text(records: Sequence[bytes], name: str) -> pa.Array:
    """One column of text of serialized tf.Examples (list of binary), at a fraction of the cost of decoding them all."""
    schema = schema_pb2.Schema()
    schema.feature.add(name=name, type=schema_pb2.BYTES)
    batch = example_coder.ExamplesToRecordBatchDecoder(schema.SerializeToString()).DecodeBatch(list(records))
    return batch.column(0)


def row_as_dict(batch: pa.RecordBatch, row: int, first: Sequence[str] = ()) -> dict[str, Any]:
    """One row for a person, columns `first` in front; single values without their list, NaN and infinity as text."""
    names = [*(name for name in first if name in batch.schema.names), *batch.schema.names]
    return {name: _plain(batch.column(batch.schema.get_field_index(name))[row].as_py()) for name in names}


def _text(value: bytes) -> str:
    """The beginning of a text; of bytes that are none, such as a picture, how many they are."""
    try:
        return value.decode()[:200]
    except UnicodeDecodeError:
        return f"<{len(value)} bytes>"


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        items = [_plain(item) for item in value[:20]]
        return items[0] if len(value) == 1 else items
    if isinstance(value, bytes):
        return _text(value)
    if isinstance(value, float):
        return float(f"{value:.8g}") if np.isfinite(value) else str(value)
    return value
