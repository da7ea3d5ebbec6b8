"""TFRecord files as blocks of bytes: a look at every record without an object for each, and without decoding it.

Checksums are left to gzip and to StatisticsGen, which has read the same files before.
"""

import contextlib
import dataclasses
import gzip
import struct
from collections.abc import Iterable, Iterator
from typing import IO, cast

import numpy as np
import tensorflow as tf

from components.data_gate.errors import GateConfigError

GZIP_MAGIC = b"\x1f\x8b"
_PIECE_BYTES = 4 << 20
_HEAD, _TAIL = 12, 4
"""Bytes around a record: length and its checksum before, the record's checksum after."""
_LENGTH = struct.Struct("<Q")


@dataclasses.dataclass(frozen=True)
class Block:
    """Consecutive records: record i is content[starts[i]:ends[i]]; `content` is uint8, the others int64 [records]."""

    content: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def __len__(self) -> int:
        return len(self.starts)

    def records(self, rows: Iterable[int]) -> list[bytes]:
        """Some of the records, serialized."""
        return [self.content[self.starts[row] : self.ends[row]].tobytes() for row in rows]


def blocks(path: str) -> Iterator[Block]:
    """All records of a file, gzipped or not, in its order.

    Raises:
      GateConfigError: the file ends within a record.
    """
    rest = b""
    with _plain(path) as file:
        while piece := file.read(_PIECE_BYTES):
            buffer = rest + piece
            starts, used = _frames(buffer)
            if len(starts):
                ends = np.append(starts[1:] - _HEAD, used) - _TAIL
                yield Block(np.frombuffer(buffer, np.uint8), starts, ends)
            rest = buffer[used:]
    if rest:
        raise GateConfigError(f"{path}: ends within a record; was it cut off?")


def _frames(buffer: bytes) -> tuple[np.ndarray, int]:
    """Where the whole records in `buffer` start (int64), and how many bytes they take with what is around them."""
    starts = []
    position, size, length_at = 0, len(buffer), _LENGTH.unpack_from
    while position + _HEAD <= size:
        end = position + _HEAD + length_at(buffer, position)[0] + _TAIL
        if end > size:
            break
        starts.append(position + _HEAD)
        position = end
    return np.array(starts, np.int64), position


@contextlib.contextmanager
def _plain(path: str) -> Iterator[IO[bytes]]:
    with tf.io.gfile.GFile(path, "rb") as file:
        zipped = file.read(2) == GZIP_MAGIC
        file.seek(0)
        yield cast(IO[bytes], gzip.GzipFile(fileobj=file)) if zipped else file
