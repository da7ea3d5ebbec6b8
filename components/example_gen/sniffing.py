"""The format of a file whose name does not say."""

import struct

from google_crc32c import value as crc32c

from components.example_gen import decompression
from components.example_gen.errors import IngestDataError

_MAGIC_FORMATS = {b"PAR1": "parquet", b"ARROW1": "arrow", b"FEA1": "arrow", b"Obj\x01": "avro"}
_HEAD_BYTES = 4096


def sniff(path: str, compression: str) -> str:
    """The format by content, or "" for what is not data."""
    try:
        with decompression.decompressed(path, compression) as file:
            head = file.read(_HEAD_BYTES)
    except IngestDataError:
        return ""
    for magic, kind in _MAGIC_FORMATS.items():
        if head.startswith(magic):
            return kind
    if len(head) >= 12 and _is_tfrecord(head):
        return "tfrecord"
    if b"\0" in head:
        return ""
    return "jsonl" if head.lstrip()[:1] == b"{" else "csv"


def is_blank(path: str, compression: str) -> bool:
    """Whether a small file has no content but white space; one that cannot be read is not blank."""
    try:
        with decompression.decompressed(path, compression) as file:
            return not file.read(_HEAD_BYTES).strip()
    except IngestDataError:
        return False


def _is_tfrecord(head: bytes) -> bool:
    """Whether `head` begins with a record's length and the masked CRC of that length."""
    crc = crc32c(head[:8])
    masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    return struct.unpack("<I", head[8:12])[0] == masked
