"""Staged files with some rows of one split. Put one after the other, pieces are a shard."""

import json
import uuid
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from components.example_gen import storage
from components.example_gen.blocks import BadRow
from components.example_gen.config import IngestConfig
from components.example_gen.sources import Source

QUARANTINE = -1


class Piece(NamedTuple):
    """A staged file: rows of split number `split`, or refused rows where that is QUARANTINE."""

    split: int
    source_index: int
    number: int
    part: int
    path: str
    rows: int
    num_bytes: int


class Writers:
    """The pieces of one chunk. Names are new at each attempt, so that a retried chunk never meets its own leftovers."""

    def __init__(
        self, staging: str, prefix: str, source_index: int, number: int, parts: int, config: IngestConfig
    ) -> None:
        self._place = f"{staging}/{prefix}-{uuid.uuid4().hex[:8]}"
        self._source_index = source_index
        self._number = number
        self._parts = parts
        self._config = config
        self._random = np.random.default_rng([config.split.seed, source_index, number])
        self._writers: dict[tuple[int, int], _Writer] = {}

    def parts(self, rows: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Divides row numbers of one split into (part, rows), in random order where the config says shuffle."""
        if self._config.shuffle:
            rows = self._random.permutation(rows)
        for part, some in enumerate(np.array_split(rows, max(1, min(self._parts, len(rows))))):
            if len(some):
                yield part, some

    def add(self, split: int, part: int, framed: bytes, num_rows: int) -> None:
        """Appends records to a piece."""
        self._writer(split, part, self._config.compression == "gzip").add(framed, num_rows)

    def quarantine(self, source: Source, bad: list[BadRow]) -> None:
        """Keeps refused rows as JSON Lines."""
        rows = [{"file": source.file_of(row.line), **row._asdict()} for row in bad]
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        self._writer(QUARANTINE, 0, False).add("".join(lines).encode(), len(bad))

    def keep_hashes(self, hashes: np.ndarray) -> str:
        """Stages row hashes (uint64) and returns where."""
        path = f"{self._place}-hashes-{uuid.uuid4().hex[:8]}"
        with storage.writing(path) as file:
            file.write(hashes.tobytes())
        return path

    def close(self) -> list[Piece]:
        """Completes all pieces."""
        return [writer.close() for _, writer in sorted(self._writers.items())]

    def _writer(self, split: int, part: int, compress: bool) -> "_Writer":
        key = (split, part)
        if key not in self._writers:
            piece = Piece(split, self._source_index, self._number, part, f"{self._place}-{split}-{part}", 0, 0)
            self._writers[key] = _Writer(piece, self._config.gzip_level if compress else 0)
        return self._writers[key]


class _Writer:
    """One gzip member per piece: members put one after the other are a gzip file."""

    def __init__(self, piece: Piece, level: int) -> None:
        self._piece = piece
        self._packer = zlib.compressobj(level, zlib.DEFLATED, 31) if level else None
        self._rows = 0
        self._size = 0
        self._context = storage.writing(piece.path)
        self._file = self._context.__enter__()

    def add(self, data: bytes, num_rows: int) -> None:
        self._rows += num_rows
        self._put(self._packer.compress(data) if self._packer else data)

    def close(self) -> Piece:
        if self._packer:
            self._put(self._packer.flush())
        self._context.__exit__(None, None, None)
        return self._piece._replace(rows=self._rows, num_bytes=self._size)

    def _put(self, data: bytes) -> None:
        self._size += len(data)
        self._file.write(data)
