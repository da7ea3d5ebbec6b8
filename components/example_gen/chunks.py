"""The unit of work: a chunk of a file becomes pieces of shards, and a record of what was seen."""

import dataclasses
import time
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from components.example_gen import arrow_values, encoding, kinds, pieces, readers, splitting, storage
from components.example_gen.blocks import BadRow, Block, Span
from components.example_gen.config import IngestConfig
from components.example_gen.errors import IngestDataError
from components.example_gen.evidence import Evidence, Place
from components.example_gen.features import Column, scalar_column
from components.example_gen.pieces import Piece
from components.example_gen.sources import Source

_KEPT_BAD_ROWS = 20
_MEANINGS = {
    "int": "an int (a whole number within int64)",
    "float": "a float (a number)",
    "bool": "a bool (true, false, yes, no, 1 or 0)",
    "timestamp": "a timestamp (an ISO 8601 date or time)",
}


@dataclasses.dataclass(frozen=True)
class Job:
    """What every chunk needs to know.

    Attributes:
      config: the options.
      columns: the features to write, in order; empty where the files' keys are only known from reading them.
      declared: column to declared kind.
      staging: the folder for unfinished output.
      parts: into how many pieces each chunk's rows of a split are cut, so that there are enough pieces for the shards.
    """

    config: IngestConfig
    columns: tuple[str, ...]
    declared: dict[str, str]
    staging: str
    parts: int = 1


class Chunk(NamedTuple):
    """A part of a file. `source_index` and `number` order the chunks of all files."""

    source_index: int
    number: int
    source: Source
    layout: readers.Layout
    span: Span


@dataclasses.dataclass
class Outcome:
    """What came of a chunk.

    Attributes:
      chunk: which one.
      kinds: the kind each column was written as; where blocks differ, "mixed".
      evidence: per column.
      pieces: what was staged.
      hashes: (split, file of row hashes), where splits are by file.
      rows: good rows.
      num_bad_rows: refused rows; `bad_rows` has the first of them.
      error: instead of everything else, why the chunk cannot be ingested.
      seconds: per stage of the work.
      again: whether the chunk was converted again because all of the data says other kinds than it alone.
    """

    chunk: Chunk
    kinds: dict[str, str] = dataclasses.field(default_factory=dict)
    evidence: dict[str, Evidence] = dataclasses.field(default_factory=dict)
    pieces: list[Piece] = dataclasses.field(default_factory=list)
    hashes: list[tuple[int, str]] = dataclasses.field(default_factory=list)
    rows: int = 0
    num_bad_rows: int = 0
    bad_rows: list[BadRow] = dataclasses.field(default_factory=list)
    error: str = ""
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    again: bool = False

    def after(self, first: "Outcome") -> "Outcome":
        """This outcome of converting again, with what only the first look at the values could tell."""
        self.again = True
        for name, seen in first.evidence.items():
            mine = self.evidence.get(name)
            if mine is not None and self.kinds[name] == "float" != first.kinds[name]:
                seen.losses, seen.overflows = mine.losses, mine.overflows
                seen.firsts.update({what: mine.firsts[what] for what in ("losses", "overflows") if what in mine.firsts})
            self.evidence[name] = seen
        for stage, seconds in first.seconds.items():
            self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds
        return self


def work(job: Job, chunk: Chunk, forced: dict[str, str] | None = None) -> Outcome:
    """Reads, types, splits, encodes and stages one chunk. Errors that are the data's come back in the outcome.

    Args:
      job: the whole.
      chunk: the part.
      forced: column to kind, when all of the data says otherwise than this chunk alone did. Columns that the chunk
        does not have are written as missing.
    """
    try:
        with storage.naming(job.staging):
            return _Worker(job, chunk, forced).run()
    except IngestDataError as error:
        return Outcome(chunk, error=str(error))
    except pa.ArrowException as error:
        return Outcome(chunk, error=f"{chunk.source.name}: {error}")


class _Worker:
    def __init__(self, job: Job, chunk: Chunk, forced: dict[str, str] | None) -> None:
        self._job = job
        self._chunk = chunk
        self._forced = forced
        self._outcome = Outcome(chunk)
        self._clock = time.perf_counter()
        prefix = f"{chunk.source_index:05d}-{chunk.number:07d}-{'again' if forced is not None else 'first'}"
        self._pieces = pieces.Writers(job.staging, prefix, chunk.source_index, chunk.number, job.parts, job.config)

    def run(self) -> Outcome:
        chunk, job, outcome = self._chunk, self._job, self._outcome
        for block in readers.read(chunk.source, chunk.layout, chunk.span, job.columns, job.config):
            self._tick("parse")
            columns, good = self._features(block)
            self._note_bad(good)
            self._tick("type")
            outcome.rows += good.num_rows
            # JSON objects without keys have no columns yet; they get those of the other rows when converted again.
            if good.num_rows and columns:
                self._write(columns, good)
        outcome.pieces = self._pieces.close()
        self._tick("write")
        return outcome

    def _features(self, block: Block) -> tuple[dict[str, Column], Block]:
        """The block's features, and the block less the rows whose values are not of the declared kinds."""
        columns, evidence, offenders = self._convert(block)
        if offenders:
            bad = [
                BadRow(
                    block.line(row),
                    f"column {name!r}: {str(block.columns[name][row].as_py())!r} is not "
                    f"{_MEANINGS[self._job.declared[name]]}",
                    block.row_text(row),
                )
                for row, name in sorted(offenders.items())
            ]
            block = block.without(sorted(offenders))
            block.bad = sorted(block.bad + bad)
            columns, evidence, _ = self._convert(block)
        for note in block.notes:
            evidence[note.column].note(note.text, Place(self._chunk.source_index, note.line, note.value))
        for name, column in columns.items():
            known = self._outcome.kinds.setdefault(name, column.kind)
            if known != column.kind:
                self._outcome.kinds[name] = "mixed"
            self._outcome.evidence.setdefault(name, Evidence()).add(evidence[name])
        absent = set(self._outcome.kinds) - set(columns)
        for name in absent:
            self._outcome.kinds[name] = "mixed"
        return columns, block

    def _convert(self, block: Block) -> tuple[dict[str, Column], dict[str, Evidence], dict[int, str]]:
        columns: dict[str, Column] = {}
        evidence: dict[str, Evidence] = {}
        offenders: dict[int, str] = {}
        for name in self._names(block):
            column, seen, rows = self._convert_column(name, block)
            columns[name], evidence[name] = column, seen
            for row in [] if rows is None else rows.tolist():
                offenders.setdefault(row, name)
        return columns, evidence, offenders

    def _names(self, block: Block) -> list[str]:
        if self._job.columns:
            return list(self._job.columns)
        return list(filter(self._job.config.wants, block.columns if self._forced is None else self._forced))

    def _convert_column(self, name: str, block: Block) -> tuple[Column, Evidence, np.ndarray | None]:
        def locate(row: int, value: str) -> Place:
            return Place(self._chunk.source_index, block.line(row), value[:100])

        config, declared = self._job.config, name in self._job.declared
        kind = self._job.declared.get(name) or (self._forced or {}).get(name, "")
        array = block.columns.get(name)
        if array is None:
            array = pa.nulls(block.num_rows)
        if not block.is_text or name in block.typed:
            where = self._chunk.source.name
            typed = arrow_values.to_column(array, name, kind, declared, config, locate, where)
            return typed.column, typed.evidence, typed.offenders
        parsed = kinds.convert(array, kind, config, locate) if kind else kinds.infer(array, config, locate)
        return scalar_column(parsed.kind, parsed.values), parsed.evidence, parsed.offenders if declared else None

    def _note_bad(self, block: Block) -> None:
        outcome = self._outcome
        outcome.num_bad_rows += len(block.bad)
        outcome.bad_rows = sorted(outcome.bad_rows + block.bad)[:_KEPT_BAD_ROWS]
        if block.bad and self._job.config.bad_rows == "quarantine":
            self._pieces.quarantine(self._chunk.source, block.bad)

    def _write(self, columns: dict[str, Column], block: Block) -> None:
        config = self._job.config
        split_of = splitting.assign(
            columns, config.split, self._chunk.source.split, self._chunk.source.name, block.line
        )
        self._tick("split")
        if config.split.by == "files":
            keyed = {name: columns[name] for name in config.split.columns} or columns
            hashes = splitting.row_hashes(keyed, config.split.seed)
            self._outcome.hashes.append((int(split_of[0]), self._pieces.keep_hashes(hashes)))
        records = encoding.encode(columns)
        self._tick("encode")
        for split in range(len(config.split.names)):
            for part, rows in self._pieces.parts(np.flatnonzero(split_of == split)):
                framed = encoding.frame(records.take(pa.array(rows)))
                self._tick("frame")
                self._pieces.add(split, part, framed, len(rows))
                self._tick("compress")

    def _tick(self, stage: str) -> None:
        now = time.perf_counter()
        self._outcome.seconds[stage] = self._outcome.seconds.get(stage, 0.0) + now - self._clock
        self._clock = now
