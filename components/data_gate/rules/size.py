"""How many rows each split has."""

from collections.abc import Iterator

from components.data_gate.context import Context
from components.data_gate.finding import Finding


def check(context: Context) -> Iterator[Finding]:
    """Every split has rows, and every split that the policy names is there."""
    named = {split for split in context.policy.min_rows if split != "*"}
    for split in [*context.splits, *sorted(named - set(context.splits))]:
        rows = int(context.splits[split].num_rows) if split in context.splits else 0
        least = context.policy.min_rows_of(split)
        if rows < least:
            there = ", ".join(context.splits)
            yield Finding(
                feature="",
                rule="too-few-rows",
                split=split,
                observed=f"{rows} rows",
                allowed=f"at least {least} rows",
                why="" if split in context.splits else f"There is no such split: the data has {there}.",
            )
