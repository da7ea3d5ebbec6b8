"""TFRecords of tf.Example as input. TensorFlow is imported only here, and only for this format."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from components.example_gen.blocks import BadRow, Block, Span
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
            yield _block(decoder, records.tolist(), first, source)
            first += len(records)
    except tf.errors.OpError as error:
        raise IngestDataError(_broken(source, error.message)) from None


def _broken(source: Source, message: str) -> str:
    """Where the first record is that cannot be read, found one by one."""
    import tensorflow as tf

    count = 0
    try:
        kind = _COMPRESSIONS[source.compression]
        for _ in tf.data.TFRecordDataset(source.path, compression_type=kind).as_numpy_iterator():
            count += 1
    except tf.errors.OpError as error:
        message = error.message
    told = re.sub(r"\{\{.*?\}\} |\[Op:.*", "", message).strip()
    other = "; compressed? End its name with .gz" if not count and not source.compression else ""
    return f"{source.name}:{count + 1}: not a readable record: {told}{other}"


def _block(decoder: Any, records: list[bytes], first: int, source: Source) -> Block:
    bad: list[BadRow] = []
    good = np.arange(len(records))
    try:
        batch = decoder.DecodeBatch(records)
    except RuntimeError:
        reasons = _refused(decoder, records)
        bad = [BadRow(first + row, reason, f"<{len(records[row])} bytes>") for row, reason in reasons.items()]
        good = np.asarray([row for row in good if row not in reasons], np.int64)
        batch = decoder.DecodeBatch([records[row] for row in good])
    _check_first(records, first, source)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    return Block(columns, False, lambda: first + good, bad, num_rows=len(good))


def _refused(decoder: Any, records: list[bytes]) -> dict[int, str]:
    """The records that are no examples, or have a feature of another kind than those before, with why."""
    import tensorflow as tf

    kinds: dict[str, str] = {}
    refused = {}
    for row, record in enumerate(records):
        try:
            decoder.DecodeBatch([record])
            features = tf.train.Example.FromString(record).features.feature
        except (RuntimeError, ValueError) as error:
            refused[row] = f"not a tf.Example: {error}"
            continue
        own = {name: feature.WhichOneof("kind") for name, feature in features.items()}
        for name, kind in own.items():
            if kind and kinds.get(name, kind) != kind:
                refused[row] = f"column {name!r}: {kind}, but {kinds[name]} in records before"
        if row not in refused:
            kinds.update({name: kind for name, kind in own.items() if kind})
    return refused


def _check_first(records: list[bytes], first: int, source: Source) -> None:
    """Refuses SequenceExamples, of which the decoder would take the context alone."""
    import tensorflow as tf
    from google.protobuf import message, unknown_fields

    try:
        example = tf.train.Example.FromString(records[0])
    except message.DecodeError:
        return  # told already
    if len(unknown_fields.UnknownFieldSet(example)):
        raise IngestDataError(f"{source.name}:{first}: holds more than a tf.Example, as a SequenceExample does")
