"""Columns to serialized tf.Examples and TFRecords, a block at a time, as joins of byte arrays.

The wire format of a tf.Example is a list of (name, feature) entries. What stands before a feature's values depends
only on the name, the kind and how many bytes the values take; so it comes from a small table, by length. Entries are
in column order, and equal rows give equal bytes, which protobuf's own maps (and tfx_bsl's encoder) do not promise.
"""

import struct
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google_crc32c import value as crc32c

from components.example_gen.features import Column

# Field numbers of tf.Feature's oneof, as tags of length-delimited fields.
_LIST_TAGS = {"bytes": b"\x0a", "float": b"\x12", "int": b"\x1a"}
_FIRST, _SECOND = b"\x0a", b"\x12"
_MASK_DELTA = 0xA282EAD8
_EMPTY = pa.scalar(b"", pa.large_binary())


def encode(columns: dict[str, Column]) -> pa.Array:
    """Serialized tf.Examples, one per row (large_binary)."""
    parts: list[pa.Array] = []
    for name, column in columns.items():
        parts += _entries(name, column)
    body = _join(parts)
    lengths = _lengths(body)
    return _join([_by_length(lengths, lambda length: _FIRST + _varint(length)), body])


def frame(records: pa.Array) -> bytes:
    """TFRecord framing: length, masked CRC of the length, the record, masked CRC of the record."""
    if not len(records):
        return b""
    head = _by_length(_lengths(records), _frame_head)
    crc = np.fromiter(map(crc32c, records.to_pylist()), np.uint32, len(records))
    masked = ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(_MASK_DELTA)
    framed = _join([head, records, _fixed(masked)])
    return _content(framed)


def _entries(name: str, column: Column) -> list[pa.Array]:
    """The map entry of each row, as arrays to be joined."""
    if column.kind == "none":
        return [pa.array([_entry(name, b"")], pa.large_binary()).take(pa.array(np.zeros(column.num_rows, np.int64)))]
    payload = _payload(column)
    if column.kind == "bytes":
        before = _by_length(
            _lengths(payload), lambda length: _entry(name, _LIST_TAGS["bytes"] + _varint(length), length)
        )
    else:
        before = _by_length(_lengths(payload), lambda length: _entry(name, _packed(column.kind, length), length))
    if column.absent is not None:
        before = pc.if_else(pa.array(column.absent), pa.scalar(_entry(name, b""), pa.large_binary()), before)
    return [before, payload]


def _payload(column: Column) -> pa.Array:
    """The bytes of each row's values (large_binary): packed numbers, or length-prefixed strings."""
    if column.kind == "float":
        data = np.ascontiguousarray(column.values.to_numpy(zero_copy_only=False), "<f4")
        return _binary(column.offsets * 4, data.view(np.uint8))
    if column.kind == "int":
        data, starts = _varints(column.values.to_numpy(zero_copy_only=False))
        return _binary(starts[column.offsets], data)
    items = _join([_by_length(_lengths(column.values), lambda length: _FIRST + _varint(length)), column.values])
    starts = np.frombuffer(items.buffers()[1], np.int64)[items.offset : items.offset + len(items) + 1]
    return _binary(starts[column.offsets], np.frombuffer(items.buffers()[2] or b"", np.uint8))


def _entry(name: str, feature: bytes, following: int = 0) -> bytes:
    """A map entry up to the values, which take `following` bytes more and end it."""
    key = name.encode()
    value = _SECOND + _varint(len(feature) + following) + feature
    inner = _FIRST + _varint(len(key)) + key + value
    return _FIRST + _varint(len(inner) + following) + inner


def _packed(kind: str, length: int) -> bytes:
    """What stands before `length` bytes of packed numbers. An empty list has no values field at all."""
    field = _FIRST + _varint(length) if length else b""
    return _LIST_TAGS[kind] + _varint(len(field) + length) + field


def _frame_head(length: int) -> bytes:
    packed = struct.pack("<Q", length)
    crc = crc32c(packed)
    return packed + struct.pack("<I", (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF)


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def _varints(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the varints of int64 values one after the other as uint8, where each starts and the last ends as int64)."""
    unsigned = values.view(np.uint64)
    largest = int(unsigned.max()) if len(unsigned) else 0
    width = max(1, -(-largest.bit_length() // 7))
    lengths = np.ones(len(unsigned), np.int64)
    groups = np.empty((len(unsigned), width), np.uint8)
    for group in range(width):
        shifted = unsigned >> np.uint64(7 * group)
        more = shifted > 0x7F
        lengths += more
        groups[:, group] = (shifted & np.uint64(0x7F)).astype(np.uint8) | (more.astype(np.uint8) << 7)
    starts = np.zeros(len(unsigned) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    if width == 1:
        return groups[:, 0], starts
    return groups[np.arange(width) < lengths[:, None]], starts


def _by_length(lengths: np.ndarray, make: Callable[[int], bytes]) -> pa.Array:
    """For each row make(its length), made once per distinct length."""
    if not len(lengths):
        return pa.array([], pa.large_binary())
    largest = int(lengths.max())
    if largest < 4 * len(lengths) + 1024:
        known = np.flatnonzero(np.bincount(lengths, minlength=largest + 1))
        position = np.zeros(largest + 1, np.int64)
        position[known] = np.arange(len(known))
        codes = position[lengths]
    else:
        known, codes = np.unique(lengths, return_inverse=True)
    table = pa.array([make(length) for length in known.tolist()], pa.large_binary())
    return table.take(pa.array(codes))


def _join(parts: list[pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(*parts, _EMPTY)


def _lengths(values: pa.Array) -> np.ndarray:
    offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
    return np.diff(offsets)


def _binary(offsets: np.ndarray, data: np.ndarray) -> pa.Array:
    """A large_binary array over `data`: row i is data[offsets[i]:offsets[i + 1]]."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets, np.int64)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _fixed(values: np.ndarray) -> pa.Array:
    """Numbers as byte strings, little-endian."""
    width = values.dtype.itemsize
    return _binary(np.arange(len(values) + 1) * width, values.view(np.uint8))


def _content(values: pa.Array) -> bytes:
    """All values one after the other."""
    offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
    return memoryview(values.buffers()[2])[offsets[0] : offsets[-1]].tobytes()
