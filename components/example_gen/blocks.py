"""What every reader gives: some rows as Arrow columns, and where each row is in its file."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa


class Span(NamedTuple):
    """A part of a file.

    For text: bytes [start, end) whose first record is in line `first`; `end` -1 means to the end, in blocks, which is
    how compressed and re-encoded files are read. For Parquet and Arrow: row groups or record batches [start, end), of
    which the first row is row `first`, counted from 1.
    """

    start: int
    end: int
    first: int


class BadRow(NamedTuple):
    """A row that was refused: its line (or row number), why, and its text."""

    line: int
    reason: str
    text: str


class Note(NamedTuple):
    """What the reader did to a value, such as a picture that it turned upright."""

    column: str
    text: str
    line: int
    value: str


@dataclasses.dataclass
class Block:
    """A run of rows.

    Attributes:
      columns: name to array; all of one length.
      is_text: whether values are text still to be typed (CSV), rather than typed by the file.
      bad: rows that could not be read, which are not in `columns`.
      typed: columns whose values have their type already although the others' are text.
      notes: what the reader did to values.
      first_line: the line of the first row, where that is known without looking for the others'.
      lines: gives the line (or row number) in the file of every row; computed only when asked for.
    """

    columns: dict[str, pa.Array]
    is_text: bool
    lines: Callable[[], np.ndarray]
    bad: list[BadRow] = dataclasses.field(default_factory=list)
    num_rows: int = 0
    typed: frozenset[str] = frozenset()
    notes: list[Note] = dataclasses.field(default_factory=list)
    first_line: int | None = None
    _known_lines: np.ndarray | None = None

    def __post_init__(self) -> None:
        self.num_rows = len(next(iter(self.columns.values()))) if self.columns else self.num_rows

    def line(self, row: int) -> int:
        """Where row `row` begins, counted from 1."""
        if row == 0 and self.first_line is not None:
            return self.first_line
        if self._known_lines is None:
            self._known_lines = self.lines()
        # A file that mixes lone CR and LF as line ends has more rows than lines.
        return int(self._known_lines[min(row, len(self._known_lines) - 1)])

    def without(self, rows: list[int]) -> "Block":
        """The block less some rows."""
        keep = np.ones(self.num_rows, bool)
        keep[rows] = False
        mask = pa.array(keep)
        columns = {name: column.filter(mask) for name, column in self.columns.items()}
        kept, typed = int(keep.sum()), self.typed
        return Block(columns, self.is_text, lambda: self.lines()[keep], self.bad, kept, typed, self.notes)

    def row_text(self, row: int) -> str:
        """A row as readable text, for reports."""
        values = {name: _readable(column[row].as_py()) for name, column in self.columns.items()}
        return ",".join(map(str, values.values())) if self.is_text else str(values)


def _readable(value: object) -> object:
    """`value`, or for bytes that are no text how many they are."""
    if isinstance(value, bytes):
        try:
            value.decode()
        except UnicodeDecodeError:
            return f"<{len(value)} bytes>"
    return value


def only_chunk(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
