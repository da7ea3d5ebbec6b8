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
        for data in _whole_records(file, boundary, config, source):
            yield Span(start, start + len(data), line)
            start += len(data)
            line += data.count(terminator)


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
        line = span.first
        for data in _whole_records(file, boundary, config, source):
            yield data, line
            line += data.count(terminator)


def _whole_records(file: IO[bytes], boundary: Boundary, config: IngestConfig, source: Source) -> Iterator[bytes]:
    """The rest of a stream, cut only between records."""
    rest = b""
    size = config.chunk_bytes
    while True:
        piece = streams.read_up_to(file, size)
        data = rest + piece
        if not piece:
            if data:
                yield data
            return
        end = boundary(data)
        rest = data[end:]
        # A record longer than a chunk: read as much again, so that its start is not looked at over and over.
        size = config.chunk_bytes if end else max(size, len(rest))
        if len(rest) > _MAX_RECORD_BYTES:
            raise IngestDataError(f"{source.name}: a record of more than 1 GiB; is a closing quote missing?")
        if end:
            yield data[:end]
