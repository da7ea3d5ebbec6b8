"""Text to typed values, a whole column at a time, with everything that is not plain recorded as evidence."""

import dataclasses
import decimal
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.example_gen.config import DEFAULT_NA, IngestConfig
from components.example_gen.evidence import Evidence, Place, decide

PLAIN_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_NUMBER = rf"^\s*{PLAIN_NUMBER}\s*$"
_FLOAT = rf"(?i)^({PLAIN_NUMBER}|[+-]?(inf|infinity|nan))$"
# Numbers as people and spreadsheets write them: 1,5 or 1.234,50 or $5 or 12 %.
_OTHERWISE = r"^[+-]?[$€£¥]? ?\d+([., ']\d{3})*([.,]\d+)? ?[%$€£¥]?$"
_SHOWS_OTHERWISE = 20
# Beyond this not every whole number is a float64, and a number that is written shorter than so is not lost as one.
_EXACT_FLOAT64 = float(1 << 53)
_SHORTEST_UNDERFLOW = len("1e-324")
_INTEGER = r"^\s*[+-]?\d+\s*$"
_TRUE = pa.array(["true", "t", "yes", "y", "1"])
_FALSE = pa.array(["false", "f", "no", "n", "0"])
_EXACT_FLOAT32 = float(1 << 24)

# Given a row of the block, the place to name for it.
Locate = Callable[[int, str], Place]


@dataclasses.dataclass
class Parsed:
    """A column after parsing.

    Attributes:
      kind: "int", "float", "bytes" or "none".
      values: int64, float64 or string array of the block's rows; null is missing.
      evidence: what was seen.
      offenders: rows (int64) whose value is not of the declared kind.
    """

    kind: str
    values: pa.Array
    evidence: Evidence
    offenders: np.ndarray | None = None


def infer(text: pa.Array, config: IngestConfig, locate: Locate) -> Parsed:
    """Parses a string column as the narrowest kind that holds all of this block's values."""
    evidence = Evidence(rows=len(text))
    values = _without_empty(text, config.na, evidence, locate)
    present = len(values) - values.null_count
    if not present:
        return Parsed("none", values, evidence)
    words = _words(config)
    numbers = _numbers(values, words, evidence, locate)
    if numbers is None:
        masked = _without_words(values, words)
        evidence.words = masked.null_count - values.null_count
        if evidence.words < present:
            unsigned = pc.replace_substring_regex(masked, r"^\+(\d)", r"\1")
            numbers = _numbers(unsigned, words, evidence, locate)
        if numbers is None:
            return _as_text(values, words, evidence, locate)
        _first(evidence, "words", values, _true(pc.and_(pc.is_valid(values), pc.is_null(masked))), locate)
    if pa.types.is_floating(numbers.type):
        note_losses(numbers, evidence, locate, values)
    kind = decide(evidence, config.float_loss)
    return Parsed(kind, values if kind == "bytes" else numbers, evidence)


def convert(text: pa.Array, kind: str, config: IngestConfig, locate: Locate, empty_is_missing: bool = True) -> Parsed:
    """Parses a string column as a given kind.

    Args:
      text: the column.
      kind: one of config.KINDS, or "none".
      config: NA words.
      locate: names a row.
      empty_is_missing: as in CSV. Elsewhere an empty text among numbers is told as a word that means missing.

    Values that do not fit are offenders, and null in the result.
    """
    evidence = Evidence(rows=len(text), missing=text.null_count)
    if empty_is_missing:
        values = _without_empty(text, config.na, evidence, locate)
    else:
        values = blank(text, config.na, evidence, locate)
    if kind in ("bytes", "none"):
        return Parsed(kind, values, evidence)
    masked = _without_words(values, _words(config))
    evidence.words = masked.null_count - values.null_count
    if evidence.words:
        _first(evidence, "words", values, _true(pc.and_(pc.is_valid(values), pc.is_null(masked))), locate)
    if kind == "timestamp":
        masked = _to_microseconds(masked, evidence)
    result, offenders = _CONVERTERS[kind](masked)
    if kind == "int":
        _note_zeros(values, evidence, locate)
    if kind == "float":
        note_losses(result, evidence, locate, values)
    setattr(evidence, "floats" if kind == "float" else "ints", len(result) - result.null_count)
    return Parsed("float" if kind == "float" else "int", result, evidence, offenders)


def note_losses(numbers: pa.Array, evidence: Evidence, locate: Locate, shown: pa.Array) -> None:
    """Counts what float32 does not hold in a float64 array; `shown` has the values as they were before."""
    data = numbers.to_numpy(zero_copy_only=False)
    with np.errstate(all="ignore"):
        narrow = data.astype(np.float32).astype(np.float64)
        infinite = np.isinf(narrow)
        changed = (narrow != data) & ~infinite & ~np.isnan(data)
        size = np.abs(data)
        scale = 10.0 ** (6 - np.floor(np.log10(np.where(size > 0, size, 1.0))))
        scaled = data * scale
        digits = np.abs(scaled - np.rint(scaled)) > 1e-6
        lost = changed & ((size >= _EXACT_FLOAT32) | digits | (narrow == 0))
    if shown is not numbers:
        lost |= _lost_in_float64(data, narrow, shown)
    evidence.losses = int(np.count_nonzero(lost))
    _first(evidence, "losses", shown, lost, locate)
    if infinite.any():
        written = (
            pc.match_substring(shown, "i", ignore_case=True) if pa.types.is_string(shown.type) else pa.scalar(None)
        )
        literal = _true(written) if pa.types.is_string(shown.type) else np.isinf(data)
        overflow = infinite & ~literal
        evidence.overflows = int(np.count_nonzero(overflow))
        _first(evidence, "overflows", shown, overflow, locate)


def _lost_in_float64(data: np.ndarray, narrow: np.ndarray, shown: pa.Array) -> np.ndarray:
    """Where float64 already is another number than the one before: a long whole number, or zero for a tiny one."""
    lost = np.zeros(len(data), bool)
    kept = (data == narrow) & (np.abs(data) >= _EXACT_FLOAT64) & np.isfinite(data)
    for row in np.flatnonzero(kept).tolist():
        lost[row] = decimal.Decimal(str(shown[row]).strip()) != decimal.Decimal(data[row])
    if pa.types.is_string(shown.type) and (data == 0).any():
        long = pc.greater_equal(pc.binary_length(shown), _SHORTEST_UNDERFLOW).to_numpy(zero_copy_only=False)
        zeros = np.flatnonzero((data == 0) & (long == True))  # noqa: E712  # null is neither
        lost[zeros] = _true(pc.match_substring_regex(shown.take(pa.array(zeros)), r"^[^eE]*[1-9]"))
    return lost


def _numbers(values: pa.Array, words: pa.Array, evidence: Evidence, locate: Locate) -> pa.Array | None:
    """int64 or float64 values, or None where some value is not a plain number. Counts ints, bigs and floats."""
    present = len(values) - values.null_count
    integers = _cast(values, pa.int64()) if _cast(_probe(values), pa.int64()) is not None else None
    if integers is not None:
        if not _note_zeros(values, evidence, locate):
            return None
        evidence.ints = present
        return integers
    floats = _cast(values, pa.float64()) if _cast(_probe(values), pa.float64()) is not None else None
    if floats is None or (pc.any(pc.is_nan(floats)).as_py() and pc.any(pc.is_in(values, words)).as_py()):
        return None
    pointed = _true(pc.match_substring_regex(values, "[.eEnN]"))
    evidence.floats = int(np.count_nonzero(pointed))
    if evidence.floats:
        evidence.ints = present - evidence.floats
        if evidence.ints:
            _note_zeros(_null_where(values, pa.array(pointed)), evidence, locate)
        return floats
    plus = pc.any(pc.match_substring(values, "+")).as_py()
    if plus:
        return None
    big = _big(floats)
    evidence.bigs = int(np.count_nonzero(big))
    evidence.ints = present - evidence.bigs
    _first(evidence, "bigs", values, big, locate)
    return floats


def _probe(values: pa.Array) -> pa.Array:
    """Some values to try first: a cast that fails costs as much per value that fails as forty that do not."""
    return values.slice(0, 64)


def _big(floats: pa.Array) -> np.ndarray:
    data = floats.to_numpy(zero_copy_only=False)
    return (data >= 2.0**63) | (data < -(2.0**63))


def _note_zeros(values: pa.Array, evidence: Evidence, locate: Locate) -> bool:
    """Counts leading zeros; False where something is written in hexadecimal, which is text here."""
    zero = pc.or_(pc.starts_with(values, "0"), pc.starts_with(values, "-0"))
    if not pc.any(zero).as_py():
        return True
    padded = _true(pc.and_(zero, pc.match_substring_regex(values, r"^-?0[0-9xX]")))
    if padded.any():
        if pc.any(pc.match_substring(values, "x", ignore_case=True)).as_py():
            return False
        evidence.zeros = int(np.count_nonzero(padded))
        _first(evidence, "zeros", values, padded, locate)
    return True


def _as_text(values: pa.Array, words: pa.Array, evidence: Evidence, locate: Locate) -> Parsed:
    """A text column; counts which of its values are numbers, on the distinct values."""
    encoded = pc.dictionary_encode(values)
    distinct, codes = encoded.dictionary, encoded.indices
    number = _true(pc.match_substring_regex(distinct, _NUMBER))
    integer = _true(pc.match_substring_regex(distinct, _INTEGER)) if number.any() else number
    word = _true(pc.is_null(_without_words(distinct, words)))
    per_code = np.bincount(codes.drop_null().to_numpy(), minlength=len(distinct))
    evidence.ints = int(per_code[integer].sum())
    evidence.floats = int(per_code[number & ~integer].sum())
    evidence.words = int(per_code[word].sum())
    text = ~number & ~word
    evidence.texts = int(per_code[text].sum())
    if evidence.numbers and text.any():
        wanted = _true(pc.is_in(codes, pa.array(np.flatnonzero(text), codes.type)))
        _first(evidence, "texts", values, wanted, locate)
    elif evidence.texts:
        _note_first_text(values, evidence, locate)
        shown = distinct.filter(pa.array(text)).slice(0, _SHOWS_OTHERWISE)
        if pc.all(pc.match_substring_regex(shown, _OTHERWISE)).as_py():
            evidence.otherwise = evidence.texts
    elif evidence.words and not evidence.numbers:
        _first(evidence, "words", values, _true(pc.is_valid(values)), locate)
    return Parsed("bytes", values, evidence)


def _note_first_text(values: pa.Array, evidence: Evidence, locate: Locate) -> None:
    """Where a block of nothing but text begins: should other blocks have numbers, that is where to look."""
    if values[0].is_valid:
        evidence.firsts["texts"] = locate(0, str(values[0].as_py()))


def _without_words(values: pa.Array, words: pa.Array) -> pa.Array:
    """`values` without white space around them, and null for the words that mean missing and for nothing but space."""
    trimmed = pc.ascii_trim_whitespace(values)
    return _null_where(trimmed, pc.or_(pc.is_in(trimmed, words), pc.equal(pc.binary_length(trimmed), 0)))


def _without_empty(text: pa.Array, na: tuple[str, ...] | None, evidence: Evidence, locate: Locate) -> pa.Array:
    """`text` with null for the empty field, and for the user's own missing words."""
    empty = pc.equal(pc.binary_length(text), 0)
    values = _null_where(text, empty) if pc.any(empty).as_py() else text
    evidence.missing = values.null_count
    return blank(values, na, evidence, locate)


def blank(values: pa.Array, na: tuple[str, ...] | None, evidence: Evidence, locate: Locate) -> pa.Array:
    """`values` with null for the user's own missing words, where there are any."""
    own = pc.is_in(values, pa.array(na)) if na else None
    if own is None or not pc.any(own).as_py():
        return values
    masked = _null_where(values, own)
    evidence.blanked = masked.null_count - values.null_count
    _first(evidence, "blanked", values, _true(own), locate)
    return masked


def _words(config: IngestConfig) -> pa.Array:
    return pa.array(DEFAULT_NA if config.na is None else config.na, pa.string())


def _null_where(values: pa.Array, mask: pa.Array) -> pa.Array:
    return pc.if_else(mask, pa.scalar(None, values.type), values)


def _true(mask: pa.Array) -> np.ndarray:
    """A boolean array without nulls; null counts as False."""
    return pc.fill_null(mask, False).to_numpy(zero_copy_only=False)


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array | None:
    try:
        return pc.cast(values, kind)
    except pa.ArrowInvalid:
        return None


def _first(evidence: Evidence, what: str, values: pa.Array, rows: np.ndarray, locate: Locate) -> None:
    if rows.any():
        row = int(np.argmax(rows))
        evidence.firsts[what] = locate(row, str(values[row].as_py()))


def _checked(values: pa.Array, good: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    """(`values` with null where not good, the rows that are not good)."""
    bad = ~good & _true(pc.is_valid(values))
    return (_null_where(values, pa.array(bad)) if bad.any() else values), np.flatnonzero(bad)


def _to_int(values: pa.Array) -> tuple[pa.Array, np.ndarray]:
    plain = _cast(values, pa.int64())
    if plain is not None and not pc.any(pc.match_substring(values, "x", ignore_case=True)).as_py():
        return plain, np.empty(0, np.int64)
    literal = _true(pc.match_substring_regex(values, _INTEGER))
    kept, offenders = _checked(values, literal)
    kept = pc.replace_substring_regex(kept, r"^\+", "")
    result = _cast(kept, pa.int64())
    if result is not None:
        return result, offenders
    wide = _big(pc.cast(kept, pa.float64()))
    # At 2**63 itself float64 cannot tell; the digits can.
    digits = pc.replace_substring_regex(kept, r"^(-?)0+(\d)", r"\1\2")
    negative = _true(pc.starts_with(digits, "-"))
    limit = np.where(negative, "-9223372036854775808", "9223372036854775807")
    length = pc.fill_null(pc.binary_length(digits), 0).to_numpy(zero_copy_only=False)
    edge = length == np.where(negative, 20, 19)
    beyond = _true(pc.greater(digits, pa.array(limit)))
    kept, too_big = _checked(digits, ~((edge & beyond) | (length > np.where(negative, 20, 19)) | (wide & ~edge)))
    return pc.cast(kept, pa.int64()), np.union1d(offenders, too_big)


def _to_float(values: pa.Array) -> tuple[pa.Array, np.ndarray]:
    plain = _cast(values, pa.float64())
    if plain is not None and not pc.any(pc.is_nan(plain)).as_py():  # Arrow reads nan(1) too
        return plain, np.empty(0, np.int64)
    kept, offenders = _checked(values, _true(pc.match_substring_regex(values, _FLOAT)))
    return pc.cast(pc.replace_substring_regex(kept, r"^\+", ""), pa.float64()), offenders


def _to_bool(values: pa.Array) -> tuple[pa.Array, np.ndarray]:
    lower = pc.ascii_lower(values)
    yes, no = _true(pc.is_in(lower, _TRUE)), _true(pc.is_in(lower, _FALSE))
    kept, offenders = _checked(lower, yes | no)
    return _null_where(pa.array(yes.astype(np.int64)), pc.is_null(kept)), offenders


_ZONE = r":.*(Z|[+-]\d{2}:?\d{2})$"


def _to_timestamp(values: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Microseconds since 1970 in UTC, from ISO 8601 dates and times."""
    plain = _cast_timestamp(values)
    if plain is not None:
        return plain, np.empty(0, np.int64)
    shape = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})?)?$"
    good = _true(pc.match_substring_regex(values, shape))
    kept, offenders = _checked(values, good)
    result = _cast_timestamp(kept)
    if result is None:
        # Right in shape, impossible as a date: only then one by one, over the distinct values.
        distinct = pc.unique(kept.drop_null())
        possible = [value for value in distinct.to_pylist() if _cast_timestamp(pa.array([value])) is not None]
        kept, impossible = _checked(kept, _true(pc.is_in(kept, pa.array(possible, pa.string()))))
        result, offenders = _cast_timestamp(kept), np.union1d(offenders, impossible)
    return result, offenders


def _cast_timestamp(values: pa.Array) -> pa.Array | None:
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        result = _cast(values, kind)
        if result is not None:
            return result.cast(pa.int64())
    # Arrow takes moments with a zone or without one, not both together.
    zoned = pc.match_substring_regex(values, _ZONE)
    with_zone = _cast(_null_where(values, pc.invert(zoned)), pa.timestamp("us", "UTC"))
    without = _cast(_null_where(values, zoned), pa.timestamp("us"))
    if with_zone is None or without is None:
        return None
    return pc.coalesce(with_zone.cast(pa.int64()), without.cast(pa.int64()))


def _to_microseconds(values: pa.Array, evidence: Evidence) -> pa.Array:
    """Moments as text with at most six digits after the second; counts what is cut off."""
    cut = pc.sum(pc.match_substring_regex(values, r":\d{2}\.\d{6}\d*[1-9]")).as_py() or 0
    if cut:
        evidence.notes["less than a microsecond cut off"] = cut
    return pc.replace_substring_regex(values, r"(:\d{2}\.\d{6})\d+", r"\1")


def parse_moment(text: str) -> int | None:
    """Microseconds since 1970 in UTC of an ISO 8601 date or time, or None where the text is none."""
    values, offenders = _to_timestamp(pa.array([text.strip()]))
    return None if len(offenders) else values[0].as_py()


_CONVERTERS = {"int": _to_int, "float": _to_float, "bool": _to_bool, "timestamp": _to_timestamp}
