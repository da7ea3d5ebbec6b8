"""Text files, however compressed and encoded, as plain UTF-8 byte streams."""

import codecs
import contextlib
import io
from collections.abc import Iterator
from typing import IO, cast

from components.example_gen.decompression import decompressed
from components.example_gen.errors import IngestDataError
from components.example_gen.sources import Source


def is_utf8(encoding: str) -> bool:
    """Whether bytes in `encoding` are UTF-8 bytes already."""
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")


@contextlib.contextmanager
def plain(source: Source, encoding: str) -> Iterator[IO[bytes]]:
    """A text file's content, decompressed and as UTF-8."""
    with decompressed(source.path, source.compression) as file:
        yield file if is_utf8(encoding) else cast(IO[bytes], Utf8Stream(file, encoding, source.name))


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
        self._ready = b""
        self._line = 1

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes of UTF-8; empty only at the end."""
        while not self._ready:
            piece = self._file.read(size)
            self._ready = self._decoded(piece)
            if not piece:
                break
        # One byte of input may be three of UTF-8: what was not asked for waits for the next call.
        given, self._ready = (self._ready, b"") if size < 0 else (self._ready[:size], self._ready[size:])
        return given

    def _decoded(self, piece: bytes) -> bytes:
        try:
            text = self._decoder.decode(piece, final=not piece).encode()
        except UnicodeError as error:
            line = self._line + getattr(error, "object", b"")[: getattr(error, "start", 0)].count(b"\n")
            raise IngestDataError(f"{self._name}:{line}: not {self._encoding}: {error}; set encoding") from None
        self._line += text.count(b"\n")
        return text
