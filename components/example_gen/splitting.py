"""Which split each row belongs to: by hash of content, by time, or by file. No row is looked at in Python."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from components.example_gen.config import SplitConfig
from components.example_gen.errors import IngestConfigError, IngestDataError
from components.example_gen.features import Column
from components.example_gen.kinds import parse_moment

_PRIME = np.uint64(0x9E3779B97F4A7C15)
_U64 = np.uint64


def assign(
    columns: dict[str, Column], split: SplitConfig, source_split: str, where: str, line: Callable[[int], int]
) -> np.ndarray:
    """For each row the index into `split.names` (int64 [rows]).

    Args:
      columns: all features.
      split: how to divide.
      source_split: the split the file was given to, for `by: files`.
      where: the file, for errors.
      line: the line of a row, for errors.
    """
    num_rows = next(iter(columns.values())).num_rows
    if split.by == "files":
        return np.full(num_rows, split.names.index(source_split))
    if split.by == "time":
        return _by_time(_named(columns, split.time_column, where), split, where, line)
    keyed = columns if split.by == "row" else {name: _named(columns, name, where) for name in split.columns}
    hashes = row_hashes(keyed, split.seed)
    bounds = np.cumsum(list(split.weights.values()))
    return np.searchsorted(bounds, (hashes % _U64(bounds[-1])).astype(np.int64), side="right")


def row_hashes(columns: dict[str, Column], seed: int) -> np.ndarray:
    """A 64-bit hash of each row's names and values (uint64 [rows]), the same in any file, block or column order."""
    num_rows = next(iter(columns.values())).num_rows
    combined = np.full(num_rows, _mix(np.asarray([seed], np.uint64))[0])
    for name in sorted(columns):
        column = columns[name]
        salt = _text_hashes(pa.array([name.encode()], pa.large_binary()))[0]
        cell = _list_hashes(_value_hashes(column), column.offsets)
        combined = _mix(combined * _PRIME + _mix(cell ^ salt))
    return combined


def _value_hashes(column: Column) -> np.ndarray:
    if column.kind in ("bytes", "none"):
        return _text_hashes(column.values)
    data = column.values.to_numpy(zero_copy_only=False)
    if column.kind == "int":
        return _mix(data.view(np.uint64))
    return _mix((data + np.float32(0)).view(np.uint32).astype(np.uint64))  # -0.0 becomes 0.0: they are equal


def _list_hashes(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """One hash per row from the hashes of its values, in order.

    A row's hash depends on nothing but the row: were a single value hashed otherwise where some neighbour lacks one,
    equal rows of two blocks would fall into two splits.
    """
    lengths = np.diff(offsets)
    one, several = lengths == 1, lengths > 1
    if one.all():
        return values
    cells = np.zeros(len(lengths), np.uint64)
    cells[one] = values[offsets[:-1][one]]
    if several.any():
        cells[several] = (_segment_hashes(values, offsets) ^ _mix(lengths.astype(np.uint64)))[several]
    return cells


def _text_hashes(values: pa.Array) -> np.ndarray:
    offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
    if not len(offsets):
        return np.empty(0, np.uint64)
    piece = data[offsets[0] : offsets[-1]].astype(np.uint64) + _U64(1)
    return _mix(_segment_hashes(piece, offsets - offsets[0]) ^ np.diff(offsets).astype(np.uint64))


def _segment_hashes(items: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """A polynomial hash, modulo 2**64, of each run items[offsets[i]:offsets[i + 1]], through prefix sums.

    The sum over item k times p**k is taken once over everything; a run's own hash is the difference of two prefix
    sums times p**-start, which exists because p is odd.
    """
    powers = _powers(int(_PRIME), len(items) + 1)
    inverses = _powers(pow(int(_PRIME), -1, 1 << 64), len(items) + 1)
    prefix = np.zeros(len(items) + 1, np.uint64)
    np.cumsum(items * powers[:-1], out=prefix[1:])
    return _mix((prefix[offsets[1:]] - prefix[offsets[:-1]]) * inverses[offsets[:-1]])


_POWERS: dict[int, np.ndarray] = {}


def _powers(base: int, count: int) -> np.ndarray:
    known = _POWERS.get(base)
    if known is None or len(known) < count:
        known = np.full(max(count, 1 << 16), base, np.uint64)
        known[0] = 1
        np.cumprod(known, out=known)
        _POWERS[base] = known
    return known[:count]


def _mix(values: np.ndarray) -> np.ndarray:
    """A finalizer (splitmix64): every input bit reaches every output bit."""
    values = values + _PRIME
    values = (values ^ (values >> _U64(30))) * _U64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> _U64(27))) * _U64(0x94D049BB133111EB)
    return values ^ (values >> _U64(31))


def _named(columns: dict[str, Column], name: str, where: str) -> Column:
    if name not in columns:
        raise IngestDataError(f"{where}: no column {name!r} to split by; there are: {', '.join(columns)}")
    return columns[name]


def _by_time(column: Column, split: SplitConfig, where: str, line: Callable[[int], int]) -> np.ndarray:
    name = split.time_column
    lengths = np.diff(column.offsets)
    if (lengths != 1).any():
        row = int(np.argmax(lengths != 1))
        raise IngestDataError(f"{where}:{line(row)}: column {name!r} has no value; a time split needs one in each row")
    cuts = [cut for cut in split.cuts.values() if cut is not None]
    values: np.ndarray
    if column.kind == "bytes":
        values = column.values.cast(pa.large_string()).to_numpy(zero_copy_only=False).astype(str)
        bounds = np.asarray([str(cut) for cut in cuts])
    else:
        values = column.values.to_numpy(zero_copy_only=False)
        bounds = np.asarray([_numeric_cut(cut, name) for cut in cuts])
    if (bounds[1:] <= bounds[:-1]).any():
        raise IngestConfigError(f"split.cuts are not ascending: {', '.join(map(str, cuts))}")
    return np.searchsorted(bounds, values, side="right")


def _numeric_cut(cut: object, name: str) -> int | float:
    """A cut as a number; a date or time is microseconds since 1970, which is what timestamp columns hold."""
    if isinstance(cut, int | float):
        return cut
    moment = parse_moment(str(cut))
    if moment is not None:
        return moment
    try:
        return float(str(cut))
    except ValueError:
        raise IngestConfigError(f"split.cuts has {cut!r}, but column {name!r} holds numbers or times") from None
