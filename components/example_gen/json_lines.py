"""JSON Lines: one object per line, read by Arrow; line by line only where Arrow cannot."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from components.example_gen import streams, text_spans
from components.example_gen.blocks import BadRow, Block, Span, only_chunk
from components.example_gen.config import IngestConfig
from components.example_gen.csv_dialect import check_utf8
from components.example_gen.errors import IngestDataError
from components.example_gen.sources import Source

_BOM = b"\xef\xbb\xbf"


def plan(source: Source, config: IngestConfig) -> Iterator[Span]:
    """Cuts a file into spans of about `chunk_bytes`, between lines."""
    with streams.plain(source, config.encoding) as file:
        head = streams.read_up_to(file, 4096)
    start = len(_BOM) if head.startswith(_BOM) else 0
    if head[start:].lstrip()[:1] == b"[":
        raise IngestDataError(f"{source.name}: a JSON array; expected JSON Lines, one object per line")
    yield from text_spans.plan(source, start, 1, _boundary, b"\n", config)


def read(source: Source, span: Span, config: IngestConfig) -> Iterator[Block]:
    """The lines of a span, in blocks. Every key seen in a block is a column of it."""
    for data, line in text_spans.read(source, span, _boundary, b"\n", config):
        check_utf8(data, source.name, line)
        yield _parse(data, line)


def _boundary(data: bytes) -> int:
    return data.rfind(b"\n") + 1


def _parse(data: bytes, first_line: int) -> Block:
    try:
        table = _arrow(data, None)
        texts = [_without_moments(field) for field in table.schema]
        if texts != list(table.schema):
            # Arrow makes timestamps of strings that look like them; here a string stays a string.
            table = _arrow(data, pa.schema(texts))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _line_by_line(data, first_line)
    columns = {name: only_chunk(table.column(name)) for name in table.column_names}
    return Block(columns, False, lambda: first_line + _lines(data), num_rows=table.num_rows)


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


def _line_by_line(data: bytes, first_line: int) -> Block:
    """For blocks with a broken line, or a key whose values differ in type: such a column becomes text."""
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    bad: list[BadRow] = []
    for number, line in enumerate(data.decode().split("\n"), first_line):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            bad.append(BadRow(number, f"not JSON: {error}", line))
            continue
        if isinstance(row, dict):
            rows.append(row)
            lines.append(number)
        else:
            bad.append(BadRow(number, "not a JSON object", line))
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: _array([row.get(name) for row in rows]) for name in names}
    return Block(columns, False, lambda: np.asarray(lines, np.int64), bad, len(rows))


def _array(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        texts = [value if isinstance(value, str) or value is None else json.dumps(value) for value in values]
        return pa.array(texts, pa.string())
