"""Observed and allowed values in words, from a column's summary and its part of the schema."""

import math

from tensorflow_metadata.proto.v0 import schema_pb2

from components.data_gate.summary import ColumnSummary

_MAX_LISTED = 12
_NO_TEXT = "__BYTES_VALUE__"
"""What TFDV puts in place of values that are no UTF-8."""


def bounds(feature: schema_pb2.Feature) -> tuple[float, float]:
    """The range that the schema allows; infinite where it says nothing."""
    kind = feature.WhichOneof("domain_info")
    if kind == "int_domain":
        domain = feature.int_domain
    elif kind == "float_domain":
        domain = feature.float_domain
    elif kind == "bool_domain":
        return 0.0, 1.0
    else:
        return -math.inf, math.inf
    return (
        float(domain.min) if domain.HasField("min") else -math.inf,
        float(domain.max) if domain.HasField("max") else math.inf,
    )


def domain_values(feature: schema_pb2.Feature, schema: schema_pb2.Schema) -> tuple[str, ...]:
    """The categories that the schema lists for `feature`; empty where it lists none."""
    if feature.HasField("string_domain"):
        return tuple(feature.string_domain.value)
    for domain in schema.string_domain:
        if feature.domain and domain.name == feature.domain:
            return tuple(domain.value)
    return ()


def value_count(feature: schema_pb2.Feature) -> tuple[float, float]:
    """Least and most values of a row that has the feature."""
    if feature.HasField("shape"):
        size = math.prod(dim.size for dim in feature.shape.dim)
        return float(size), float(size)
    most = feature.value_count.max if feature.value_count.HasField("max") else math.inf
    return float(feature.value_count.min), float(most)


def shown(value: str) -> str:
    """A category in a sentence; in quotes where one would not see it, or its ends."""
    if value == _NO_TEXT:
        return "bytes that are no UTF-8 text"
    return value if value and value == value.strip() else repr(value)


def listed(values: tuple[str, ...] | list[str]) -> str:
    """A list for a sentence, cut where it gets long."""
    first = ", ".join(str(value) for value in values[:_MAX_LISTED])
    return first + (f" and {len(values) - _MAX_LISTED} more" if len(values) > _MAX_LISTED else "")


def observed(
    rule: str,
    column: ColumnSummary | None,
    feature: schema_pb2.Feature | None,
    schema: schema_pb2.Schema,
    description: str,
) -> str:
    """What the data shows; `description`, TFDV's sentence, where nothing better is known."""
    if rule == "missing-column" or column is None:
        return "not in the data"
    if rule == "new-column":
        return f"{column.type}, in {column.present_share:.1%} of the rows"
    if rule == "type-changed":
        return column.type
    if rule in ("missing-values", "all-missing"):
        return f"{column.num_missing:.0f} of {column.num_present + column.num_missing:.0f} rows have no value"
    if rule == "nan" and column.number:
        return f"{column.number.num_nan:.0f} NaN" if column.number.num_nan else "NaN"
    if rule == "infinite":
        return "infinite values"
    if rule == "out-of-range":
        ends = extremes(column)
        return f"values from {ends[0]:.15g} to {ends[1]:.15g}" if ends else description
    if rule == "unexpected-value" and column.category and feature is not None:
        known = domain_values(feature, schema)
        counts = column.category.counts.items()
        unknown = [f"{shown(value)} ({count:.0f} times)" for value, count in counts if value not in known]
        return listed(unknown) if unknown else description
    return description.strip().rstrip(".")


def extremes(column: ColumnSummary) -> tuple[float, float] | None:
    """Least and greatest value, also of integers that are counted as categories; None for text."""
    if column.number:
        return column.number.low, column.number.high
    if column.category and column.category.counts:
        numbers = [int(value) for value in column.category.counts if value.lstrip("-").isdigit()]
        return (float(min(numbers)), float(max(numbers))) if numbers else None
    return None


def allowed(rule: str, feature: schema_pb2.Feature | None, schema: schema_pb2.Schema, serving: bool) -> str:
    """What the schema asks for."""
    if feature is None:
        return "columns of the schema only"
    if rule == "new-column":
        return "absent here: the schema excludes it from this environment" if serving else "columns of the schema only"
    if rule == "missing-column":
        return f"present in at least {feature.presence.min_fraction:.1%} of the rows"
    if rule == "type-changed":
        return schema_pb2.FeatureType.Name(feature.type)
    if rule in ("missing-values", "all-missing"):
        return f"at most {1 - feature.presence.min_fraction:.1%} of the rows without a value"
    if rule == "out-of-range":
        low, high = bounds(feature)
        return f"{low:.15g} to {high:.15g}"
    if rule in ("nan", "infinite"):
        return "finite numbers"
    if rule == "number-of-values":
        least, most = value_count(feature)
        return f"{least:g} to {most:g} values in a row" if least != most else f"{least:g} value(s) in a row"
    if rule == "unexpected-value":
        return listed(domain_values(feature, schema))
    return "no anomaly"
