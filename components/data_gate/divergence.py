"""How far two data sets are apart in one column, and how far chance alone would put them."""

import dataclasses
import itertools
import math
from collections.abc import Sequence

from components.data_gate.summary import CategorySummary, ColumnSummary, NumberSummary

# Chance is allowed this many standard deviations, so that resampling does not block among hundreds of comparisons.
_SIGMAS = 4.0
OTHER = "(all other values)"


@dataclasses.dataclass(frozen=True)
class Distance:
    """`value` as measured and `noise`, what two samples of these sizes from one source may show.

    `largest` names the value or range whose share changed most, with its share before and after.
    """

    value: float
    noise: float
    largest: str
    before: float
    after: float


def jensen_shannon(new: ColumnSummary, old: ColumnSummary) -> Distance | None:
    """Jensen-Shannon divergence in bits (0 equal, 1 disjoint); None where the two cannot be compared."""
    aligned = _align(new, old)
    if aligned is None:
        return None
    names, after, before, num_after, num_before = aligned
    value = _jensen_shannon_bits(after, before)
    used = sum(1 for a, b in zip(after, before, strict=True) if a or b)
    freedom = max(1, used - 1)
    # Under one source 8 ln(2) JSD / (1/n + 1/m) is nearly chi-squared with `freedom` degrees.
    chance = (freedom + _SIGMAS * math.sqrt(2 * freedom)) / (8 * math.log(2))
    return _distance(value, chance * (1 / num_after + 1 / num_before), names, after, before)


def infinity_norm(new: ColumnSummary, old: ColumnSummary) -> Distance | None:
    """The largest change of any category's share; None unless both columns are categorical."""
    if new.category is None or old.category is None:
        return None
    aligned = _align(new, old)
    if aligned is None:
        return None
    names, after, before, num_after, num_before = aligned
    value = max(abs(a - b) for a, b in zip(after, before, strict=True))
    widest = max((a + b) / 2 * (1 - (a + b) / 2) for a, b in zip(after, before, strict=True))
    noise = _SIGMAS * math.sqrt(widest * (1 / num_after + 1 / num_before))
    return _distance(value, noise, names, after, before)


def _distance(value: float, noise: float, names: Sequence[str], after: Sequence[float], before: Sequence[float]):
    index = max(range(len(names)), key=lambda i: abs(after[i] - before[i]))
    return Distance(value, noise, names[index], before[index], after[index])


def _align(new: ColumnSummary, old: ColumnSummary):
    """(names, shares of new, shares of old, number of values of each) over the same cells."""
    if new.number and old.number:
        return _align_numbers(new.number, old.number)
    if new.category and old.category:
        return _align_categories(new.category, old.category)
    return None


def _align_numbers(new: NumberSummary, old: NumberSummary):
    num_new, num_old = new.distribution.total, old.distribution.total
    if not num_new or not num_old:
        return None
    edges = old.distribution.inner_edges() or new.distribution.inner_edges()
    ranges = [f"{low:.6g} to {high:.6g}" for low, high in itertools.pairwise(edges)]
    ends = (f"up to {edges[0]:.6g}", f"above {edges[-1]:.6g}") if edges else ("other than 0",)
    names = ["0", ends[0], *ranges, *ends[1:]]
    return names, new.distribution.shares(edges), old.distribution.shares(edges), num_new, num_old


def _align_categories(new: CategorySummary, old: CategorySummary):
    if not new.num_values or not old.num_values:
        return None
    new_shares, old_shares = new.shares(), old.shares()
    names = sorted(set(new_shares) | set(old_shares))
    after = [new_shares.get(name, 0.0) for name in names]
    before = [old_shares.get(name, 0.0) for name in names]
    if not (new.complete and old.complete):  # beyond the most frequent values only their sum is known
        names.append(OTHER)
        after.append(max(0.0, 1 - sum(after)))
        before.append(max(0.0, 1 - sum(before)))
    return names, after, before, new.num_values, old.num_values


def _jensen_shannon_bits(p: Sequence[float], q: Sequence[float]) -> float:
    def half(a: float, b: float) -> float:
        return a * math.log2(2 * a / (a + b)) if a > 0 else 0.0

    return max(0.0, sum((half(a, b) + half(b, a)) / 2 for a, b in zip(p, q, strict=True)))
