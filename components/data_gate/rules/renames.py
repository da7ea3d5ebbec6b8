"""A column that is gone beside a new one that looks like it: perhaps somebody gave it another name."""

import difflib

from tensorflow_metadata.proto.v0 import schema_pb2

from components.data_gate import divergence
from components.data_gate.context import Context
from components.data_gate.summary import ColumnSummary

_SIMILAR = 0.6
# Jensen-Shannon bits beyond chance.
_NEAR = 0.02


def renamed_to(context: Context, name: str, gone: str) -> str:
    """A hint for a column that is gone from data set `name`, or nothing."""
    columns = context.data_sets[name].columns
    new = [column for other, column in columns.items() if other not in context.features and column.num_present]
    best = max(new, key=lambda column: _likeness(context, name, gone, column), default=None)
    if best is None or not _likeness(context, name, gone, best):
        return ""
    return f" It looks as if it was renamed to {best.name}."


def renamed_from(context: Context, name: str, new: str) -> str:
    """The same hint for the new column."""
    columns = context.data_sets[name].columns
    for gone in context.features:
        if gone not in columns and context.expects(gone, name):
            hint = renamed_to(context, name, gone)
            if hint == f" It looks as if it was renamed to {new}.":
                return f" It looks as if {gone}, which is gone, was renamed to this."
    return ""


def _likeness(context: Context, name: str, gone: str, column: ColumnSummary) -> float:
    """0 for unlike; the values tell more than the name, where the baseline has them."""
    expected = context.features[gone].type
    if expected != schema_pb2.TYPE_UNKNOWN and schema_pb2.FeatureType.Name(expected) != column.type:
        return 0.0
    ratio = difflib.SequenceMatcher(a=gone.lower(), b=column.name.lower()).ratio()
    baseline = context.baseline_of(name)
    before = baseline.columns.get(gone) if baseline else None
    distance = divergence.jensen_shannon(column, before) if before is not None else None
    if distance is not None and distance.value <= distance.noise + _NEAR:
        return 2 + ratio
    return ratio if ratio > _SIMILAR else 0.0
