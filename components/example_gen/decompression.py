"""Compressed files as plain byte streams."""

import bz2
import contextlib
import gzip
from collections.abc import Iterator
from typing import IO, cast

from components.example_gen import storage


@contextlib.contextmanager
def decompressed(path: str, compression: str, offset: int = 0) -> Iterator[IO[bytes]]:
    """The content of `path` after `compression` ("", "gzip", "bz2" or "zstd") is undone."""
    with storage.reading(path, offset) as raw, contextlib.ExitStack() as stack:
        if compression == "gzip":
            yield cast(IO[bytes], stack.enter_context(gzip.GzipFile(fileobj=raw)))
        elif compression == "bz2":
            yield cast(IO[bytes], stack.enter_context(bz2.BZ2File(raw)))
        elif compression == "zstd":
            import zstandard

            yield stack.enter_context(zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True))
        else:
            yield raw
