"""Hashes of whole rows, the same for equal rows wherever and in whatever order of features they were written."""

import hashlib
import zlib

import numpy as np
import pyarrow as pa

from components.data_gate.record_blocks import Block


def byte_sums(block: Block) -> np.ndarray:
    """uint64 per serialized record; equal rows have equal sums though their features are serialized in another order.

    Unequal rows may share a sum: good for choosing a sample of row contents, not for calling two rows equal.
    """
    lengths = block.ends - block.starts
    # Every second sum is of what lies between two records. An empty record would be given its neighbour's byte.
    bounds = np.stack([block.starts, block.ends], axis=1).ravel()
    sums = np.add.reduceat(block.content, bounds, dtype=np.uint32)[::2]
    sums = np.where(lengths > 0, sums, 0)
    return _mix(sums.astype(np.uint64) << np.uint64(32) | lengths.astype(np.uint64))


def row_hashes(batch: pa.RecordBatch) -> np.ndarray:
    """uint64 per row over names, order within a list, and values of all columns; missing is not the same as 0."""
    total = np.zeros(batch.num_rows, np.uint64)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_null(column.type):
            continue
        counts = np.asarray(column.value_lengths().fill_null(0))
        rows = np.repeat(np.arange(batch.num_rows), counts)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        seed = np.uint64(zlib.crc32(name.encode()) + 1)
        values = _mix(_value_bits(column.flatten()) + _mix(place.astype(np.uint64) + (seed << np.uint64(20))))
        np.add.at(total, rows, values)
    return total


def _value_bits(values: pa.Array) -> np.ndarray:
    if pa.types.is_integer(values.type):
        return values.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)
    if pa.types.is_floating(values.type):
        numbers = values.to_numpy(zero_copy_only=False).astype(np.float64) + 0.0  # -0.0 equals 0.0
        return np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64)  # and one NaN another
    encoded = values.dictionary_encode()
    digests = [hashlib.blake2b(_bytes(item), digest_size=8).digest() for item in encoded.dictionary.to_pylist()]
    return (
        np.frombuffer(b"".join(digests), np.uint64)[np.asarray(encoded.indices)] if digests else np.zeros(0, np.uint64)
    )


def _bytes(item: object) -> bytes:
    return item if isinstance(item, bytes) else str(item).encode()


def _mix(x: np.ndarray) -> np.ndarray:
    """Spreads every input bit over the output (the finalizer of splitmix64); wraps around on purpose."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
