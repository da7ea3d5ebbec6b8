"""Infinite values beside a range. A range is about finite values where `disallow_inf: false` is written down.

A schema cannot say more, and TFDV calls an infinity out of range in any case. Statistics cannot tell whether a finite
value is too: the last bucket ends at infinity. The rows can.
"""

import math

from tensorflow_metadata.proto.v0 import schema_pb2

from components.data_gate.context import Context
from components.data_gate.row_question import RowQuestion
from components.data_gate.rules import wording
from components.data_gate.summary import ColumnSummary

RULE = "out-of-range"


def present(column: ColumnSummary) -> bool:
    """Whether any value is infinite."""
    return column.number is not None and (math.isinf(column.number.low) or math.isinf(column.number.high))


def permitted(feature: schema_pb2.Feature) -> bool:
    """Whether the schema says in so many words that a value may be infinite."""
    domain = feature.float_domain
    return feature.HasField("float_domain") and domain.HasField("disallow_inf") and not domain.disallow_inf


def finite_outside(context: Context, split: str, feature: schema_pb2.Feature, column: ColumnSummary) -> bool:
    """Whether statistics alone show finite values out of the range; where there are rows, those are asked instead."""
    low, high = wording.bounds(feature)
    if not context.inputs.examples.get(split):
        buckets = column.number.distribution.buckets if column.number else ()
        ends = [end for bucket in buckets for end in (bucket.low, bucket.high) if math.isfinite(end)]
        return any(end < low or end > high for end in ends)
    context.ask(
        RowQuestion(
            feature=feature.name,
            rule=RULE,
            split=split,
            test="finite-range",
            low=low,
            high=high,
            decides=True,
            observed="finite values out of the range",
            allowed=f"{low:.15g} to {high:.15g}",
        )
    )
    return False
