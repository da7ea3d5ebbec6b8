"""What would have to change in a schema for data to fit it, feature by feature."""

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from tensorflow_metadata.proto.v0 import schema_pb2

from components.data_gate.context import Context
from components.data_gate.finding import Finding
from components.data_gate.rules import against_schema, wording
from components.data_gate.summary import ColumnSummary


@dataclasses.dataclass(frozen=True)
class SchemaChange:
    """One thing about one feature, in words, before and after.

    `warning`: why a person should rather change the data; `held_back`: an update makes the change only where that names
    the feature.
    """

    feature: str
    what: str
    before: str
    after: str
    rule: str
    warning: str = ""
    held_back: bool = False


_TYPES = {"INT": schema_pb2.INT, "FLOAT": schema_pb2.FLOAT, "BYTES": schema_pb2.BYTES, "STRUCT": schema_pb2.STRUCT}

_NUMBERS = ("INT", "FLOAT")
_DOMAINS = {
    "domain": "values",
    "int_domain": "range",
    "float_domain": "range",
    "string_domain": "values",
    "bool_domain": "range",
}


def widen(
    context: Context, inferred: schema_pb2.Schema, only: Iterable[str] = (), leave: Collection[str] = ()
) -> tuple[schema_pb2.Schema, list[SchemaChange]]:
    """The schema that the training splits of `context` fit, and what is different in it.

    Nothing else changes: comparators, environments and bounds that hold stay as they are.

    Args:
      context: statistics and the present schema.
      inferred: a schema made from the data, for columns that are new.
      only: features to change; empty means all.
      leave: features whose type stays as it is.
    """
    schema = schema_pb2.Schema()
    schema.CopyFrom(context.schema)
    changes: list[SchemaChange] = []
    chosen = set(only)
    for finding in sorted(against_schema.check(context), key=lambda finding: finding.feature):
        known = any((finding.feature, finding.rule) == (change.feature, change.rule) for change in changes)
        if finding.split not in context.splits or (chosen and finding.feature not in chosen) or known:
            continue
        if finding.rule == "type-changed" and finding.feature in leave:
            continue
        columns = [
            data.columns.get(finding.feature, ColumnSummary(finding.feature, "BYTES", 0.0, data.num_rows))
            for data in context.splits.values()
            if data.num_rows
        ]
        changes += _apply(schema, finding, columns, inferred)
    return schema, changes


def _apply(
    schema: schema_pb2.Schema, finding: Finding, columns: list[ColumnSummary], inferred: schema_pb2.Schema
) -> Iterator[SchemaChange]:
    if finding.rule == "new-column":
        new = _feature(inferred, finding.feature)
        if new is not None:
            least = min((column.present_share for column in columns), default=0.0)
            new.presence.min_fraction = min(new.presence.min_fraction, math.floor(least * 100) / 100)
            _add(schema, new, inferred)
            what = f"{schema_pb2.FeatureType.Name(new.type)}, present in {new.presence.min_fraction:.0%} of the rows"
            yield SchemaChange(finding.feature, "column", "not in the schema", what, finding.rule)
        return
    feature = _feature(schema, finding.feature)
    edit = _EDITS.get(finding.rule)
    if feature is None or edit is None:
        return
    what, before, after = edit(feature, columns, schema)
    yield SchemaChange(finding.feature, what, before, after, finding.rule)


def _feature(schema: schema_pb2.Schema, name: str) -> schema_pb2.Feature | None:
    return next((feature for feature in schema.feature if feature.name == name), None)


def _add(schema: schema_pb2.Schema, new: schema_pb2.Feature, inferred: schema_pb2.Schema) -> None:
    schema.feature.add().CopyFrom(new)
    for domain in inferred.string_domain:
        if domain.name == new.domain and all(domain.name != other.name for other in schema.string_domain):
            schema.string_domain.add().CopyFrom(domain)


Edited = tuple[str, str, str]
Edit = Callable[[schema_pb2.Feature, list[ColumnSummary], schema_pb2.Schema], Edited]


def _optional(feature: schema_pb2.Feature, columns: list[ColumnSummary], schema: schema_pb2.Schema) -> Edited:
    before = feature.presence.min_fraction
    least = min((column.present_share for column in columns), default=0.0)
    feature.presence.min_fraction = math.floor(least * 100) / 100
    feature.presence.ClearField("min_count")
    return "least share of rows with a value", f"{before:g}", f"{feature.presence.min_fraction:g}"


def _range(feature: schema_pb2.Feature, columns: list[ColumnSummary], schema: schema_pb2.Schema) -> Edited:
    low, high = wording.bounds(feature)
    before = f"{low:g} to {high:g}"
    lows, highs = zip(*(ends for column in columns if (ends := _finite_ends(column))), strict=True)
    if feature.HasField("bool_domain"):
        feature.int_domain.min, feature.int_domain.max = _int64(min(lows)), _int64(max(highs))
        return "range", before, "{:g} to {:g}".format(*wording.bounds(feature))
    number = _int64 if feature.HasField("int_domain") else float
    domain = feature.int_domain if feature.HasField("int_domain") else feature.float_domain
    if min(lows) < low:
        domain.min = number(min(lows))
    if max(highs) > high:
        domain.max = number(max(highs))
    return "range", before, "{:g} to {:g}".format(*wording.bounds(feature))


def _finite_ends(column: ColumnSummary) -> tuple[float, float] | None:
    """Least and greatest value; where one is infinite, the last finite one that the statistics name."""
    ends = wording.extremes(column)
    if ends is None or all(map(math.isfinite, ends)) or column.number is None:
        return ends
    edges = [edge for bucket in column.number.distribution.buckets for edge in (bucket.low, bucket.high)]
    finite = [edge for edge in edges if math.isfinite(edge)]
    return (min(finite), max(finite)) if finite else ends


def _int64(value: float) -> int:
    """Statistics hold integers as doubles, which reach one beyond the largest."""
    return min(int(value), (1 << 63) - 1) if value > 0 else max(int(value), -(1 << 63))


def _values(feature: schema_pb2.Feature, columns: list[ColumnSummary], schema: schema_pb2.Schema) -> Edited:
    known = wording.domain_values(feature, schema)
    seen = {value for column in columns if column.category for value in column.category.counts}
    added = sorted(seen - set(known))
    domain = feature.string_domain if feature.HasField("string_domain") else _domain(schema, feature.domain)
    values = sorted({*known, *added})
    del domain.value[:]
    domain.value.extend(values)
    return "values", f"{len(known)} listed", f"also {wording.listed(added)}"


def _domain(schema: schema_pb2.Schema, name: str) -> schema_pb2.StringDomain:
    return next(domain for domain in schema.string_domain if domain.name == name)


def _type(feature: schema_pb2.Feature, columns: list[ColumnSummary], schema: schema_pb2.Schema) -> Edited:
    before = schema_pb2.FeatureType.Name(feature.type)
    kinds = {column.type for column in columns if column.num_present}
    # Whole numbers in one split and fractions in another are FLOAT; text in any of them makes all of it text.
    kind = next((name for name in ("BYTES", "FLOAT", "INT") if name in kinds), before)
    kept = _numeric_range(feature, columns) if before in _NUMBERS and kind in _NUMBERS else None
    categories = feature.int_domain.is_categorical or feature.HasField("bool_domain")
    feature.type = _TYPES[kind]
    lost = [field for field in _DOMAINS if feature.HasField(field)]
    for field in lost:
        feature.ClearField(field)
    if kept is not None:
        domain = feature.float_domain if kind == "FLOAT" else feature.int_domain
        number = float if kind == "FLOAT" else _int64
        for end, value in zip(("min", "max"), kept, strict=True):
            if math.isfinite(value):
                setattr(domain, end, number(value))
    lost = [] if kept is not None else [_DOMAINS[field] for field in lost]
    if kept is None or categories:
        lost += [name for name in ("drift_comparator", "skew_comparator") if feature.HasField(name)]
        feature.ClearField("drift_comparator")
        feature.ClearField("skew_comparator")
    mixed = f"; but splits differ ({', '.join(sorted(kinds))}), and no type fits all of them" if len(kinds) > 1 else ""
    return "type", before, kind + (f", and loses its {', '.join(lost)}" if lost else "") + mixed


def _numeric_range(feature: schema_pb2.Feature, columns: list[ColumnSummary]) -> tuple[float, float]:
    """What the schema allows, and what the data has besides."""
    low, high = wording.bounds(feature)
    seen = [ends for column in columns if (ends := wording.extremes(column))]
    finite = [value for ends in seen for value in ends if math.isfinite(value)]
    return min([low, *finite]), max([high, *finite])


def _count(feature: schema_pb2.Feature, columns: list[ColumnSummary], schema: schema_pb2.Schema) -> Edited:
    least, most = wording.value_count(feature)
    feature.ClearField("shape")
    feature.value_count.min = 0
    feature.value_count.ClearField("max")
    return "values in a row", f"{least:g} to {most:g}", "any number"


def _nan(feature: schema_pb2.Feature, columns: list[ColumnSummary], schema: schema_pb2.Schema) -> Edited:
    feature.float_domain.disallow_nan = False
    return "NaN", "not allowed", "allowed"


def _infinite(feature: schema_pb2.Feature, columns: list[ColumnSummary], schema: schema_pb2.Schema) -> Edited:
    low, high = wording.bounds(feature)
    # Written down, and not left out: only so does the gate hold finite values to the range (see rules/infinities.py).
    feature.float_domain.disallow_inf = False
    ranged = math.isfinite(low) or math.isfinite(high)
    return "infinity", "not allowed", "allowed" + (f"; finite values stay within {low:g} to {high:g}" if ranged else "")


_EDITS: Mapping[str, Edit] = {
    "missing-column": _optional,
    "missing-values": _optional,
    "all-missing": _optional,
    "out-of-range": _range,
    "unexpected-value": _values,
    "type-changed": _type,
    "number-of-values": _count,
    "nan": _nan,
    "infinite": _infinite,
}
