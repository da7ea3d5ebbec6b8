"""What a CSV file's first records say: byte order mark, delimiter, column names, where the data starts."""

import codecs
import csv
import dataclasses
import io
import re

from components.example_gen import csv_records, streams
from components.example_gen.config import IngestConfig
from components.example_gen.errors import IngestDataError
from components.example_gen.kinds import PLAIN_NUMBER
from components.example_gen.sources import Source

_CANDIDATES = ",;\t|"
_NAMES = {"\t": "'\\t' (TAB, tab)"}
_HEAD_BYTES = 256 << 10
_SAMPLE_RECORDS = 50
_UTF8_BOM = codecs.BOM_UTF8
_NUMBER = re.compile(PLAIN_NUMBER)
# What a file may begin with that is no text in the encoding it is read in, and what to do.
_OTHER_STARTS = {
    codecs.BOM_UTF32_LE: "starts like utf-32; set encoding to utf-32",
    codecs.BOM_UTF32_BE: "starts like utf-32; set encoding to utf-32",
    codecs.BOM_UTF16_LE: "starts like utf-16; set encoding to utf-16",
    codecs.BOM_UTF16_BE: "starts like utf-16; set encoding to utf-16",
    "\xef\xbb\xbf".encode(): "starts like utf-8; leave encoding out",
    b"\x1f\x8b": "is gzip; end its name with .gz",
    "\x1f\x8b".encode(): "is gzip; end its name with .gz",
    b"PK\x03\x04": "is a ZIP or Excel file; save the table as CSV",
}


@dataclasses.dataclass(frozen=True)
class Dialect:
    """How to read one CSV file.

    Attributes:
      delimiter: one character.
      columns: names in the file's order.
      data_start: the offset of the first record after the header, in the plain UTF-8 stream.
      first_line: that record's line in the file, counted from 1.
      terminator: the byte that ends lines.
      unnamed: the names given to header fields that were empty.
    """

    delimiter: str
    columns: tuple[str, ...]
    data_start: int
    first_line: int
    terminator: int
    unnamed: tuple[str, ...] = ()

    @property
    def numeric_names(self) -> tuple[str, ...]:
        """Names that are numbers, as they are where the file has no header and its first row was taken for one."""
        return () if self.data_start == 0 else tuple(name for name in self.columns if _NUMBER.fullmatch(name))


def read_dialect(source: Source, config: IngestConfig) -> Dialect:
    """Reads the head of `source`.

    Raises:
      IngestDataError: the encoding does not fit, the delimiter is not clear, or the header is missing or has a name
        twice. The message names the file.
    """
    head, whole = _head(source, config)
    marked = len(_UTF8_BOM) if head.startswith(_UTF8_BOM) else 0
    body = head[marked:].lstrip(b"\r\n")
    offset = len(head) - len(body)
    lines_before = len(head[marked:offset].splitlines())
    _check_text(body, source, config, lines_before, whole)
    if not body.strip():
        raise IngestDataError(f"{source.name}: 0 rows and no header: the file has nothing but white space")
    delimiter = _delimiter(body, whole, source, config)
    terminator = csv_records.line_end(body)
    if config.column_names:
        return Dialect(delimiter, config.column_names, offset, lines_before + 1, terminator)
    end = csv_records.first_boundary(body, ord(delimiter)) or len(body)
    header = body[:end]
    columns, unnamed = _column_names(header.decode(), delimiter, source)
    line = lines_before + 1 + header.count(bytes((terminator,)))
    return Dialect(delimiter, columns, offset + end, line, terminator, unnamed)


def _head(source: Source, config: IngestConfig) -> tuple[bytes, bool]:
    """The first bytes as UTF-8, at least one record, and whether that is the whole file."""
    with streams.plain(source, config.encoding) as file:
        head = streams.read_up_to(file, _HEAD_BYTES)
        whole = len(head) < _HEAD_BYTES
        while not whole and not csv_records.first_boundary(head, ord(",")):
            more = streams.read_up_to(file, len(head))
            whole = not more
            head += more
    return head, whole


def _check_text(body: bytes, source: Source, config: IngestConfig, lines_before: int, whole: bool) -> None:
    check_start(body, source.name)
    zero = body.find(b"\0", 0, 4096)
    if zero >= 0:
        line = lines_before + 1 + body[:zero].count(b"\n")
        raise IngestDataError(
            f"{source.name}:{line}: a zero byte after {body[max(0, zero - 20) : zero].decode(errors='replace')!r}: "
            f"not CSV text in {config.encoding}; set format or encoding"
        )
    complete = body if whole else body[: body.rfind(b"\n") + 1]
    check_utf8(complete, source.name, lines_before + 1)


def check_start(head: bytes, name: str) -> None:
    """Raises where a file begins like one that is no text, or text in another encoding."""
    for start, what in _OTHER_STARTS.items():
        if head.startswith(start):
            raise IngestDataError(f"{name}: {what}")


def check_utf8(data: bytes, name: str, first_line: int) -> None:
    """Raises, naming file, line and byte, where `data` is not UTF-8."""
    if data.isascii():
        return
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = first_line + data[: error.start].count(b"\n")
        raise IngestDataError(
            f"{name}:{line}: byte 0x{data[error.start]:02x} is not utf-8; set encoding, for example latin-1 or cp1252"
        ) from None


def _delimiter(body: bytes, whole: bool, source: Source, config: IngestConfig) -> str:
    if config.delimiter not in ("", "auto"):
        return config.delimiter
    fitting = [candidate for candidate in _CANDIDATES if _fits(body, whole, candidate)]
    expected = "\t" if source.tabs else ","
    if config.delimiter == "auto" and len(fitting) == 1:
        return fitting[0]
    if fitting in ([], [expected]):
        return expected
    shown = " or ".join(_NAMES.get(candidate, repr(candidate)) for candidate in fitting)
    if len(fitting) == 1:
        raise IngestDataError(
            f"{source.name}: the columns look separated by {shown}, not {_NAMES.get(expected, repr(expected))}; "
            f"set delimiter to {shown}, or to auto"
        )
    raise IngestDataError(
        f"{source.name}: the delimiter is ambiguous: {shown} would fit; set delimiter to the right one"
    )


def _fits(body: bytes, whole: bool, delimiter: str) -> bool:
    """Whether the first records all have the same number of fields, two or more, with this delimiter."""
    text = body.decode(errors="replace")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    widths = []
    csv.field_size_limit(1 << 30)
    for record in reader:
        if record:
            widths.append(len(record))
        if len(widths) > _SAMPLE_RECORDS:
            break
    else:
        if not whole and len(widths) > 1:
            widths.pop()
    same = sum(width == widths[0] for width in widths)
    return widths[0] >= 2 and same >= 0.9 * len(widths)


def _column_names(header: str, delimiter: str, source: Source) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(names, the ones among them that the file leaves empty); raises for a name that is there twice."""
    names = [name.strip() for name in next(csv.reader(io.StringIO(header, newline=""), delimiter=delimiter))]
    unnamed = []
    for position, name in enumerate(names):
        if not name:
            names[position] = f"unnamed_{position + 1}"
            unnamed.append(names[position])
    for position, name in enumerate(names):
        if name in names[:position]:
            places = f"columns {names.index(name) + 1} and {position + 1}"
            raise IngestDataError(f"{source.name}:1: column {name!r} is there twice ({places}); rename one")
    return tuple(names), tuple(unnamed)
