"""Drift (against the previous blessed data) and skew (training against serving).

The thresholds are the schema's comparators. The measure is the gate's own, for two reasons, each seen on taxi trips:
TFDV puts numbers into ten buckets of equal width, where one outlier hides a change of unit; and it knows no sample
size, so that a small split blocks by chance or a threshold wide enough for it is useless for a large one.
"""

import dataclasses
from collections.abc import Callable, Iterator

from tensorflow_metadata.proto.v0 import schema_pb2

from components.data_gate import divergence
from components.data_gate.context import Context
from components.data_gate.errors import GateConfigError
from components.data_gate.finding import Finding, NotChecked
from components.data_gate.rules import units
from components.data_gate.summary import ColumnSummary, DataSummary

_MEASURES: dict[str, tuple[str, Callable[[ColumnSummary, ColumnSummary], divergence.Distance | None]]] = {
    "infinity_norm": ("L-infinity distance", divergence.infinity_norm),
    "jensen_shannon_divergence": ("Jensen-Shannon divergence", divergence.jensen_shannon),
}


def is_categorical(feature: schema_pb2.Feature) -> bool:
    """Whether the values stand for categories: text, booleans, and integers that the schema says so of."""
    return (
        feature.type == schema_pb2.BYTES
        or feature.HasField("bool_domain")
        or (feature.HasField("int_domain") and feature.int_domain.is_categorical)
    )


def refuse_wrong_comparators(schema: schema_pb2.Schema) -> None:
    """Raises GateConfigError for a comparator that cannot see what it is meant to see."""
    for feature in schema.feature:
        for kind in ("drift_comparator", "skew_comparator"):
            comparator = getattr(feature, kind)
            where = f"schema: {feature.name}: {kind}"
            if comparator.HasField("infinity_norm") and not is_categorical(feature):
                raise GateConfigError(
                    f"{where}: infinity_norm compares shares of categories and is always 0 for a number; use "
                    "jensen_shannon_divergence, or set int_domain.is_categorical if the integers are categories"
                )
            if comparator.HasField("normalized_abs_difference"):
                raise GateConfigError(
                    f"{where}: normalized_abs_difference compares counts, not distributions; use "
                    f"{'infinity_norm' if is_categorical(feature) else 'jensen_shannon_divergence'}"
                )


def check_drift(context: Context) -> Iterator[Finding | NotChecked]:
    """Every split against the same split of the baseline."""
    if not context.baseline:
        yield NotChecked(
            rule="drift", why="there are no baseline statistics: nothing was blessed before, or none given"
        )
        return
    if not any(feature.HasField("drift_comparator") for feature in context.features.values()):
        yield NotChecked(rule="drift", why="no feature of the schema has a drift_comparator")
    for split, data in context.splits.items():
        baseline = context.baseline_of(split)
        assert baseline is not None
        if not baseline.num_rows:
            yield NotChecked(rule="drift", why=f"the baseline of {split} has no rows")
            continue
        yield from _compare(context, "drift", split, data, baseline)


def check_skew(context: Context) -> Iterator[Finding | NotChecked]:
    """The training split against what was served."""
    if context.serving is None:
        yield NotChecked(rule="skew", why="there are no serving statistics")
        return
    if not context.serving.num_rows:
        yield NotChecked(rule="skew", why="the serving log holds no request")
        return
    if not any(feature.HasField("skew_comparator") for feature in context.features.values()):
        yield NotChecked(rule="skew", why="no feature of the schema has a skew_comparator")
    training = context.splits.get("train") or next(iter(context.splits.values()), None)
    if training is not None:
        yield from _compare(context, "skew", "serving", context.serving, training)


def _compare(
    context: Context, rule: str, split: str, new: DataSummary, old: DataSummary
) -> Iterator[Finding | NotChecked]:
    for name, feature in context.features.items():
        comparator = getattr(feature, f"{rule}_comparator")
        for kind, (label, measure) in _MEASURES.items():
            if not comparator.HasField(kind) or not context.expects(name, split):
                continue
            after, before = new.columns.get(name), old.columns.get(name)
            if after is None or not after.num_present:
                continue  # missing-column and missing-values speak for these
            if before is None or not before.num_present:
                why = f"what the data is compared with has no value of {name}"
                yield NotChecked(rule=rule, feature=name, why=why)
                continue
            distance = measure(after, before)
            if distance is None:
                yield NotChecked(rule=rule, feature=name, why=_incomparable(name, after, before))
            elif distance.value > getattr(comparator, kind).threshold + distance.noise:
                found = _finding(rule, name, split, label, distance, getattr(comparator, kind).threshold)
                why = f"{found.why} {units.hint(after, before)}".strip()
                yield dataclasses.replace(found, why=why)


def _finding(rule: str, name: str, split: str, label: str, distance: divergence.Distance, threshold: float) -> Finding:
    return Finding(
        feature=name,
        rule=rule,
        split=split,
        observed=f"{label} {distance.value:.4f}",
        allowed=f"{threshold:g} + {distance.noise:.4f} for chance at this number of rows",
        why=f"Changed most: the share of {distance.largest}, from {distance.before:.1%} to {distance.after:.1%}.",
    )


def _incomparable(name: str, after: ColumnSummary, before: ColumnSummary) -> str:
    kinds = [_kind(after), _kind(before)]
    if kinds[0] != kinds[1]:
        return f"{name} is {kinds[0]}, and {kinds[1]} in what it is compared with"
    return f"the statistics count {name} as {kinds[0]}: make them with the schema, so that its categories are counted"


def _kind(column: ColumnSummary) -> str:
    return "a number" if column.number else "a category" if column.category else "opaque"
