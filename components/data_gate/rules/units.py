"""A guess why numbers changed: every one of them multiplied by what lies between two units."""

import dataclasses
import math
from collections.abc import Iterator

from components.data_gate import divergence
from components.data_gate.summary import ColumnSummary

# (factor, the unit that makes values larger, the other).
_UNITS = (
    (1.609344, "kilometres", "miles"),
    (2.2046226, "pounds", "kilograms"),
    (2.54, "centimetres", "inches"),
    (3.2808399, "feet", "metres"),
    (24.0, "hours", "days"),
    (60.0, "seconds", "minutes (or minutes for hours)"),
    (100.0, "cents", "dollars (or percent for shares)"),
    (1000.0, "milliseconds", "seconds (or metres for kilometres, grams for kilograms)"),
    (3600.0, "seconds", "hours"),
    (1e6, "microseconds", "seconds"),
    (1e9, "nanoseconds", "seconds"),
)
# Least value of a time since 1970 in each unit (the year 1973), and its name. The next unit begins far above the last.
_TIMES = ((1e17, 1e9, "nanoseconds"), (1e14, 1e6, "microseconds"), (1e11, 1e3, "milliseconds"), (1e8, 1.0, "seconds"))
# Of the distance before: what is left when the guess is right.
_LEFT = 1 / 3
_SAME_FACTOR = 0.03


def hint(after: ColumnSummary, before: ColumnSummary) -> str:
    """A sentence with the factor, empty where no single one explains the change of a numeric column."""
    if after.number is None or before.number is None:
        return ""
    times = _times(after.number.low, after.number.high, before.number.high)
    if times:
        return times
    apart = divergence.jensen_shannon(after, before)
    if apart is None or apart.value <= apart.noise:
        return ""
    tried = [
        (distance.value, factor) for factor in _factors(after, before) if (distance := _with(factor, after, before))
    ]
    left, factor = min(tried, default=(math.inf, 1.0))
    if left > apart.noise + _LEFT * (apart.value - apart.noise):
        return ""
    return f"It looks as if every value were multiplied by {factor:.4g}{_unit(factor)}."


def time_hint(after: ColumnSummary, high: float) -> str:
    """A sentence where times since 1970 are in another unit than the bound `high` of the schema."""
    return _times(after.number.low, after.number.high, high) if after.number else ""


def _factors(after: ColumnSummary, before: ColumnSummary) -> Iterator[float]:
    for factor, _, _ in _UNITS:
        yield factor
        yield 1 / factor
    assert after.number is not None
    assert before.number is not None
    middles = [_middle(after.number.distribution.inner_edges()), _middle(before.number.distribution.inner_edges())]
    if middles[0] and middles[1] and middles[0] / middles[1] > 0:
        yield middles[0] / middles[1]


def _middle(edges: list[float]) -> float:
    return edges[len(edges) // 2] if edges else 0.0


def _with(factor: float, after: ColumnSummary, before: ColumnSummary) -> divergence.Distance | None:
    """How far apart the two are once the older one is multiplied."""
    assert before.number is not None
    scaled = dataclasses.replace(before.number, distribution=before.number.distribution.scaled(factor))
    return divergence.jensen_shannon(after, dataclasses.replace(before, number=scaled))


def _unit(factor: float) -> str:
    for known, large, small in _UNITS:
        if abs(factor / known - 1) < _SAME_FACTOR:
            return f": {large} for {small}?"
        if abs(factor * known - 1) < _SAME_FACTOR:
            return f", a {known:.4g}th: {small} for {large}?"
    return ""


def _times(low: float, high: float, expected: float) -> str:
    found, wanted = _time_unit(low), _time_unit(expected)
    if found is None or wanted is None or found == wanted or _time_unit(high) != found:
        return ""
    factor = found[0] / wanted[0]
    return f"The values look like {found[1]} since 1970, those before like {wanted[1]}: {factor:.4g} times as large."


def _time_unit(value: float) -> tuple[float, str] | None:
    if not math.isfinite(value) or value >= 1e19:
        return None
    return next(((factor, name) for least, factor, name in _TIMES if value >= least), None)
