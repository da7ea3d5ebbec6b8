"""Pictures in NumPy files: an .npz with images and labels, or images.npy with labels.npy beside it."""

import functools
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from components.example_gen import storage
from components.example_gen.blocks import Block, Span
from components.example_gen.config import IngestConfig
from components.example_gen.errors import IngestDataError
from components.example_gen.images import picture
from components.example_gen.images.rows import Rows
from components.example_gen.sources import Source, label_file

# Names under which people keep the classes; they become `label_column`.
_LABEL_NAMES = ("label", "labels", "y", "target", "targets", "class", "classes")


def column_names(source: Source, config: IngestConfig) -> tuple[str, ...]:
    """The columns of the pictures and of the arrays beside them."""
    image, *rest = picture.columns(config.images)
    _, others = _arrays(source, config)
    return (image, *others, *rest)


def plan(source: Source, config: IngestConfig) -> Iterator[Span]:
    """Spans of rows of about `chunk_bytes`."""
    images, _ = _arrays(source, config)
    at_once = max(1, config.chunk_bytes // max(1, images[0].nbytes)) if len(images) else 1
    for start in range(0, len(images), at_once):
        yield Span(start, min(len(images), start + at_once), start + 1)


def read(source: Source, span: Span, config: IngestConfig) -> Iterator[Block]:
    """The rows of a span as one block."""
    images, others = _arrays(source, config)
    rows = Rows(config.images)
    for index in range(span.start, span.end):
        rows.add(index + 1, f"{source.name}:{index + 1}", picture.encode(images[index], config.images))
    columns = rows.columns()
    for name, values in others.items():
        part = values[span.start : span.end]
        text = [value.decode() if isinstance(value, bytes) else str(value) for value in part.tolist()]
        columns[name] = pa.array(text) if part.dtype.kind in "SUO" else pa.array(part)
    yield Block(columns, False, lambda: np.asarray(rows.lines), notes=rows.notes)


def _arrays(source: Source, config: IngestConfig) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """(the pictures, the columns beside them by name); raises IngestDataError for what cannot be pictures."""
    images, others = _loaded(source)
    if images.dtype != np.uint8:
        span = (
            f" with values {images.min():g} to {images.max():g}" if images.dtype.kind in "fiu" and images.size else ""
        )
        raise IngestDataError(
            f"{source.name}: pictures must be uint8, found {images.dtype}{span}: bring them to 0..255"
        )
    if images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] not in (1, 3)):
        raise IngestDataError(
            f"{source.name}: pictures have shape {list(images.shape)}; expected [rows, height, width] or "
            "[rows, height, width, 1 or 3]"
        )
    for name, values in others.items():
        if values.ndim != 1 or len(values) != len(images):
            raise IngestDataError(
                f"{source.name}: array {name!r} has shape {list(values.shape)}; expected [{len(images)}], one "
                "value for each picture"
            )
    label = config.images.label_column
    return images, {label if name.lower() in _LABEL_NAMES else name: values for name, values in others.items()}


@functools.lru_cache(maxsize=2)
def _loaded(source: Source) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    if source.compression:
        raise IngestDataError(f"{source.name}: NumPy files are read as they are; undo the {source.compression} first")
    if source.path.endswith(".npy"):
        return _load_array(source.path), _companion(source.path)
    with storage.reading(source.path) as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
        except (ValueError, OSError, EOFError) as error:
            raise IngestDataError(f"{source.name}: not a readable .npz file: {error}") from None
    pictures = [name for name, values in arrays.items() if values.ndim >= 3]
    if len(pictures) != 1:
        shapes = ", ".join(f"{name} {list(values.shape)}" for name, values in arrays.items())
        raise IngestDataError(
            f"{source.name}: expected one array of pictures [rows, height, width ...]; it has {shapes}"
        )
    return arrays.pop(pictures[0]), arrays


def _companion(path: str) -> dict[str, np.ndarray]:
    other = label_file(path)
    if not storage.find(storage.escape(other)):
        raise IngestDataError(f"{os.path.basename(path)}: no classes: expected {os.path.basename(other)} beside it")
    return {"labels": _load_array(other)}


def _load_array(path: str) -> np.ndarray:
    source: Any
    try:
        if storage.is_local(path):
            return np.load(path, mmap_mode="r", allow_pickle=False)
        with storage.reading(path) as source:
            return np.load(source, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise IngestDataError(f"{os.path.basename(path)}: not a readable .npy file: {error}") from None
