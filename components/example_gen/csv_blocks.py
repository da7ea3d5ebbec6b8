"""CSV files cut into chunks that machines can share, and chunks read as columns of text."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.csv

from components.example_gen import csv_records, text_spans
from components.example_gen.blocks import BadRow, Block, Span, only_chunk
from components.example_gen.config import IngestConfig
from components.example_gen.csv_dialect import Dialect, check_utf8
from components.example_gen.sources import Source


def plan(source: Source, dialect: Dialect, config: IngestConfig) -> Iterator[Span]:
    """Cuts a file into spans of about `chunk_bytes`, between records."""
    start, line, end_of_line = dialect.data_start, dialect.first_line, bytes((dialect.terminator,))
    return text_spans.plan(source, start, line, _boundary(dialect), end_of_line, config)


def read(source: Source, dialect: Dialect, span: Span, config: IngestConfig) -> Iterator[Block]:
    """The records of a span, in blocks of about `chunk_bytes`."""
    for data, line in text_spans.read(source, span, _boundary(dialect), bytes((dialect.terminator,)), config):
        yield _parse(data, source, dialect, line)


def _boundary(dialect: Dialect) -> text_spans.Boundary:
    return lambda data: csv_records.last_boundary(data, ord(dialect.delimiter), dialect.terminator)


def _parse(data: bytes, source: Source, dialect: Dialect, first_line: int) -> Block:
    check_utf8(data, source.name, first_line)
    refused: list[tuple[int, str, str]] = []

    def refuse(row: pyarrow.csv.InvalidRow) -> str:
        refused.append((row.number - 1, f"expected {row.expected_columns} fields, got {row.actual_columns}", row.text))
        return "skip"

    names = list(dialect.columns)
    table = pyarrow.csv.read_csv(
        pa.py_buffer(data),
        # One block: a record of any length is whole in it, and every column is one array.
        read_options=pyarrow.csv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=dialect.delimiter, newlines_in_values=True, invalid_row_handler=refuse
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False, check_utf8=False
        ),
    )

    def all_lines() -> np.ndarray:
        return first_line + csv_records.record_starts(data, ord(dialect.delimiter))[0]

    numbers = np.asarray([number for number, _, _ in refused], np.int64)
    columns = {name: only_chunk(table.column(name)) for name in names}
    block = Block(columns, True, lambda: np.delete(all_lines(), numbers[numbers < len(all_lines())]))
    if refused:
        lines = all_lines()
        last = len(lines) - 1
        block.bad = [BadRow(int(lines[min(number, last)]), reason, text) for number, reason, text in refused]
    elif data[:1] not in (b"\r", b"\n"):
        block.first_line = first_line
    return _without_misquoted(block, data, dialect, numbers) if b'"' in data else block


def _without_misquoted(block: Block, data: bytes, dialect: Dialect, refused: np.ndarray) -> Block:
    """The block less the records in which a quoted field goes on after its closing quote.

    Arrow takes such a field for text, whatever it swallowed: after a quote that was never closed, that is all up to
    the next one, in another row.
    """
    offsets = csv_records.misplaced_quotes(data, ord(dialect.delimiter))
    if not len(offsets):
        return block
    _, starts = csv_records.record_starts(data, ord(dialect.delimiter))
    records, firsts = np.unique(np.searchsorted(starts, offsets, side="right") - 1, return_index=True)
    bad = list(block.bad)
    rows = []
    for record, offset in zip(records.tolist(), offsets[firsts].tolist(), strict=True):
        if record in refused:
            continue
        row = record - int(np.searchsorted(refused, record))
        rows.append(row)
        after = data[offset + 1 : offset + 21].decode(errors="replace")
        reason = f"{after!r} follows a closing quote; is a quote missing, or one within the field not doubled?"
        bad.append(BadRow(block.line(row), reason, block.row_text(row)))
    block = block.without(rows)
    block.bad = sorted(bad)
    return block
