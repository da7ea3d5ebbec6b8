"""A guess why numbers changed: every one of them multiplied by what lies between two units."""

import dataclasses
import math
from collections.abc import Iterable, Iterator

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
_NEAR_FACTOR = 0.15


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
    left, factor = _best(_between(after, before), after, before)
    if left > apart.noise + _LEFT * (apart.value - apart.noise):
        return ""
    # Deciles are found a little off: a known factor beside the best one explains it, if chance could be the rest.
    known_left, known = _best(_known(), after, before)
    if known_left <= max(apart.noise, left) and abs(known / factor - 1) < _NEAR_FACTOR:
        factor = known
    unit = _unit(factor)
    return f"It looks as if every value were multiplied by {unit or f'about {factor:.2g}.'}"


def time_hint(after: ColumnSummary, high: float) -> str:
    """A sentence where times since 1970 are in another unit than the bound `high` of the schema."""
    return _times(after.number.low, after.number.high, high) if after.number else ""


def _best(factors: Iterable[float], after: ColumnSummary, before: ColumnSummary) -> tuple[float, float]:
    """(the distance that is left, the factor that leaves least)."""
    tried = [(distance.value, factor) for factor in factors if (distance := _with(factor, after, before))]
    return min(tried, default=(math.inf, 1.0))


def _known() -> Iterator[float]:
    for factor, _, _ in _UNITS:
        yield factor
        yield 1 / factor


def _between(after: ColumnSummary, before: ColumnSummary) -> Iterator[float]:
    """The known factors, and those between the means and between deciles."""
    yield from _known()
    assert after.number is not None
    assert before.number is not None
    edges = zip(after.number.distribution.inner_edges(), before.number.distribution.inner_edges(), strict=False)
    for new, old in [(after.number.mean, before.number.mean), *edges]:
        if old and math.isfinite(new) and math.isfinite(old) and new / old > 0:
            yield new / old


def _with(factor: float, after: ColumnSummary, before: ColumnSummary) -> divergence.Distance | None:
    """How far apart the two are once the older one is multiplied."""
    assert before.number is not None
    scaled = dataclasses.replace(before.number, distribution=before.number.distribution.scaled(factor))
    return divergence.jensen_shannon(after, dataclasses.replace(before, number=scaled))


def _unit(factor: float) -> str:
    """The exact factor between two units that is nearly `factor`, and the units."""
    for known, large, small in _UNITS:
        if abs(factor / known - 1) < _SAME_FACTOR:
            return f"{known:.4g}: {large} for {small}?"
        if abs(factor * known - 1) < _SAME_FACTOR:
            return f"{1 / known:.4g}, a {known:.4g}th: {small} for {large}?"
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
