"""TFRecords of tf.Example as input. TensorFlow is imported only here, and only for this format."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from components.example_gen.blocks import Block, Span
from components.example_gen.errors import IngestDataError
from components.example_gen.sources import Source

_BATCH = 8192
_COMPRESSIONS = {"": "", "gzip": "GZIP"}


def plan(source: Source) -> Iterator[Span]:
    """A TFRecord file has no index: it is one span."""
    if source.compression not in _COMPRESSIONS:
        raise IngestDataError(f"{source.name}: TFRecords are read plain or gzipped, not {source.compression}")
    yield Span(0, -1, 1)


def read(source: Source, span: Span) -> Iterator[Block]:
    """The records of a file in blocks. Every feature seen in a block is a column of it, of lists."""
    import tensorflow as tf
    from tfx_bsl.cc.tfx_bsl_extension.coders import ExamplesToRecordBatchDecoder

    dataset = tf.data.TFRecordDataset(source.path, compression_type=_COMPRESSIONS[source.compression]).batch(_BATCH)
    decoder = ExamplesToRecordBatchDecoder(None)
    first = span.first
    try:
        for records in dataset.as_numpy_iterator():
            yield _block(decoder, records, first, source)
            first += len(records)
    except tf.errors.OpError as error:
        raise IngestDataError(f"{source.name}: record {first} or after it: {error.message}") from None


def _block(decoder: Any, records: np.ndarray, first: int, source: Source) -> Block:
    try:
        batch = decoder.DecodeBatch(records.tolist())
    except RuntimeError as error:
        raise IngestDataError(f"{source.name}: records {first} to {first + len(records) - 1}: {error}") from None
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    return Block(columns, False, lambda: first + np.arange(len(records)), num_rows=len(records))
