"""Which question to ask about rows for a finding that is already known from statistics."""

import functools

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
    elif rule == "nan":
        context.ask(question(test="nan"))
    elif rule == "infinite":
        context.ask(question(test="infinite"))
