"""JSON Lines: one object per line, read by Arrow; line by line only where Arrow cannot."""

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from components.example_gen import mixed, streams, text_spans
from components.example_gen.blocks import BadRow, Block, Span, only_chunk
from components.example_gen.config import IngestConfig
from components.example_gen.csv_dialect import check_start, check_utf8
from components.example_gen.errors import IngestDataError
from components.example_gen.mixed import Literal
from components.example_gen.sources import Source

_BOM = codecs.BOM_UTF8
_EXPECTED = "expected JSON Lines, one object per line"
_EXACT_FLOAT64 = float(1 << 53)
# Arrow takes such a line for a row, or crashes.
_NULL_LINE = re.compile(rb"(^|\n)[ \t\r]*null")


def plan(source: Source, config: IngestConfig) -> Iterator[Span]:
    """Cuts a file into spans of about `chunk_bytes`, between lines."""
    with streams.plain(source, config.encoding) as file:
        head = streams.read_up_to(file, 4096)
    start = len(_BOM) if head.startswith(_BOM) else 0
    check_start(head[start:], source.name)
    first = head[start:].lstrip()
    if first[:1] == b"[":
        raise IngestDataError(f"{source.name}: a JSON array; {_EXPECTED}: jq -c '.[]' {source.name} > rows.jsonl")
    if first.splitlines()[:1] == [b"{"]:
        told = f"{source.name}: an object over several lines"
        raise IngestDataError(f"{told}; {_EXPECTED}: jq -c . {source.name} > rows.jsonl")
    yield from text_spans.plan(source, start, 1, _boundary, b"\n", config)


def read(source: Source, span: Span, config: IngestConfig) -> Iterator[Block]:
    """The lines of a span, in blocks. Every key seen in a block is a column of it."""
    as_written = frozenset(name for name, kind in config.types.items() if kind == "bytes")
    for data, line in text_spans.read(source, span, _boundary, b"\n", config):
        check_utf8(data, source.name, line)
        yield _parse(data, line, as_written)


def _boundary(data: bytes) -> int:
    return data.rfind(b"\n") + 1


def _parse(data: bytes, first_line: int, as_written: frozenset[str]) -> Block:
    """One block. Columns in `as_written` keep the digits of their numbers."""
    table = None if b"null" in data and _NULL_LINE.search(data) else _table(data)
    if table is None or any(_loses(table.column(name), name in as_written) for name in table.column_names):
        return _line_by_line(data, first_line, as_written)
    columns = {name: only_chunk(table.column(name)) for name in table.column_names}
    start = first_line if data.startswith(b"{") else None
    return Block(columns, False, lambda: first_line + _lines(data), num_rows=table.num_rows, first_line=start)


def _table(data: bytes) -> pa.Table | None:
    """The lines as Arrow reads them, or None where it cannot, or does not take each line for one row."""
    try:
        table = _arrow(data, None)
        texts = [_without_moments(field) for field in table.schema]
        if texts != list(table.schema):
            # Arrow makes timestamps of strings that look like them; here a string stays a string.
            table = _arrow(data, pa.schema(texts))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    return table if table.num_rows == lines or table.num_rows == len(_lines(data)) else None


def _loses(column: pa.ChunkedArray, as_written: bool) -> bool:
    """Whether Arrow's numbers may not be those of the file: beyond what float64 tells apart, or to be kept as text."""
    if as_written and not pa.types.is_string(column.type):
        return True
    if not pa.types.is_floating(column.type):
        return False
    return pc.any(pc.greater_equal(pc.abs(column), _EXACT_FLOAT64)).as_py() or False


def _arrow(data: bytes, schema: pa.Schema | None) -> pa.Table:
    return pyarrow.json.read_json(
        pa.py_buffer(data),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=schema),
    )


def _without_moments(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_timestamp(kind):
        return field.with_type(pa.string())
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_without_moments(kind.value_field)))
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_without_moments(kind.field(i)) for i in range(kind.num_fields)]))
    return field


def _lines(data: bytes) -> np.ndarray:
    """The line, from 0, of each line that is not blank."""
    return np.asarray([number for number, line in enumerate(data.split(b"\n")) if line.strip()], np.int64)


def _line_by_line(data: bytes, first_line: int, as_written: frozenset[str]) -> Block:
    """For blocks that Arrow does not read, or not exactly."""
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    bad: list[BadRow] = []
    for number, line in enumerate(data.decode().split("\n"), first_line):
        if not line.strip():
            continue
        try:
            rows.append(_object(line))
            lines.append(number)
        except json.JSONDecodeError as error:
            bad.append(BadRow(number, f"not JSON: {error}", line))
        except (ValueError, RecursionError) as error:
            bad.append(BadRow(number, f"not a JSON object that can be a row: {error}", line))
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: _array([row.get(name) for row in rows], name in as_written) for name in names}
    return Block(columns, False, lambda: np.asarray(lines, np.int64), bad, len(rows))


def _object(line: str) -> dict[str, Any]:
    row = json.loads(line, parse_float=Literal.parse, object_pairs_hook=_without_twins)
    if not isinstance(row, dict):
        raise ValueError("another value")
    if "\\u" in line:
        try:
            json.dumps(row, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("half of a surrogate pair, which is no character") from None
    return row


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"key {name!r} is there twice")
    return dict(pairs)


def _array(values: list[Any], as_written: bool) -> pa.Array:
    kinds = {type(value) for value in values} - {type(None)}
    if Literal in kinds or (as_written and kinds != {str}):
        return mixed.array(values) if list not in kinds and dict not in kinds else _plain_array(values)
    return _plain_array(values)


def _plain_array(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return mixed.array(values)
