"""Columns that carry nothing: one value only, or none."""

import math
from collections.abc import Iterator

from tensorflow_metadata.proto.v0 import schema_pb2

from components.data_gate.context import SERVING, Context
from components.data_gate.finding import Finding
from components.data_gate.rules import wording
from components.data_gate.summary import ColumnSummary

# A handful of rows is alike by chance.
_FEWEST_ROWS = 30
# TFDV keeps numbers as doubles: different integers beyond this may look alike.
_EXACT = 2.0**53
# So many rows with a value were to be expected where there is none: chance does that once in 20,000 times.
_EXPECTED_ROWS = 10


def check(context: Context) -> Iterator[Finding]:
    """Constant columns, and columns that are empty although the baseline's are not."""
    for name, data in context.splits.items():
        baseline = context.baseline_of(name)
        for feature, column in data.columns.items():
            if feature in context.features and name != SERVING:
                before = baseline.columns.get(feature) if baseline else None
                yield from _check(context, name, column, before)
            if feature in context.features and not _filled(column):
                yield from _empty_here_alone(context, name, feature)
        for feature in context.features:
            if feature not in data.columns and data.num_rows:
                yield from _empty_here_alone(context, name, feature)


def _check(context: Context, split: str, column: ColumnSummary, before: ColumnSummary | None) -> Iterator[Finding]:
    proto = context.features[column.name]
    if column.num_present and not _filled(column):
        yield Finding(
            feature=column.name,
            rule="all-missing",
            split=split,
            observed="every value is NaN",
            allowed="numbers",
        )
        return
    if not column.num_present:
        if proto.presence.min_fraction == 0 and before is not None and before.present_share > 0.01:
            yield Finding(
                feature=column.name,
                rule="all-missing",
                split=split,
                observed="no row has a value",
                allowed=f"{before.present_share:.1%} of the rows of the baseline have one",
            )
        return
    value = only_value(column)
    normal = column.name in context.policy.may_be_constant or _single_valued(proto, context)
    if value is None or normal or column.num_present < _FEWEST_ROWS:
        return
    if before is not None and only_value(before) == value:
        return  # it was so before, and that data was accepted
    yield Finding(
        feature=column.name,
        rule="constant",
        split=split,
        observed=f"every row has {value}",
        allowed="more than one value",
        why="A model learns nothing from it, and a broken source often looks like this.",
    )


def _filled(column: ColumnSummary) -> bool:
    """Whether any row has a value that is one; NaN is none."""
    nothing = column.number is not None and column.number.num_nan >= column.number.num_values
    return column.num_present > 0 and not nothing


def _empty_here_alone(context: Context, split: str, feature: str) -> Iterator[Finding]:
    """An optional column without a value in this split that another split has too often for chance."""
    rows = context.splits[split].num_rows
    for other, data in context.splits.items():
        share = data.columns[feature].present_share if feature in data.columns else 0.0
        if context.features[feature].presence.min_fraction == 0 and share * rows >= _EXPECTED_ROWS:
            yield Finding(
                feature=feature,
                rule="all-missing",
                split=split,
                observed="no row has a value",
                allowed=f"some: {share:.1%} of the rows of {other} have one",
                why="Splits of one source lack the same values.",
            )
            return


def only_value(column: ColumnSummary) -> str | None:
    """The value that every row has, for a sentence; None where they differ or cannot be told apart."""
    if column.number is not None:
        low, high = column.number.low, column.number.high
        return f"{low:.15g}" if low == high and not math.isnan(low) and abs(low) < _EXACT else None
    if column.category is not None and column.category.unique == 1:
        return next((wording.shown(value) for value in column.category.counts), None)
    return None


def _single_valued(proto: schema_pb2.Feature, context: Context) -> bool:
    low, high = wording.bounds(proto)
    return low == high or len(wording.domain_values(proto, context.schema)) == 1
