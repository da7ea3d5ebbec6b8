"""What TensorFlow Data Validation finds when each data set is held against the schema, in the gate's own words."""

from collections.abc import Iterator

import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2

from components.data_gate.context import SERVING, Context
from components.data_gate.finding import Finding
from components.data_gate.rules import infinities, renames, units, wording
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
    **dict.fromkeys(
        (
            _Type.UNEXPECTED_DATA_TYPE,
            _Type.BOOL_TYPE_BYTES_NOT_INT,
            _Type.BOOL_TYPE_BYTES_NOT_STRING,
            _Type.BOOL_TYPE_FLOAT_NOT_INT,
            _Type.BOOL_TYPE_FLOAT_NOT_STRING,
            _Type.BOOL_TYPE_INT_NOT_STRING,
            _Type.BOOL_TYPE_STRING_NOT_INT,
            _Type.ENUM_TYPE_BYTES_NOT_STRING,
            _Type.ENUM_TYPE_FLOAT_NOT_STRING,
            _Type.ENUM_TYPE_INT_NOT_STRING,
            _Type.FLOAT_TYPE_NOT_FLOAT,
            _Type.FLOAT_TYPE_STRING_NOT_FLOAT,
            _Type.FLOAT_TYPE_NON_STRING,
            _Type.INT_TYPE_INT_EXPECTED,
            _Type.INT_TYPE_NOT_INT_STRING,
            _Type.INT_TYPE_NOT_STRING,
            _Type.INT_TYPE_STRING_EXPECTED,
            _Type.STRING_TYPE_NOW_FLOAT,
            _Type.STRING_TYPE_NOW_INT,
        ),
        "type-changed",
    ),
}

# What a column of another type breaks besides: one cause, one finding.
_FOLLOW_FROM_TYPE = ("anomaly", "out-of-range", "unexpected-value", "nan", "infinite")


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
    rules = {RULE_OF_TYPE.get(reason.type, "anomaly"): _in_words(reason) for reason in info.reason}
    if _other_type(column, proto):
        rules.setdefault("type-changed", "")
    if "type-changed" in rules:
        rules = {rule: text for rule, text in rules.items() if rule not in _FOLLOW_FROM_TYPE}
    if "out-of-range" in rules and column is not None and infinities.present(column) and proto is not None:
        if not infinities.finite_outside(context, name, proto, column):
            del rules["out-of-range"]
        if not infinities.permitted(proto):
            rules.setdefault("infinite", "")  # the infinity itself is what is out of range
    single = (
        column is not None and column.max_values <= 1 and proto is not None and wording.value_count(proto) == (1, 1)
    )
    if single and "missing-values" in rules:
        rules.pop("number-of-values", None)  # a shape says it of every row without a value once more
    for rule, description in rules.items():
        why = "" if rule == "type-changed" else description
        if rule == "missing-column":
            why += renames.renamed_to(context, name, feature)
        elif rule == "new-column" and name != SERVING:
            why += renames.renamed_from(context, name, feature)
        elif rule == "out-of-range":
            why = f"{why} {_unit_hint(context, name, column, proto)}".strip()
        yield Finding(
            feature=feature,
            rule=rule,
            split=name,
            observed=wording.observed(rule, column, proto, context.schema, description),
            allowed=wording.allowed(rule, proto, context.schema, name == SERVING),
            why=why,
        )
        ask_for_rows(context, name, feature, rule)


def _in_words(reason: anomalies_pb2.AnomalyInfo.Reason) -> str:
    return reason.description or reason.short_description or _Type.Name(reason.type).replace("_", " ").lower()


def _other_type(column: ColumnSummary | None, proto: schema_pb2.Feature | None) -> bool:
    """Whether both are there and disagree; TFDV has a word for each domain, and not always that of the type."""
    return (
        column is not None
        and proto is not None
        and bool(column.num_present)
        and proto.type != schema_pb2.TYPE_UNKNOWN
        and schema_pb2.FeatureType.Name(proto.type) != column.type
    )


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
                why=_unit_hint(context, name, column, proto),
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
                why="The schema calls it optional, but the previous data had it."
                + renames.renamed_to(context, name, feature),
            )


def _unit_hint(context: Context, name: str, column: ColumnSummary | None, proto: schema_pb2.Feature | None) -> str:
    """Another unit, by the baseline where there is one, or else by the schema's bound for times."""
    if column is None or proto is None:
        return ""
    baseline = context.baseline_of(name)
    before = baseline.columns.get(column.name) if baseline else None
    return units.hint(column, before) if before else units.time_hint(column, wording.bounds(proto)[1])
