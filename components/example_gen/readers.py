"""One way to ask any format: which columns, which parts, which rows."""

import dataclasses
from collections.abc import Iterator

from components.example_gen import columnar, csv_blocks, json_lines, streams, tf_records
from components.example_gen.blocks import Block, Span
from components.example_gen.config import IngestConfig
from components.example_gen.csv_dialect import Dialect, read_dialect
from components.example_gen.errors import IngestConfigError
from components.example_gen.images import arrays, folders, tables
from components.example_gen.sources import Source


@dataclasses.dataclass(frozen=True)
class WithPictures:
    """A table whose rows name image files, and the columns that come of it."""

    table: "Dialect | tuple[str, ...]"
    columns: tuple[str, ...]


# A CSV file's dialect; of other files the column names, or None where only reading all of it tells them.
Layout = Dialect | WithPictures | tuple[str, ...] | None


def describe(source: Source, config: IngestConfig) -> Layout:
    """What the head of a file says about the rest; raises IngestDataError for a file that cannot be read."""
    if source.format == "images":
        return folders.column_names(config)
    if source.format == "arrays":
        return arrays.column_names(source, config)
    table = _describe_table(source, config)
    if not config.images.path_column:
        return table
    if table is None:
        raise IngestConfigError(
            f"images.path_column: {source.name} does not say first which columns it has; use CSV or Parquet"
        )
    names = table.columns if isinstance(table, Dialect) else table
    return WithPictures(table, tables.column_names(names, source, config))


def _describe_table(source: Source, config: IngestConfig) -> Dialect | tuple[str, ...] | None:
    if source.format == "csv":
        return read_dialect(source, config)
    if source.format in ("parquet", "arrow", "avro"):
        return columnar.column_names(source)
    return None


def column_names(layout: Layout) -> tuple[str, ...] | None:
    """The columns of a file, or None where only reading all of it tells them."""
    return layout.columns if isinstance(layout, Dialect | WithPictures) else layout


def plan(source: Source, layout: Layout, config: IngestConfig) -> Iterator[Span]:
    """The parts of a file that can be read apart."""
    if isinstance(layout, WithPictures):
        return plan(source, layout.table, config)
    if isinstance(layout, Dialect):
        return csv_blocks.plan(source, layout, config)
    if source.format == "images":
        return iter([Span(0, len(source.members), 1)])
    if source.format == "arrays":
        return arrays.plan(source, config)
    if source.format == "jsonl":
        return json_lines.plan(source, config)
    return tf_records.plan(source) if source.format == "tfrecord" else columnar.plan(source)


def estimate_spans(source: Source, layout: Layout, config: IngestConfig) -> int:
    """About how many parts `plan` gives, without reading text files for it."""
    if source.format in ("csv", "jsonl"):
        cut = not source.compression and streams.is_utf8(config.encoding)
        return max(1, source.size // config.chunk_bytes) if cut else 1
    return sum(1 for _ in plan(source, layout, config))


def read(source: Source, layout: Layout, span: Span, columns: tuple[str, ...], config: IngestConfig) -> Iterator[Block]:
    """The rows of a part. `columns` spares columnar formats the reading of others; empty means all."""
    if isinstance(layout, WithPictures):
        names = layout.table.columns if isinstance(layout.table, Dialect) else layout.table
        return tables.with_pictures(read(source, layout.table, span, names, config), source, config)
    if isinstance(layout, Dialect):
        return csv_blocks.read(source, layout, span, config)
    if source.format == "images":
        return folders.read(source, span, config)
    if source.format == "arrays":
        return arrays.read(source, span, config)
    if source.format == "jsonl":
        return json_lines.read(source, span, config)
    if source.format == "tfrecord":
        return tf_records.read(source, span)
    return columnar.read(source, span, columns, config)


def named_files(source: Source, config: IngestConfig) -> Iterator[str]:
    """The files besides its own that a source's rows are made of: the pictures that a table names."""
    if not config.images.path_column:
        return
    layout = describe(source, config)
    assert isinstance(layout, WithPictures)
    names = layout.table.columns if isinstance(layout.table, Dialect) else layout.table
    for span in plan(source, layout, config):
        for block in read(source, layout.table, span, names, config):
            yield from filter(None, tables.paths(block, source, config))
