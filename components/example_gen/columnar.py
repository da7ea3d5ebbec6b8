"""Parquet, Arrow and Avro files: their columns, their parts, and the parts as blocks."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from components.example_gen import mixed
from components.example_gen.blocks import Block, Span
from components.example_gen.config import IngestConfig
from components.example_gen.decompression import decompressed
from components.example_gen.errors import IngestDataError
from components.example_gen.sources import Source

# Rows at a time from formats that say how many they have; wide rows get fewer.
_MAX_ROWS = 50_000


def column_names(source: Source) -> tuple[str, ...]:
    """The columns, from the file's own schema. A name that is there twice is an error."""
    with _opened(source) as file:
        names = _NAMES[source.format](file)
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise IngestDataError(f"{source.name}: column {min(twice)!r} is there twice; rename one")
    return tuple(names)


def plan(source: Source) -> Iterator[Span]:
    """One span per Parquet row group or Arrow record batch; Avro files are one span."""
    if source.format == "avro":
        yield Span(0, -1, 1)
        return
    with _opened(source) as file:
        first = 1
        for index, rows in enumerate(_part_rows(source.format, file)):
            yield Span(index, index + 1, first)
            first += rows


def read(source: Source, span: Span, columns: tuple[str, ...], config: IngestConfig) -> Iterator[Block]:
    """The rows of a span."""
    with _opened(source) as file:
        first = span.first
        for batch in _batches(source, file, span, columns, config):
            arrays = {name: batch.column(batch.schema.get_field_index(name)) for name in columns}
            yield _block(arrays, first, batch.num_rows)
            first += batch.num_rows


def _block(arrays: dict[str, pa.Array], first: int, num_rows: int) -> Block:
    return Block(arrays, False, lambda: first + np.arange(num_rows), num_rows=num_rows)


@contextlib.contextmanager
def _opened(source: Source) -> Iterator[Any]:
    """A reader of the file's format; errors name the file."""
    try:
        with contextlib.ExitStack() as stack:
            if source.compression and source.format != "avro":
                with decompressed(source.path, source.compression) as packed:
                    raw: Any = pa.BufferReader(packed.read())
            else:
                raw = stack.enter_context(decompressed(source.path, source.compression))
            yield _OPENERS[source.format](raw)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError, EOFError, OSError) as error:
        if isinstance(error, IngestDataError):
            raise
        raise IngestDataError(f"{source.name}: not a readable {source.format} file: {error}") from None


def _open_parquet(raw: Any) -> Any:
    import pyarrow.parquet

    return pyarrow.parquet.ParquetFile(raw, pre_buffer=False)


def _open_arrow(raw: Any) -> Any:
    file = raw if isinstance(raw, pa.NativeFile) else pa.PythonFile(raw)
    head = file.read(6)
    file.seek(0)
    if head == b"ARROW1":
        return pa.ipc.open_file(file)
    if head[:4] == b"FEA1":
        import pyarrow.feather

        return pyarrow.feather.read_table(file)
    return pa.ipc.open_stream(file).read_all()


def _open_avro(raw: Any) -> Any:
    import fastavro

    return fastavro.block_reader(raw)


_OPENERS = {"parquet": _open_parquet, "arrow": _open_arrow, "avro": _open_avro}
_NAMES = {
    "parquet": lambda file: file.schema_arrow.names,
    "arrow": lambda file: file.schema.names,
    "avro": lambda file: _avro_names(file.writer_schema),
}


def _avro_names(schema: Any) -> list[str]:
    if not isinstance(schema, dict) or "fields" not in schema:
        raise ValueError(f"its schema is {schema!r}, not a record")
    return [field["name"] for field in schema["fields"]]


def _part_rows(kind: str, file: Any) -> list[int]:
    if kind == "parquet":
        return [file.metadata.row_group(index).num_rows for index in range(file.num_row_groups)]
    if isinstance(file, pa.Table):
        return [file.num_rows]
    return [file.get_batch(index).num_rows for index in range(file.num_record_batches)]


def _batches(
    source: Source, file: Any, span: Span, columns: tuple[str, ...], config: IngestConfig
) -> Iterator[pa.RecordBatch]:
    if source.format == "parquet":
        groups = list(range(span.start, span.end))
        rows = sum(file.metadata.row_group(group).num_rows for group in groups)
        size = sum(file.metadata.row_group(group).total_byte_size for group in groups)
        at_once = max(1, min(_MAX_ROWS, rows * config.chunk_bytes // max(1, size)))
        yield from file.iter_batches(at_once, row_groups=groups, columns=list(columns), use_threads=False)
    elif source.format == "avro":
        for block in file:
            yield _from_records(list(block), columns)
    elif isinstance(file, pa.Table):
        yield from file.combine_chunks().to_batches(_MAX_ROWS)
    else:
        for index in range(span.start, span.end):
            batch = file.get_batch(index)
            for start in range(0, batch.num_rows, _MAX_ROWS):
                yield batch.slice(start, _MAX_ROWS)


def _from_records(records: list[dict], columns: tuple[str, ...]) -> pa.RecordBatch:
    arrays = []
    for name in columns:
        try:
            arrays.append(pa.array([record[name] for record in records]))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            arrays.append(mixed.array([record[name] for record in records]))
    return pa.RecordBatch.from_arrays(arrays, list(columns))
