"""Compressed files as plain byte streams."""

import bz2
import contextlib
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from typing import IO, cast

from components.example_gen import storage
from components.example_gen.errors import IngestDataError


@contextlib.contextmanager
def decompressed(path: str, compression: str) -> Iterator[IO[bytes]]:
    """The content of `path` after `compression` ("", "gzip", "bz2" or "zstd") is undone; a broken file is named."""
    with storage.reading(path) as raw:
        if not compression:
            yield raw
            return
        try:
            with _OPENERS[compression](raw) as plain:
                yield plain
        except (EOFError, OSError, zlib.error) as error:
            raise IngestDataError(f"{os.path.basename(path)}: broken {compression}, is it cut off? {error}") from None


def _gzip(raw: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], gzip.GzipFile(fileobj=raw))


def _bz2(raw: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], bz2.BZ2File(raw))


@contextlib.contextmanager
def _zstd(raw: IO[bytes]) -> Iterator[IO[bytes]]:
    import zstandard

    try:
        with zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True, closefd=False) as plain:
            yield plain
    except zstandard.ZstdError as error:
        raise EOFError(str(error)) from None


_OPENERS: dict[str, Callable[[IO[bytes]], contextlib.AbstractContextManager[IO[bytes]]]] = {
    "gzip": _gzip,
    "bz2": _bz2,
    "zstd": _zstd,
}
