"""What TensorFlow Data Validation finds when each data set is held against the schema, in the gate's own words."""

import difflib
from collections.abc import Iterator

import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2

from components.data_gate import divergence
from components.data_gate.context import SERVING, Context
from components.data_gate.finding import Finding
from components.data_gate.rules import wording
from components.data_gate.rules.row_tests import ask_for_rows
from components.data_gate.summary import ColumnSummary

_Type = anomalies_pb2.AnomalyInfo.Type
_MISSING_COLUMN, _NEW_COLUMN = _Type.SCHEMA_MISSING_COLUMN, _Type.SCHEMA_NEW_COLUMN

RULE_OF_TYPE: dict[int, str] = {
    _MISSING_COLUMN: "missing-column",
    _NEW_COLUMN: "new-column",
    _Type.ENUM_TYPE_UNEXPECTED_STRING_VALUES: "unexpected-value",
    _Type.BOOL_TYPE_UNEXPECTED_STRING: "unexpected-value",
    _Type.ENUM_TYPE_INVALID_UTF8: "unexpected-value",
    _Type.FEATURE_TYPE_LOW_FRACTION_PRESENT: "missing-values",
    _Type.FEATURE_TYPE_LOW_NUMBER_PRESENT: "missing-values",
    _Type.FEATURE_TYPE_NOT_PRESENT: "all-missing",
    _Type.FEATURE_TYPE_NO_VALUES: "all-missing",
    _Type.FEATURE_TYPE_HIGH_NUMBER_VALUES: "number-of-values",
    _Type.FEATURE_TYPE_LOW_NUMBER_VALUES: "number-of-values",
    _Type.FEATURE_TYPE_UNEXPECTED_REPEATED: "number-of-values",
    _Type.VALUE_NESTEDNESS_MISMATCH: "number-of-values",
    _Type.INVALID_FEATURE_SHAPE: "number-of-values",
    _Type.INT_TYPE_BIG_INT: "out-of-range",
    _Type.INT_TYPE_SMALL_INT: "out-of-range",
    _Type.BOOL_TYPE_BIG_INT: "out-of-range",
    _Type.BOOL_TYPE_SMALL_INT: "out-of-range",
    _Type.BOOL_TYPE_UNEXPECTED_FLOAT: "out-of-range",
    _Type.FLOAT_TYPE_BIG_FLOAT: "out-of-range",
    _Type.FLOAT_TYPE_SMALL_FLOAT: "out-of-range",
    _Type.FLOAT_TYPE_HAS_NAN: "nan",
    _Type.FLOAT_TYPE_HAS_INF: "infinite",
    _Type.UNEXPECTED_DATA_TYPE: "type-changed",
}


def check(context: Context) -> Iterator[Finding]:
    """Anomalies of every data set, each in its environment; then optional columns that the baseline still had."""
    for name in context.data_sets:
        # A data set without rows has every column missing: too-few-rows says it better.
        if not context.data_sets[name].num_rows:
            continue
        anomalies = _anomalies(context, name)
        for feature, info in sorted(anomalies.anomaly_info.items()):
            yield from _findings(context, name, feature, info)
        yield from _integers_out_of_range(context, name)
        yield from _optional_columns_gone(context, name)


def _anomalies(context: Context, name: str) -> anomalies_pb2.Anomalies:
    """TFDV's own, without comparators (see rules/distance.py), and those that were handed in."""
    found = tfdv.validate_statistics(
        context.statistics_of(name), _without_comparators(context.schema), context.environment_of(name)
    )
    for feature, info in context.inputs.anomalies.get(name, anomalies_pb2.Anomalies()).anomaly_info.items():
        if feature not in found.anomaly_info and _foreign(info):
            found.anomaly_info[feature].CopyFrom(info)
    return found


def _foreign(info: anomalies_pb2.AnomalyInfo) -> bool:
    """Whether a handed-in anomaly is one that only its finder can know, such as a custom validation."""
    return any(reason.type == _Type.CUSTOM_VALIDATION for reason in info.reason)


def _without_comparators(schema: schema_pb2.Schema) -> schema_pb2.Schema:
    copy = schema_pb2.Schema()
    copy.CopyFrom(schema)
    for feature in copy.feature:
        feature.ClearField("drift_comparator")
        feature.ClearField("skew_comparator")
    return copy


def _findings(context: Context, name: str, feature: str, info: anomalies_pb2.AnomalyInfo) -> Iterator[Finding]:
    feature = ".".join(info.path.step) or feature
    column = context.data_sets[name].columns.get(feature)
    proto = context.features.get(feature)
    rules = {RULE_OF_TYPE.get(reason.type, "anomaly"): reason.description for reason in info.reason}
    if "infinite" in rules and "out-of-range" in rules and not _finite_out_of_range(context, name, feature):
        del rules["out-of-range"]  # the infinity itself is what is out of range
    single = (
        column is not None and column.max_values <= 1 and proto is not None and wording.value_count(proto) == (1, 1)
    )
    if single and "missing-values" in rules:
        rules.pop("number-of-values", None)  # a shape says it of every row without a value once more
    for rule, description in rules.items():
        why = description
        if rule == "missing-column":
            why += _renamed_to(context, name, feature)
        yield Finding(
            feature=feature,
            rule=rule,
            split=name,
            observed=wording.observed(rule, column, proto, context.schema, description),
            allowed=wording.allowed(rule, proto, context.schema, name == SERVING),
            why=why,
        )
        ask_for_rows(context, name, feature, rule)


def _finite_out_of_range(context: Context, name: str, feature: str) -> bool:
    column = context.data_sets[name].columns.get(feature)
    proto = context.features.get(feature)
    if column is None or column.number is None or proto is None:
        return True
    low, high = wording.bounds(proto)
    buckets = column.number.distribution.buckets
    finite = [b for b in buckets if abs(b.low) != float("inf") and abs(b.high) != float("inf")]
    return any(bucket.low < low or bucket.high > high for bucket in finite)


def _integers_out_of_range(context: Context, name: str) -> Iterator[Finding]:
    """TFDV takes any integer in a bool_domain, and does not see 2**63 - 1 above a max."""
    for feature, proto in context.features.items():
        column = context.data_sets[name].columns.get(feature)
        ends = wording.extremes(column) if column and column.type == "INT" else None
        low, high = wording.bounds(proto)
        if ends and (ends[0] < low or ends[1] > high) and context.expects(feature, name):
            yield Finding(
                feature=feature,
                rule="out-of-range",
                split=name,
                observed=wording.observed("out-of-range", column, proto, context.schema, ""),
                allowed=wording.allowed("out-of-range", proto, context.schema, name == SERVING),
            )
            ask_for_rows(context, name, feature, "out-of-range")


def _optional_columns_gone(context: Context, name: str) -> Iterator[Finding]:
    """TFDV says nothing about a column that need not be there; if it was there before, somebody lost it."""
    baseline = context.baseline_of(name)
    if name == SERVING or baseline is None:
        return
    for feature in context.features:
        before = baseline.columns.get(feature)
        optional = context.features[feature].presence.min_fraction == 0
        if feature not in context.data_sets[name].columns and optional and before and before.present_share > 0.01:
            yield Finding(
                feature=feature,
                rule="missing-column",
                split=name,
                observed="not in the data",
                allowed=f"in {before.present_share:.1%} of the rows of the baseline",
                why="The schema calls it optional, but the previous data had it." + _renamed_to(context, name, feature),
            )


def _renamed_to(context: Context, name: str, gone: str) -> str:
    """A hint, where a new column looks like the one that is gone."""
    columns = context.data_sets[name].columns
    new = [column for other, column in columns.items() if other not in context.features]
    baseline = context.baseline_of(name)
    before = baseline.columns.get(gone) if baseline else None
    for column in new:
        if _alike(gone, column, before):
            return f" It looks as if it was renamed to {column.name}."
    return ""


def _alike(gone: str, column: ColumnSummary, before: ColumnSummary | None) -> bool:
    if before is not None:
        distance = divergence.jensen_shannon(column, before)
        if distance is not None:
            return distance.value <= distance.noise + 0.02
    return difflib.SequenceMatcher(a=gone.lower(), b=column.name.lower()).ratio() > 0.6
