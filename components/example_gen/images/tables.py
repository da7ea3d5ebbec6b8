"""A table, of any format, whose column `path_column` names image files: each row gets its picture."""

import os
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from components.example_gen import storage
from components.example_gen.blocks import Block
from components.example_gen.config import IngestConfig
from components.example_gen.errors import IngestConfigError, IngestDataError
from components.example_gen.images import picture
from components.example_gen.images.rows import Rows
from components.example_gen.sources import Source

# A block holds at most about this many bytes of pictures.
_ROWS_AT_ONCE = 256


def column_names(table: tuple[str, ...], source: Source, config: IngestConfig) -> tuple[str, ...]:
    """The columns of the table with those of a picture in the place of `path_column`."""
    path_column, added = config.images.path_column, picture.columns(config.images)
    if path_column not in table:
        raise IngestConfigError(
            f"images.path_column: no column {path_column!r} in {source.name}; it has {', '.join(table)}"
        )
    others = [name for name in table if name != path_column]
    both = sorted(set(others) & set(added))
    if both:
        raise IngestConfigError(f"{source.name}: column {both[0]!r} is also what a picture makes; rename it")
    return (*others, *added)


def with_pictures(blocks: Iterator[Block], source: Source, config: IngestConfig) -> Iterator[Block]:
    """Blocks of the table with the pictures in them; a row without a sound picture is a bad row."""
    for block in blocks:
        for start in range(0, block.num_rows, _ROWS_AT_ONCE):
            yield _with_pictures(block, start, min(block.num_rows, start + _ROWS_AT_ONCE), source, config)


def paths(block: Block, source: Source, config: IngestConfig) -> list[str | None]:
    """Where the picture of each row lies; None where the table does not say."""
    folder = os.path.dirname(source.path)
    names = [value.as_py() for value in block.columns[config.images.path_column]]
    names = [name.decode() if isinstance(name, bytes) else name for name in names]
    return [os.path.join(folder, name) if name and "://" not in name else name or None for name in names]


def _with_pictures(block: Block, start: int, end: int, source: Source, config: IngestConfig) -> Block:
    rows = Rows(config.images)
    keep = []
    named = block.columns[config.images.path_column]
    for row, path in enumerate(paths(block, source, config)[start:end], start=start):
        line = block.line(row)
        name = str(named[row].as_py())
        try:
            if path is None:
                raise picture.BadPictureError("the table names no file")
            with storage.reading(path) as file:
                made = picture.examine(file.read(), name, config.images)
        except FileNotFoundError:
            rows.refuse(line, name, "there is no such file")
        except picture.BadPictureError as error:
            rows.refuse(line, name, str(error))
        except OSError as error:
            raise IngestDataError(f"{source.place(line)}: {path} cannot be read: {error.strerror or error}") from None
        else:
            rows.add(line, name, made)
            keep.append(row)
    kept = pa.array(np.asarray(keep, np.int64))
    columns = {name: column.take(kept) for name, column in block.columns.items() if name != config.images.path_column}
    added = rows.columns()
    return Block(
        {**columns, **added},
        block.is_text,
        lambda: np.asarray(rows.lines),
        [*(block.bad if start == 0 else []), *rows.bad],
        typed=frozenset(added),
        notes=rows.notes,
    )
