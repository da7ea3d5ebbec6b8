"""A question about the rows of one column, asked once of every batch."""

import dataclasses
import math
import re
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.data_gate import iso_time
from components.example_gen.config import DEFAULT_NA

_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|inf|infinity|nan)", re.IGNORECASE)
_WHOLE = re.compile(r"[+-]?\d{1,100}")
_LIMIT = 1 << 63
_MISSING = {"", *DEFAULT_NA}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowQuestion:
    """Which rows of `split` break `rule` in `feature`.

    `test` is one of: missing, count, nan, infinite, range (outside `low` to `high`), finite-range (infinity aside),
    values (not in `values`), fraction (no whole number), and of text: late (a time after `high`, in seconds since
    1970), timeless (no ISO 8601 time), blank (no value, or empty), wordy (no number), partial (no whole number);
    unlabelled is missing or NaN.
    `decides`: there is a finding only if a row answers yes; otherwise it stands already and rows illustrate it, as
    `observed`, or `otherwise` where no row does.
    """

    feature: str
    rule: str
    split: str
    test: str
    low: float = -math.inf
    high: float = math.inf
    values: tuple[str, ...] = ()
    decides: bool = False
    observed: str = ""
    otherwise: str = ""
    allowed: str = ""
    why: str = ""

    def offending(self, batch: pa.RecordBatch) -> np.ndarray:
        """Row numbers in `batch` (int64) that answer yes."""
        index = batch.schema.get_field_index(self.feature)
        column = batch.column(index) if index >= 0 else pa.nulls(batch.num_rows)
        return np.unique(_TESTS[self.test](self, column))


def _rows_and_values(column: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Row number of each value, and the values, of a list column."""
    if pa.types.is_null(column.type):
        return np.zeros(0, np.int64), pa.array([], pa.float64())
    counts = _counts(column)
    return np.repeat(np.arange(len(column)), counts), column.flatten()


def _counts(column: pa.Array) -> np.ndarray:
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    return np.asarray(column.value_lengths().fill_null(0))


def _missing(question: RowQuestion, column: pa.Array) -> np.ndarray:
    return np.flatnonzero(_counts(column) == 0)


def _count(question: RowQuestion, column: pa.Array) -> np.ndarray:
    counts = _counts(column)
    present = counts > 0
    return np.flatnonzero(present & ((counts < question.low) | (counts > question.high)))


def _numbers(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    rows, values = _rows_and_values(column)
    if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        return np.zeros(0, np.int64), np.zeros(0)
    return rows, values.to_numpy(zero_copy_only=False)


def _nan(question: RowQuestion, column: pa.Array) -> np.ndarray:
    rows, values = _numbers(column)
    return rows[np.isnan(values)]


def _infinite(question: RowQuestion, column: pa.Array) -> np.ndarray:
    rows, values = _numbers(column)
    return rows[np.isinf(values)]


def _range(question: RowQuestion, column: pa.Array) -> np.ndarray:
    rows, values = _numbers(column)
    return rows[(values < question.low) | (values > question.high)]


def _finite_range(question: RowQuestion, column: pa.Array) -> np.ndarray:
    rows, values = _numbers(column)
    return rows[np.isfinite(values) & ((values < question.low) | (values > question.high))]


def _fraction(question: RowQuestion, column: pa.Array) -> np.ndarray:
    rows, values = _numbers(column)
    return rows[~np.isfinite(values) | (values != np.floor(values))]


def _wordy(question: RowQuestion, column: pa.Array) -> np.ndarray:
    return _written_otherwise(column, lambda text: _NUMBER.fullmatch(text) is not None)


def _partial(question: RowQuestion, column: pa.Array) -> np.ndarray:
    return _written_otherwise(column, lambda text: _WHOLE.fullmatch(text) is not None and -_LIMIT <= int(text) < _LIMIT)


def _written_otherwise(column: pa.Array, fits: Callable[[str], bool]) -> np.ndarray:
    """Rows with text that neither fits nor is a word for a missing value."""
    rows, values = _rows_and_values(column)
    if not len(values) or not (pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)):
        return rows[:0]
    encoded = values.dictionary_encode()
    texts = [_text(value).strip() for value in encoded.dictionary.to_pylist()]
    bad = np.array([text not in _MISSING and not fits(text) for text in texts], bool)
    return rows[bad[np.asarray(encoded.indices)]]


def _values(question: RowQuestion, column: pa.Array) -> np.ndarray:
    rows, values = _rows_and_values(column)
    return rows[~np.asarray(_is_in(values, question.values), bool)] if len(values) else rows


def _late(question: RowQuestion, column: pa.Array) -> np.ndarray:
    rows, values = _rows_and_values(column)
    return rows[iso_time.seconds_of_column(values) > question.high]


def _timeless(question: RowQuestion, column: pa.Array) -> np.ndarray:
    rows, values = _rows_and_values(column)
    return rows[np.isnan(iso_time.seconds_of_column(values))]


def _blank(question: RowQuestion, column: pa.Array) -> np.ndarray:
    rows, values = _rows_and_values(column)
    filled = rows[np.asarray(pc.greater(pc.binary_length(values), 0), bool)] if len(values) else rows
    return np.setdiff1d(np.arange(len(column)), filled)


def _unlabelled(question: RowQuestion, column: pa.Array) -> np.ndarray:
    return np.concatenate([_missing(question, column), _nan(question, column)])


def _is_in(values: pa.Array, allowed: Sequence[str]) -> list[bool]:
    encoded = values.dictionary_encode()
    known = set(allowed)
    good = np.array([_text(value) in known for value in encoded.dictionary.to_pylist()], bool)
    return list(good[np.asarray(encoded.indices)])


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


_TESTS = {
    "missing": _missing,
    "count": _count,
    "nan": _nan,
    "infinite": _infinite,
    "range": _range,
    "finite-range": _finite_range,
    "fraction": _fraction,
    "wordy": _wordy,
    "partial": _partial,
    "values": _values,
    "late": _late,
    "timeless": _timeless,
    "blank": _blank,
    "unlabelled": _unlabelled,
}
