"""Compressed and re-encoded files as plain byte streams."""

import bz2
import codecs
import contextlib
import gzip
import io
import struct
from collections.abc import Iterator
from typing import IO

from components.example_gen import storage
from components.example_gen.errors import IngestDataError


@contextlib.contextmanager
def decompressed(path: str, compression: str, offset: int = 0) -> Iterator[IO[bytes]]:
    """The content of `path` after `compression` ("", "gzip", "bz2" or "zstd") is undone."""
    with storage.reading(path, offset) as raw, contextlib.ExitStack() as stack:
        if compression == "gzip":
            yield stack.enter_context(gzip.GzipFile(fileobj=raw))
        elif compression == "bz2":
            yield stack.enter_context(bz2.BZ2File(raw))
        elif compression == "zstd":
            import zstandard

            yield stack.enter_context(zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True))
        else:
            yield raw


@contextlib.contextmanager
def plain(source: "Source", encoding: str) -> Iterator[IO[bytes]]:
    """A text file's content, decompressed and as UTF-8."""
    from components.example_gen.csv_dialect import is_utf8

    with decompressed(source.path, source.compression) as file:
        yield file if is_utf8(encoding) else Utf8Stream(file, encoding, source.name)


def read_up_to(file: IO[bytes], size: int) -> bytes:
    """`size` bytes, or fewer only where the file ends."""
    pieces, missing = [], size
    while missing > 0:
        piece = file.read(missing)
        if not piece:
            break
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)


class Utf8Stream(io.RawIOBase):
    """Reads text in any encoding as UTF-8."""

    def __init__(self, file: IO[bytes], encoding: str, name: str) -> None:
        super().__init__()
        self._file = file
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._encoding = encoding
        self._name = name

    def read(self, size: int = -1) -> bytes:
        """About `size` bytes of input as UTF-8; empty only at the end."""
        while True:
            piece = self._file.read(size)
            try:
                text = self._decoder.decode(piece, final=not piece)
            except UnicodeError as error:
                raise IngestDataError(f"{self._name}: not {self._encoding}: {error}; set encoding") from None
            if text or not piece:
                return text.encode()


def is_tfrecord(head: bytes) -> bool:
    """Whether `head` begins with a TFRecord length and its masked CRC."""
    import google_crc32c

    crc = google_crc32c.value(head[:8])
    masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    return struct.unpack("<I", head[8:12])[0] == masked
