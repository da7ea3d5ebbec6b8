"""Text files cut between records, as spans for machines to share and as buffers to parse."""

from collections.abc import Callable, Iterator
from typing import IO

from components.example_gen import storage, streams
from components.example_gen.blocks import Span
from components.example_gen.config import IngestConfig
from components.example_gen.errors import IngestDataError
from components.example_gen.sources import Source

_MAX_RECORD_BYTES = 1 << 30

# Given a buffer that begins at a record: the offset just after the last whole record, or 0.
Boundary = Callable[[bytes], int]


def plan(
    source: Source, start: int, line: int, boundary: Boundary, terminator: bytes, config: IngestConfig
) -> Iterator[Span]:
    """Cuts the file from `start` on, which is line `line`, into spans of about `chunk_bytes`.

    It reads all of the file: only who knows the quotes before a line end knows whether a record ends there.
    """
    if source.compression or not streams.is_utf8(config.encoding):
        yield Span(start, -1, line)
        return
    with storage.reading(source.path, start) as file:
        for data, first in _whole_records(file, line, boundary, terminator, config, source):
            yield Span(start, start + len(data), first)
            start += len(data)


def read(
    source: Source, span: Span, boundary: Boundary, terminator: bytes, config: IngestConfig
) -> Iterator[tuple[bytes, int]]:
    """(whole records, the line of the first one), in buffers of about `chunk_bytes`."""
    if span.end >= 0:
        with storage.reading(source.path, span.start) as file:
            yield streams.read_up_to(file, span.end - span.start), span.first
        return
    with streams.plain(source, config.encoding) as file:
        streams.read_up_to(file, span.start)
        yield from _whole_records(file, span.first, boundary, terminator, config, source)


def _whole_records(
    file: IO[bytes], line: int, boundary: Boundary, terminator: bytes, config: IngestConfig, source: Source
) -> Iterator[tuple[bytes, int]]:
    """The rest of a stream, which begins at `line`, cut only between records: (records, the line of the first)."""
    rest = b""
    size = config.chunk_bytes
    while True:
        piece = streams.read_up_to(file, size)
        data = rest + piece
        if not piece:
            if data and not boundary(data + terminator):
                raise IngestDataError(_never_closed(source, line, data))
            if data:
                yield data, line
            return
        end = boundary(data)
        rest = data[end:]
        # A record longer than a chunk: read as much again, so that its start is not looked at over and over.
        size = config.chunk_bytes if end else max(size, len(rest))
        if len(rest) > _MAX_RECORD_BYTES:
            raise IngestDataError(_never_closed(source, line + data.count(terminator, 0, end), rest))
        if end:
            yield data[:end], line
            line += data.count(terminator, 0, end)


def _never_closed(source: Source, line: int, rest: bytes) -> str:
    shown = rest[:100].decode(errors="replace")
    return f"{source.name}:{line}: a quote opens a field that nothing closes before the file or 1 GiB ends: {shown!r}"
