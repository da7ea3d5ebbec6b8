"""A folder of image files: the first folder below the pattern's fixed part is a picture's class.

Files are bundled in the order of a hash of their names, so that a bundle holds pictures of all classes: what is written
is mixed, without anybody having to shuffle it.
"""

import zlib
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from components.example_gen import storage
from components.example_gen.blocks import Block, Span
from components.example_gen.config import IngestConfig
from components.example_gen.errors import IngestDataError
from components.example_gen.images import picture
from components.example_gen.images.rows import Rows
from components.example_gen.sources import Source

_MAX_BUNDLE_FILES = 4096
_HEAD_BYTES = 8


def find(pattern: str, split: str, config: IngestConfig) -> tuple[list[Source], list[tuple[str, str]]]:
    """The image files of a folder or glob in bundles of about `chunk_bytes`, and the files left out as (path, why).

    A glob that matches folders takes all that is in them.
    """
    root = pattern.rstrip("/") if storage.is_folder(pattern) else storage.fixed_part(pattern)
    globs = [f"{storage.escape(root)}/**"] if root == pattern.rstrip("/") else [pattern, f"{pattern}/**"]
    listed = sorted({found for glob in globs for found in storage.find(glob)})
    chosen: list[tuple[str, int]] = []
    skipped: list[tuple[str, str]] = []
    for path, size in listed:
        member = path[len(root) :].lstrip("/")
        why = _left_out(path, member, size)
        if why:
            skipped.append((path, why))
        else:
            chosen.append((member, size))
    chosen.sort(key=lambda found: (zlib.crc32(found[0].encode()), found[0]))
    return list(_bundles(root, chosen, split, config)), skipped


def _left_out(path: str, member: str, size: int) -> str:
    parts = member.split("/")
    if any(part.startswith((".", "__MACOSX")) for part in parts):
        return "a hidden file, or in a hidden folder"
    if picture.is_picture_name(member):
        return ""
    if "." not in parts[-1] and size:
        with storage.reading(path) as file:
            if picture.is_picture_head(file.read(_HEAD_BYTES)):
                return ""
    return "not a picture by its name"


def _bundles(root: str, chosen: list[tuple[str, int]], split: str, config: IngestConfig) -> Iterator[Source]:
    members: list[str] = []
    total = 0
    for member, size in chosen:
        if members and (total + size > config.chunk_bytes or len(members) == _MAX_BUNDLE_FILES):
            yield Source(root, total, "images", split=split, members=tuple(members))
            members, total = [], 0
        members.append(member)
        total += size
    if members:
        yield Source(root, total, "images", split=split, members=tuple(members))


def column_names(config: IngestConfig) -> tuple[str, ...]:
    """The columns of pictures in folders."""
    image, *rest = picture.columns(config.images)
    return (image, config.images.label_column, *rest)


def read(source: Source, span: Span, config: IngestConfig) -> Iterator[Block]:
    """The pictures of a bundle as one block."""
    del span  # a bundle is one
    rows = Rows(config.images)
    labels: list[str] = []
    for line, (member, path) in enumerate(zip(source.members, source.all_paths(), strict=True), start=1):
        label, _, inside = member.partition("/")
        if not inside:
            rows.refuse(line, member, f"lies in no class folder below {source.path}")
            continue
        try:
            with storage.reading(path) as file:
                made = picture.examine(file.read(), member, config.images)
        except picture.BadPictureError as error:
            rows.refuse(line, member, str(error))
        except OSError as error:
            raise IngestDataError(f"{member}: cannot be read: {error.strerror or error}") from None
        else:
            rows.add(line, member, made)
            labels.append(label)
    columns = rows.columns()
    columns[config.images.label_column] = pa.array(labels, pa.string())
    yield Block(columns, False, lambda: np.asarray(rows.lines), rows.bad, notes=rows.notes)
