"""CSV files cut into chunks that machines can share, and chunks read as columns of text."""

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv

from components.example_gen import csv_records, storage, streams
from components.example_gen.config import IngestConfig
from components.example_gen.csv_dialect import Dialect, check_utf8, is_utf8
from components.example_gen.errors import IngestDataError
from components.example_gen.sources import Source

MAX_BLOCK_BYTES = 1 << 30


class Span(NamedTuple):
    """A run of whole records: bytes [start, end) of a file whose first record is in line `first_line`.

    `end` is -1 for "to the end, in blocks", which is how compressed and re-encoded files are read.
    """

    start: int
    end: int
    first_line: int


class BadRow(NamedTuple):
    """A row that was refused: its line, why, and its text."""

    line: int
    reason: str
    text: str


@dataclasses.dataclass
class TextBlock:
    """A run of records as text columns.

    Attributes:
      columns: name to string array; all of one length.
      bad: rows whose number of fields is wrong, which are not in `columns`.
      num_bytes: how much input it was.
    """

    columns: dict[str, pa.Array]
    bad: list[BadRow]
    num_bytes: int
    _data: bytes
    _delimiter: int
    _first_line: int
    _bad_numbers: list[int]
    _lines: np.ndarray | None = None

    def line(self, row: int) -> int:
        """The line in the file, counted from 1, where row `row` of the columns begins."""
        if self._lines is None:
            lines = csv_records.record_lines(self._data, self._delimiter)
            self._lines = np.delete(lines, self._bad_numbers)
        return self._first_line + int(self._lines[row])


def plan(source: Source, dialect: Dialect, config: IngestConfig) -> Iterator[Span]:
    """Cuts a file into spans of about `chunk_bytes`. Reads all of it, because a line end in quotes is no boundary."""
    if source.compression or not is_utf8(config.encoding):
        yield Span(dialect.data_start, -1, dialect.first_line)
        return
    with storage.reading(source.path, dialect.data_start) as file:
        start, line = dialect.data_start, dialect.first_line
        for data in _whole_records(file, dialect, config, source):
            yield Span(start, start + len(data), line)
            start += len(data)
            line += data.count(bytes((dialect.terminator,)))


def read(source: Source, dialect: Dialect, span: Span, config: IngestConfig) -> Iterator[TextBlock]:
    """The records of a span, in blocks of about `chunk_bytes`."""
    if span.end >= 0:
        with storage.reading(source.path, span.start) as file:
            data = streams.read_up_to(file, span.end - span.start)
        yield _parse(data, source, dialect, span.first_line)
        return
    with streams.plain(source, config.encoding) as file:
        streams.read_up_to(file, span.start)
        line = span.first_line
        for data in _whole_records(file, dialect, config, source):
            yield _parse(data, source, dialect, line)
            line += data.count(bytes((dialect.terminator,)))


def _whole_records(file: object, dialect: Dialect, config: IngestConfig, source: Source) -> Iterator[bytes]:
    """The rest of a stream, cut only between records."""
    rest = b""
    delimiter = ord(dialect.delimiter)
    size = config.chunk_bytes
    while True:
        try:
            piece = streams.read_up_to(file, size)
        except (EOFError, OSError) as error:
            raise IngestDataError(f"{source.name}: cannot be read to its end: {error}") from None
        data = rest + piece
        if not piece:
            if data:
                yield data
            return
        end = csv_records.last_boundary(data, delimiter, dialect.terminator)
        rest = data[end:]
        # A record longer than a chunk: read twice as much, so that its start is not looked at over and over.
        size = config.chunk_bytes if end else max(size, len(rest))
        if len(rest) > MAX_BLOCK_BYTES:
            raise IngestDataError(f"{source.name}: a record of more than 1 GiB; is a closing quote missing?")
        if end:
            yield data[:end]


def _parse(data: bytes, source: Source, dialect: Dialect, first_line: int) -> TextBlock:
    check_utf8(data, source.name, first_line)
    refused: list[tuple[int, str, str]] = []

    def refuse(row: pyarrow.csv.InvalidRow) -> str:
        reason = f"expected {row.expected_columns} fields, got {row.actual_columns}"
        refused.append((row.number - 1, reason, row.text))
        return "skip"

    names = list(dialect.columns)
    table = pyarrow.csv.read_csv(
        pa.py_buffer(data),
        read_options=pyarrow.csv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=dialect.delimiter, newlines_in_values=True, invalid_row_handler=refuse
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False, check_utf8=False
        ),
    ).combine_chunks()
    columns = {name: _only_chunk(table.column(name)) for name in names}
    block = TextBlock(columns, [], len(data), data, ord(dialect.delimiter), first_line, [n for n, _, _ in refused])
    if refused:
        lines = csv_records.record_lines(data, ord(dialect.delimiter))
        block.bad = [BadRow(first_line + int(lines[number]), reason, text) for number, reason, text in refused]
    return block


def _only_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)
