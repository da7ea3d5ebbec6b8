"""Columns that the policy names and nobody has: a slip of the pen there would turn a rule off without a word."""

import difflib

from components.data_gate.context import Context
from components.data_gate.errors import GateConfigError


def refuse_unknown_columns(context: Context) -> None:
    """Raises GateConfigError for a label, time or enum column that is neither in the schema nor in any split."""
    policy = context.policy
    named = {f"enums.{feature}": feature for feature in policy.enums}
    if policy.label:
        named["label.feature"] = policy.label.feature
    if policy.time:
        named["time.feature"] = policy.time.feature
    known = {*context.features, *(name for data in context.splits.values() for name in data.columns)}
    for key, feature in named.items():
        if feature not in known:
            close = difflib.get_close_matches(feature, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(known))}"
            raise GateConfigError(f"gate.{key}: neither the schema nor the data has a column {feature!r}; {hint}")
