"""Rows that are in more than one split: the evaluation then measures memory."""

from collections.abc import Iterator

from components.data_gate.context import Context
from components.data_gate.finding import Finding, NotChecked

RULE = "duplicates"


def check(context: Context) -> Iterator[Finding | NotChecked]:
    """Says when it cannot be checked; the rows themselves are compared in `row_pass`."""
    if not context.policy.duplicates.max_rows:
        return
    if len(context.splits) < 2:
        yield NotChecked(rule=RULE, why="there is one split only")
    elif not context.inputs.examples:
        yield NotChecked(rule=RULE, why="the gate was not given the examples")
