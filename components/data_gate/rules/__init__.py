"""The rules, one file per family: each yields findings and what it could not check."""

from collections.abc import Callable, Iterator

from components.data_gate.context import Context
from components.data_gate.finding import Finding, NotChecked
from components.data_gate.rules import (
    against_schema,
    degenerate,
    distance,
    enums,
    label,
    leakage,
    rare_values,
    size,
    time,
)

Check = Callable[[Context], Iterator[Finding | NotChecked]]

CHECKS: tuple[Check, ...] = (
    against_schema.check,
    enums.check,
    rare_values.check,
    size.check,
    degenerate.check,
    label.check,
    distance.check_drift,
    distance.check_skew,
    time.check,
    leakage.check,
)
