"""TFRecord files of tf.Examples: found, counted and checked without parsing an example."""

import dataclasses
import gzip
import struct
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import tensorflow as tf

from modules.training.errors import TrainingDataError
from modules.training.graph_code import as_it_is

_LENGTH = struct.Struct("<QI")
_CHECKSUM_BYTES = 4
_FRAME = _LENGTH.size + _CHECKSUM_BYTES  # bytes around every record


@dataclasses.dataclass(frozen=True)
class RecordFiles:
    """TFRecord files of one split, all with the same compression."""

    paths: tuple[str, ...]
    compression: str
    """"GZIP" or ""."""

    def identity(self) -> list[list[object]]:
        """Name and size of every file: enough to notice that a resumed run reads other data."""
        return [[path.rpartition("/")[2], int(tf.io.gfile.stat(path).length)] for path in self.paths]


def find_files(patterns: Sequence[str], what: str) -> RecordFiles:
    """Expands file patterns, in sorted order.

    Args:
      patterns: paths or globs, local or remote.
      what: for messages, e.g. "training".

    Raises:
      TrainingDataError: a pattern matches nothing, or a folder.
    """
    paths: list[str] = []
    for pattern in patterns:
        found = sorted(tf.io.gfile.glob(pattern))
        if not found:
            raise TrainingDataError(f"no {what} files match {pattern}")
        folders = [path for path in found if tf.io.gfile.isdir(path)]
        if folders:
            raise TrainingDataError(f"{folders[0]} is a folder; expected TFRecord files at {pattern}")
        paths.extend(found)
    if not paths:
        raise TrainingDataError(f"no {what} files given")
    compressed = {_is_gzip(path) for path in paths}
    if len(compressed) > 1:
        raise TrainingDataError(f"{what} files mix gzip and plain TFRecords: {paths[0]} .. {paths[-1]}")
    return RecordFiles(tuple(paths), "GZIP" if compressed.pop() else "")


def _is_gzip(path: str) -> bool:
    with tf.io.gfile.GFile(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


@as_it_is
def count_records(files: RecordFiles) -> int:
    """Counts records by reading them once; checksums are verified on the way.

    TensorFlow takes the end of a cut-off gzip file for the end of the data, so the bytes are counted too and compared
    with what the file says about itself.

    Raises:
      TrainingDataError: a file is corrupt; names it, the record and its offset.
    """

    def measure(path: tf.Tensor) -> tf.Tensor:
        records = tf.data.TFRecordDataset(path, files.compression, buffer_size=1 << 20).batch(1024)
        sizes = records.map(lambda r: tf.stack([tf.size(r), tf.reduce_sum(tf.strings.length(r)) + _FRAME * tf.size(r)]))
        return sizes.reduce(tf.zeros([2], tf.int64), lambda total, size: total + tf.cast(size, tf.int64))

    measured = tf.data.Dataset.from_tensor_slices(list(files.paths)).map(measure, num_parallel_calls=tf.data.AUTOTUNE)
    try:
        sizes = [(int(count), int(length)) for count, length in measured]
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
        raise TrainingDataError(describe_corruption(files) or f"cannot read {files.paths}: {error.message}") from None
    if files.compression:
        for path, (_, length) in zip(files.paths, sizes, strict=True):
            if length % 2**32 != _uncompressed_size(path):
                damage = describe_corruption(RecordFiles((path,), files.compression))
                if damage is not None:  # a file of several gzip members is sound although it says otherwise
                    raise TrainingDataError(damage)
    return sum(count for count, _ in sizes)


def _uncompressed_size(path: str) -> int:
    """The last four bytes of a gzip file: its uncompressed size modulo 2**32."""
    with tf.io.gfile.GFile(path, "rb") as file:
        file.seek(max(0, file.size() - 4))
        return int.from_bytes(file.read(4), "little")


def describe_corruption(files: RecordFiles) -> str | None:
    """The first damaged record of `files` as "FILE: record N at byte OFFSET: reason", or None if all are sound."""
    for path in files.paths:
        number, offset = 0, 0
        try:
            for number, (offset, _) in enumerate(_records(path, files.compression)):  # noqa: B007 - read in the except
                pass
        except (_CorruptRecord, OSError, EOFError) as error:
            at = error.offset if isinstance(error, _CorruptRecord) else offset
            index = error.index if isinstance(error, _CorruptRecord) else number
            where = "uncompressed byte" if files.compression else "byte"
            return f"{path}: record {index} at {where} {at} is damaged ({error}); write the file again or leave it out"
    return None


class _CorruptRecord(Exception):
    def __init__(self, reason: str, index: int, offset: int):
        super().__init__(reason)
        self.index, self.offset = index, offset


def _records(path: str, compression: str) -> Iterator[tuple[int, bytes]]:
    """Yields (offset, payload) of every record and checks lengths and checksums."""
    with tf.io.gfile.GFile(path, "rb") as raw:
        file: BinaryIO = gzip.GzipFile(fileobj=raw) if compression else raw  # type: ignore[assignment]
        index, offset = 0, 0
        while True:
            try:
                header = file.read(_LENGTH.size)
                if not header:
                    return
                if len(header) < _LENGTH.size:
                    raise _CorruptRecord("cut off in the length", index, offset)
                length, checksum = _LENGTH.unpack(header)
                if checksum != _masked_crc(header[:8]):
                    raise _CorruptRecord("wrong checksum of the length", index, offset)
                payload, trailer = file.read(length), file.read(_CHECKSUM_BYTES)
            except (OSError, EOFError) as error:
                raise _CorruptRecord(str(error), index, offset) from None
            if len(payload) < length or len(trailer) < _CHECKSUM_BYTES:
                raise _CorruptRecord("cut off in the data", index, offset)
            if struct.unpack("<I", trailer)[0] != _masked_crc(payload):
                raise _CorruptRecord("wrong checksum of the data", index, offset)
            yield offset, payload
            index += 1
            offset += length + _FRAME


def _crc32c_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ 0x82F63B78 if crc & 1 else crc >> 1
        table.append(crc)
    return table


_TABLE = _crc32c_table()


def _masked_crc(data: bytes) -> int:
    """TFRecord's masked CRC-32C. Slow, and only used once a read has already failed."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
