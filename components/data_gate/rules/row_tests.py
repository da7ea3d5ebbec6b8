"""Which question to ask about rows for a finding that is already known from statistics."""

import functools

from tensorflow_metadata.proto.v0 import schema_pb2

from components.data_gate.context import Context
from components.data_gate.row_question import RowQuestion
from components.data_gate.rules import wording


def ask_for_rows(context: Context, split: str, feature: str, rule: str) -> None:
    """Asks for the rows behind `rule` in `feature`, where the rule is one of rows."""
    proto = context.features.get(feature)
    if proto is None:
        return
    question = functools.partial(RowQuestion, feature=feature, rule=rule, split=split)
    if rule == "missing-values":
        context.ask(question(test="missing"))
    elif rule == "number-of-values":
        least, most = wording.value_count(proto)
        context.ask(question(test="count", low=least, high=most))
    elif rule == "out-of-range":
        low, high = wording.bounds(proto)
        context.ask(question(test="range", low=low, high=high))
    elif rule == "unexpected-value":
        values = wording.domain_values(proto, context.schema)
        context.ask(question(test="values", values=values))
    elif rule == "type-changed":
        _ask_for_other_types(context, split, feature, proto.type)
    elif rule == "nan":
        context.ask(question(test="nan"))
    elif rule == "infinite":
        context.ask(question(test="infinite"))


def _ask_for_other_types(context: Context, split: str, feature: str, wanted: int) -> None:
    """Which values keep a column from being the numbers that the schema expects; of other types no row is to blame."""
    column = context.data_sets[split].columns.get(feature)
    if column is None:
        return
    tests = {
        (schema_pb2.FLOAT, "BYTES"): ("wordy", "text that is no number", "every value here a number"),
        (schema_pb2.INT, "BYTES"): (
            "partial",
            "text that is no whole number of 64 bits",
            "every value here a whole number",
        ),
        (schema_pb2.INT, "FLOAT"): ("fraction", "numbers that are not whole", "every value here whole"),
    }
    if (wanted, column.type) in tests:
        test, observed, otherwise = tests[wanted, column.type]
        context.ask(
            RowQuestion(
                feature=feature, rule="type-changed", split=split, test=test, observed=observed, otherwise=otherwise
            )
        )
