"""The unit of work: a chunk of a file becomes pieces of shards, and a record of what was seen."""

import dataclasses
import os
import time
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from components.example_gen import csv_blocks, features, kinds, splitting, storage
from components.example_gen.config import IngestConfig
from components.example_gen.csv_blocks import BadRow
from components.example_gen.csv_dialect import Dialect
from components.example_gen.errors import IngestDataError
from components.example_gen.evidence import Evidence, Place
from components.example_gen.features import Column
from components.example_gen.sources import Source

_KEPT_BAD_ROWS = 20


@dataclasses.dataclass(frozen=True)
class Job:
    """What every chunk needs to know.

    Attributes:
      config: the options.
      columns: the features to write, in order.
      declared: column to declared kind.
      staging: the folder for unfinished output.
    """

    config: IngestConfig
    columns: tuple[str, ...]
    declared: dict[str, str]
    staging: str


class Chunk(NamedTuple):
    """A part of a file. `index` orders chunks of the same file."""

    source_index: int
    index: int
    source: Source
    dialect: Dialect | None
    span: csv_blocks.Span


class Piece(NamedTuple):
    """A staged file with some rows of one split; pieces put together are a shard."""

    split: int
    source_index: int
    index: int
    part: int
    path: str
    rows: int
    num_bytes: int


@dataclasses.dataclass
class Outcome:
    """What came of a chunk.

    Attributes:
      chunk: which one.
      kinds: the kind each column was written as; differing blocks give "mixed".
      evidence: per column.
      pieces: what was staged.
      rows: good rows.
      num_bad_rows: refused rows; `bad_rows` has the first of them.
      error: instead of everything else: why the chunk cannot be ingested, and the line for ordering errors.
      seconds: per stage of the work.
    """

    chunk: Chunk
    kinds: dict[str, str] = dataclasses.field(default_factory=dict)
    evidence: dict[str, Evidence] = dataclasses.field(default_factory=dict)
    pieces: list[Piece] = dataclasses.field(default_factory=list)
    rows: int = 0
    num_bad_rows: int = 0
    bad_rows: list[BadRow] = dataclasses.field(default_factory=list)
    error: str = ""
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)


def work(job: Job, chunk: Chunk, parts: int, forced: dict[str, str] | None = None) -> Outcome:
    """Reads, types, splits, encodes and stages one chunk. Errors that are the data's come back in the outcome.

    Args:
      job: the whole.
      chunk: the part.
      parts: into how many pieces each split's rows are cut, so that there are enough pieces for the shards.
      forced: column to kind, when the whole data says otherwise than this chunk alone did.
    """
    worker = _Worker(job, chunk, parts, forced or {})
    try:
        return worker.run()
    except IngestDataError as error:
        return Outcome(chunk, error=str(error))
    except pa.ArrowException as error:
        return Outcome(chunk, error=f"{chunk.source.name}: {error}")


class _Worker:
    def __init__(self, job: Job, chunk: Chunk, parts: int, forced: dict[str, str]) -> None:
        self._job = job
        self._chunk = chunk
        self._parts = parts
        self._forced = forced
        self._outcome = Outcome(chunk, evidence={name: Evidence() for name in job.columns})
        self._clock = time.perf_counter()
        self._writers: dict[tuple[int, int], _PieceWriter] = {}
        self._block_number = 0

    def run(self) -> Outcome:
        for columns, name in self._typed_blocks():
            if not columns or not next(iter(columns.values())).num_rows:
                continue
            self._write(columns, name)
        self._outcome.pieces = [writer.close() for _, writer in sorted(self._writers.items())]
        self._tick("write")
        return self._outcome

    def _typed_blocks(self) -> Iterator[tuple[dict[str, Column], str]]:
        chunk = self._chunk
        for block in csv_blocks.read(chunk.source, chunk.dialect, chunk.span, self._job.config):
            self._tick("parse")
            columns = self._typed(block)
            self._tick("type")
            yield columns, chunk.source.name

    def _typed(self, block: csv_blocks.TextBlock) -> dict[str, Column]:
        parsed, bad = {}, {}
        for name in self._job.columns:
            result = self._parse_column(name, block)
            parsed[name] = result
            if result.offenders is not None:
                for row in result.offenders.tolist():
                    bad.setdefault(row, (name, str(block.columns[name][row].as_py())))
        self._note_bad(block, bad)
        keep = None
        if bad:
            keep = np.ones(len(block.columns[self._job.columns[0]]), bool)
            keep[list(bad)] = False
        columns = {}
        for name, result in parsed.items():
            self._seen(name, result)
            values = result.values if keep is None else result.values.filter(pa.array(keep))
            columns[name] = features.scalar_column(result.kind, values)
        return columns

    def _parse_column(self, name: str, block: csv_blocks.TextBlock) -> kinds.Parsed:
        def locate(row: int, value: str) -> Place:
            return Place(self._chunk.source_index, block.line(row), value[:100])

        text, config = block.columns[name], self._job.config
        if name in self._job.declared:
            return kinds.convert(text, self._job.declared[name], config, locate, declared=True)
        if name in self._forced:
            return kinds.convert(text, self._forced[name], config, locate, declared=False)
        return kinds.infer(text, config, locate)

    def _seen(self, name: str, result: kinds.Parsed) -> None:
        self._outcome.evidence[name].add(result.evidence)
        known = self._outcome.kinds.setdefault(name, result.kind)
        if known != result.kind:
            self._outcome.kinds[name] = "mixed"

    def _note_bad(self, block: csv_blocks.TextBlock, bad: dict[int, tuple[str, str]]) -> None:
        rows = list(block.bad)
        for row, (name, value) in sorted(bad.items()):
            kind = self._job.declared[name]
            text = self._job.config.delimiter or ","
            line = text.join(str(column[row].as_py()) for column in block.columns.values())
            rows.append(BadRow(block.line(row), f"column {name!r}: {value!r} is not {_ARTICLES[kind]}", line))
        outcome = self._outcome
        outcome.num_bad_rows += len(rows)
        outcome.bad_rows = sorted(outcome.bad_rows + rows)[:_KEPT_BAD_ROWS]

    def _write(self, columns: dict[str, Column], where: str) -> None:
        job = self._job
        num_rows = next(iter(columns.values())).num_rows
        self._outcome.rows += num_rows
        split_of = splitting.assign(columns, job.config.split, self._chunk.source.split, where)
        self._tick("split")
        records = np.empty(num_rows, object)
        records[:] = features.encode(columns)
        self._tick("encode")
        for split in range(len(job.config.split.names)):
            rows = np.flatnonzero(split_of == split)
            for part, some in enumerate(np.array_split(rows, min(self._parts, max(1, len(rows))))):
                if len(some):
                    framed = features.frame(records[some].tolist())
                    self._tick("frame")
                    self._writer(split, part).add(framed, len(some))
                    self._tick("compress")
        self._block_number += 1

    def _writer(self, split: int, part: int) -> "_PieceWriter":
        key = (split, part)
        if key not in self._writers:
            chunk, config = self._chunk, self._job.config
            attempt = "final" if self._forced else "first"
            name = f"{split}-{chunk.source_index:05d}-{chunk.index:07d}-{part:04d}-{attempt}-{os.urandom(4).hex()}"
            piece = Piece(split, chunk.source_index, chunk.index, part, f"{self._job.staging}/{name}", 0, 0)
            self._writers[key] = _PieceWriter(piece, config)
        return self._writers[key]

    def _tick(self, stage: str) -> None:
        now = time.perf_counter()
        self._outcome.seconds[stage] = self._outcome.seconds.get(stage, 0.0) + now - self._clock
        self._clock = now


_ARTICLES = {
    "int": "an int (a whole number within int64)",
    "float": "a float (a number)",
    "bool": "a bool (true, false, yes, no, 1 or 0)",
    "timestamp": "a timestamp (an ISO 8601 date or time)",
}


class _PieceWriter:
    """One gzip member (or plain bytes) per piece. Members put one after the other are a gzip file."""

    def __init__(self, piece: Piece, config: IngestConfig) -> None:
        self._piece = piece
        self._packer = zlib.compressobj(config.gzip_level, zlib.DEFLATED, 31) if config.compression == "gzip" else None
        self._rows = 0
        self._size = 0
        self._context = storage.writing(piece.path)
        self._file = self._context.__enter__()

    def add(self, framed: bytes, rows: int) -> None:
        self._rows += rows
        self._put(self._packer.compress(framed) if self._packer else framed)

    def close(self) -> Piece:
        if self._packer:
            self._put(self._packer.flush())
        self._context.__exit__(None, None, None)
        return self._piece._replace(rows=self._rows, num_bytes=self._size)

    def _put(self, data: bytes) -> None:
        self._size += len(data)
        self._file.write(data)
