"""Columns that the file has typed already (Parquet, Arrow, Avro, JSON) as features. Only null is missing."""

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.example_gen import kinds, mixed
from components.example_gen.config import IngestConfig
from components.example_gen.errors import IngestDataError
from components.example_gen.evidence import Evidence, Place, decide
from components.example_gen.features import Column, scalar_column
from components.example_gen.kinds import Locate

_MICROSECONDS = "int64 microseconds since 1970 in UTC"
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BINARIES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
_DECIMALS = (pa.types.is_decimal,)
_MOMENTS = (pa.types.is_timestamp, pa.types.is_date)
# What declared kinds are stored as.
_STORED = {"bool": "int", "timestamp": "int"}
_DURATIONS = (pa.types.is_time, pa.types.is_duration)


@dataclasses.dataclass
class Typed:
    """A feature, what was seen making it, and the rows whose value is not of the declared kind."""

    column: Column
    evidence: Evidence
    offenders: np.ndarray | None = None


def to_column(
    array: pa.Array, name: str, kind: str, declared: bool, config: IngestConfig, locate: Locate, where: str
) -> Typed:
    """Makes a feature of a typed array.

    Args:
      array: a column of the block.
      name: its name, for errors.
      kind: the kind to make, declared or found in all of the data; "" takes the file's own.
      declared: whether a person declared the kind.
      config: NA words for text that is declared to be numbers.
      locate: names a row.
      where: the file, for errors.

    Raises:
      IngestDataError: a type that has no feature, such as a struct or a list of lists.
    """
    if mixed.is_mixed(array.type):
        parsed = mixed.convert(array, kind, config, locate)
        return Typed(scalar_column(parsed.kind, parsed.values, absent_nulls=True), parsed.evidence, parsed.offenders)
    array = _decoded(array)
    evidence = Evidence(rows=len(array), missing=array.null_count, types={str(array.type): len(array)})
    declared_bool = kind == "bool"
    kind = _STORED.get(kind, kind) if not any(test(array.type) for test in _TEXTS) else kind
    if kind == "bytes" and declared:
        array = _as_written(array)
    if any(test(array.type) for test in _LISTS):
        return Typed(_list_column(array, name, kind, evidence, config, locate, where), evidence)
    if declared and any(test(array.type) for test in _TEXTS) and kind != "bytes":
        parsed = kinds.convert(array.cast(pa.string()), kind, config, locate, empty_is_missing=False)
        parsed.evidence.types = evidence.types
        column = scalar_column(parsed.kind, parsed.values, absent_nulls=True)
        return Typed(column, parsed.evidence, parsed.offenders)
    if config.na and any(test(array.type) for test in _TEXTS):
        array = kinds.blank(array.cast(pa.string()), config.na, evidence, locate)
    own, values = _scalars(array, name, evidence, locate, where)
    _count(own, values, evidence, locate, array)
    wanted = kind or decide(evidence, config.float_loss)
    values, offenders = _as_kind(values, own, wanted, name, where)
    if declared_bool and wanted == "int":
        values, offenders = _zero_or_one(values, offenders)
    if wanted == "float" and own != "float":
        kinds.note_losses(values, evidence, locate, array)
    return Typed(scalar_column(wanted, values, absent_nulls=True), evidence, offenders)


def _list_column(
    array: pa.Array, name: str, kind: str, evidence: Evidence, config: IngestConfig, locate: Locate, where: str
) -> Column:
    """Lists of values: as many values per row as the list has; null gives a feature without a kind."""
    array = array.cast(pa.large_list(array.type.value_type)) if not pa.types.is_large_list(array.type) else array
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    flat = _decoded(array.flatten())
    rows = np.repeat(np.arange(len(lengths)), lengths)

    def locate_item(item: int, value: str) -> Place:
        return locate(int(rows[item]), value)

    own, values = _scalars(flat, name, evidence, locate_item, where)
    _count(own, values, evidence, locate_item, flat)
    wanted = kind or decide(evidence, config.float_loss)
    values, offenders = _as_kind(values, own, wanted, name, where)
    if offenders is not None and len(offenders):
        place = locate_item(int(offenders[0]), str(flat[int(offenders[0])].as_py()))
        raise IngestDataError(f"{where}:{place.line}: column {name!r}: {place.value!r} is not {wanted}")
    if values.null_count:
        evidence.notes["null within a list left out"] = values.null_count
        valid = pc.is_valid(values).to_numpy(zero_copy_only=False)
        kept = np.concatenate([[0], np.cumsum(valid)]).astype(np.int64)
        offsets = kept[offsets]
    missing = pc.is_null(array).to_numpy(zero_copy_only=False)
    column = scalar_column(wanted, values.drop_null())
    absent = missing if wanted != "none" else np.ones(len(array), bool)
    return Column(wanted, column.values, offsets, absent if absent.any() else None)


def _as_written(array: pa.Array) -> pa.Array:
    """Numbers, decimals and moments as text, with all their digits; what is bytes or nested stays."""
    kind = array.type
    plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if plain or any(test(kind) for test in (*_DECIMALS, *_MOMENTS, *_DURATIONS)):
        return array.cast(pa.string())
    return array


def _decoded(array: pa.Array) -> pa.Array:
    """The values themselves, however they are packed: by dictionary, by runs, or with a meaning of someone's own."""
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_run_end_encoded(array.type):
        return pc.run_end_decode(array)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _scalars(array: pa.Array, name: str, evidence: Evidence, locate: Locate, where: str) -> tuple[str, pa.Array]:
    """(kind, values as int64, float64, string or binary); notes conversions of every value."""
    kind = array.type
    present = len(array) - array.null_count
    if pa.types.is_null(kind):
        return "none", pa.nulls(len(array), pa.string())
    if pa.types.is_boolean(kind):
        _note(evidence, "bool to int64 0 and 1", present)
        return "int", array.cast(pa.int64())
    if pa.types.is_integer(kind):
        return "int", _within_int64(array, name, locate, where)
    if pa.types.is_floating(kind):
        return "float", array.cast(pa.float64())
    if any(test(kind) for test in _DECIMALS):
        _note(evidence, f"{kind} to float32", present)
        return "float", array.cast(pa.float64())
    if any(test(kind) for test in _TEXTS):
        return "bytes", array.cast(pa.large_string())
    if any(test(kind) for test in _BINARIES):
        return "bytes", array.cast(pa.large_binary())
    if any(test(kind) for test in _MOMENTS):
        _note(evidence, f"{kind} to {_MICROSECONDS}", present)
        zone = getattr(kind, "tz", None)
        return "int", _microseconds(array, pa.timestamp("us", zone), name, evidence, locate, where)
    if any(test(kind) for test in _DURATIONS):
        _note(evidence, f"{kind} to int64 microseconds", present)
        micros = pa.duration("us") if pa.types.is_duration(kind) else pa.time64("us")
        return "int", _microseconds(array, micros, name, evidence, locate, where)
    raise IngestDataError(
        f"{where}: column {name!r} has type {kind}, which a tf.Example cannot hold; flatten it where the file is made, "
        f"or leave it out with drop: [{name}]"
    )


def _microseconds(
    array: pa.Array, kind: pa.DataType, name: str, evidence: Evidence, locate: Locate, where: str
) -> pa.Array:
    exact = pc.cast(array, kind, safe=False)
    other = pc.fill_null(pc.not_equal(pc.cast(exact, array.type, safe=False), array), False)
    count = pc.sum(other).as_py() or 0
    if count and getattr(array.type, "unit", "") == "ns":
        _note(evidence, "less than a microsecond cut off", count)
    elif count:
        row = pc.index(other, True).as_py()
        raise _unfit(
            row, str(array.cast(pa.int64())[row]), f"{array.type} beyond what microseconds reach", name, locate, where
        )
    return exact.cast(pa.int64())


def _within_int64(array: pa.Array, name: str, locate: Locate, where: str) -> pa.Array:
    try:
        return array.cast(pa.int64())
    except pa.ArrowInvalid:
        row = pc.index(pc.greater(array, pa.scalar((1 << 63) - 1, pa.uint64())), True).as_py()
        raise _unfit(row, str(array[row]), f"{array.type} beyond int64", name, locate, where) from None


def _unfit(row: int, value: str, why: str, name: str, locate: Locate, where: str) -> IngestDataError:
    line = locate(row, value).line
    return IngestDataError(f"{where}:{line}: column {name!r}: {value} is a {why}; declare types: {{{name}: bytes}}")


def _zero_or_one(values: pa.Array, offenders: np.ndarray | None) -> tuple[pa.Array, np.ndarray]:
    other = pc.fill_null(pc.and_(pc.not_equal(values, 0), pc.not_equal(values, 1)), False)
    rows = np.flatnonzero(other.to_numpy(zero_copy_only=False))
    rows = rows if offenders is None else np.union1d(rows, offenders)
    return pc.if_else(other, pa.scalar(None, values.type), values), rows


def _exact(array: pa.Array, kind: pa.DataType, name: str, where: str) -> pa.Array:
    try:
        return array.cast(kind)
    except pa.ArrowInvalid as error:
        raise IngestDataError(
            f"{where}: column {name!r} ({array.type}) does not fit {kind}: {error}; declare types: {{{name}: bytes}}"
        ) from None


def _note(evidence: Evidence, text: str, count: int) -> None:
    if count:
        evidence.notes[text] = evidence.notes.get(text, 0) + count


def _count(kind: str, values: pa.Array, evidence: Evidence, locate: Locate, before: pa.Array) -> None:
    present = len(values) - values.null_count
    if kind == "int":
        evidence.ints += present
    elif kind == "float":
        evidence.floats += present
        kinds.note_losses(values, evidence, locate, before if pa.types.is_decimal(before.type) else values)
    elif kind == "bytes" and present:
        evidence.texts += present
        if values[0].is_valid:
            evidence.firsts["texts"] = locate(0, _shown(values[0].as_py()))


def _shown(value: str | bytes) -> str:
    return value if isinstance(value, str) else repr(value)


def _as_kind(values: pa.Array, own: str, wanted: str, name: str, where: str) -> tuple[pa.Array, np.ndarray | None]:
    if own == wanted or own == "none" or wanted == "none":  # "none" is wanted where no value is seen
        return values, None
    if wanted == "bytes":
        return values.cast(pa.large_string()), None
    if own == "bytes":
        raise IngestDataError(f"{where}: column {name!r} is text here, but {wanted} is wanted")
    if wanted == "float":
        return pc.cast(values, pa.float64(), safe=False), None
    whole = pc.equal(pc.floor(values), values)
    offenders = np.flatnonzero(pc.fill_null(pc.invert(whole), False).to_numpy(zero_copy_only=False))
    kept = pc.if_else(pc.fill_null(whole, False), values, pa.scalar(None, values.type))
    return _exact(kept, pa.int64(), name, where), offenders
