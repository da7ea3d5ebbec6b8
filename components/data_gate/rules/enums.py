"""Integers that stand for categories. A schema says from which to which; which of those exist, the policy says.

TFDV takes no list of values for an INT feature: it calls a string domain there an anomaly of the schema, and between
`min` and `max` it accepts every integer.
"""

from collections.abc import Iterator

from components.data_gate.context import Context
from components.data_gate.finding import Finding, NotChecked
from components.data_gate.row_question import RowQuestion
from components.data_gate.rules import wording
from components.data_gate.rules.wording import listed
from components.data_gate.summary import ColumnSummary

RULE = "unexpected-value"


def check(context: Context) -> Iterator[Finding | NotChecked]:
    """From the counts of categories where the statistics hold them all, from the rows where they do not."""
    for feature, numbers in context.policy.enums.items():
        allowed = tuple(str(number) for number in numbers)
        for name, data in context.data_sets.items():
            column = data.columns.get(feature)
            if column is None or not column.num_present:
                continue
            question = RowQuestion(feature=feature, rule=RULE, split=name, test="values", values=allowed)
            if column.category and column.category.complete:
                unexpected = {v: n for v, n in column.category.counts.items() if v not in allowed}
                if unexpected:
                    yield _finding(feature, name, unexpected, allowed)
                    context.ask(question)
            elif name in context.inputs.examples:
                context.ask(_deciding(question, allowed))
            elif _outside(column, numbers):
                yield _finding(feature, name, {_span(column): column.num_present}, allowed)
            else:
                yield NotChecked(
                    rule=RULE,
                    feature=feature,
                    why=f"the statistics of {name} do not list the values of {feature}: make them with the schema, in "
                    "which its int_domain has is_categorical, or give the gate the examples",
                )


def _finding(feature: str, split: str, unexpected: dict[str, float], allowed: tuple[str, ...]) -> Finding:
    shown = listed([f"{wording.shown(value)} ({count:.0f} times)" for value, count in unexpected.items()])
    return Finding(feature=feature, rule=RULE, split=split, observed=shown, allowed=listed(allowed))


def _deciding(question: RowQuestion, allowed: tuple[str, ...]) -> RowQuestion:
    return RowQuestion(
        feature=question.feature,
        rule=question.rule,
        split=question.split,
        test="values",
        values=allowed,
        decides=True,
        observed="values that are not listed",
        allowed=listed(allowed),
    )


def _outside(column: ColumnSummary, numbers: tuple[int, ...]) -> bool:
    return column.number is not None and (column.number.low < min(numbers) or column.number.high > max(numbers))


def _span(column: ColumnSummary) -> str:
    assert column.number is not None
    return f"values from {column.number.low:g} to {column.number.high:g}"
