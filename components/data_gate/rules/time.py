"""When rows happened: not in the future, not too long ago, and evaluation after training."""

import datetime
import itertools
from collections.abc import Iterator

from components.data_gate.config import TIME_UNITS, TimePolicy
from components.data_gate.context import Context
from components.data_gate.finding import Finding, NotChecked
from components.data_gate.row_question import RowQuestion
from components.data_gate.summary import ColumnSummary, DataSummary

_DAY = 86_400.0
_HOUR = 3_600.0


def check(context: Context) -> Iterator[Finding | NotChecked]:
    """All time rules; those that the policy leaves off are not reported."""
    policy = context.policy.time
    if policy is None:
        for rule in ("future", "stale", "time-leak"):
            yield NotChecked(rule=rule, why="the policy names no time column")
        return
    spans = {split: _span(policy, data) for split, data in context.splits.items()}
    unknown = [split for split, span in spans.items() if span is None and context.splits[split].num_rows]
    for split in unknown:
        why = f"the statistics of {split} hold no range of {policy.feature}; store it as a number, seconds since 1970"
        yield NotChecked(rule="future", feature=policy.feature, why=why)
    known = {split: span for split, span in spans.items() if span is not None}
    if not known:
        return
    yield from _future(context, policy, known)
    yield from _stale(context, policy, known)
    yield from _leak(context, policy, known)


def _future(context: Context, policy: TimePolicy, spans: dict[str, tuple[float, float]]) -> Iterator[Finding]:
    limit = context.inputs.now.timestamp() + policy.max_future_hours * _HOUR
    for split, (_, newest) in spans.items():
        if newest > limit:
            yield Finding(
                feature=policy.feature,
                rule="future",
                split=split,
                observed=f"newest row at {_date(newest)}",
                allowed=f"at most {policy.max_future_hours:g} hours after now, {_date(context.inputs.now.timestamp())}",
            )
            context.ask(_after(policy, "future", split, limit))


def _stale(
    context: Context, policy: TimePolicy, spans: dict[str, tuple[float, float]]
) -> Iterator[Finding | NotChecked]:
    newest = max(high for _, high in spans.values())
    if policy.max_age_days is not None:
        age = (context.inputs.now.timestamp() - newest) / _DAY
        if age > policy.max_age_days:
            yield _stale_finding(policy, newest, f"{age:.1f} days old", f"at most {policy.max_age_days:g} days old")
    if policy.min_advance_days is None:
        return
    before = [span for data in context.baseline.values() if (span := _span(policy, data))]
    if not before:
        yield NotChecked(rule="stale", feature=policy.feature, why="there are no baseline statistics to be newer than")
        return
    last = max(high for _, high in before)
    if newest - last < policy.min_advance_days * _DAY:
        allowed = f"at least {policy.min_advance_days:g} days after the newest row of the baseline, {_date(last)}"
        yield _stale_finding(policy, newest, f"{(newest - last) / _DAY:.1f} days after it", allowed)


def _stale_finding(policy: TimePolicy, newest: float, observed: str, allowed: str) -> Finding:
    return Finding(
        feature=policy.feature,
        rule="stale",
        split="all splits",
        observed=f"newest row at {_date(newest)}, {observed}",
        allowed=allowed,
    )


def _leak(context: Context, policy: TimePolicy, spans: dict[str, tuple[float, float]]) -> Iterator[Finding]:
    ordered = [split for split in policy.ordered_splits if split in spans]
    for earlier, later in itertools.pairwise(ordered):
        newest, oldest = spans[earlier][1], spans[later][0]
        if newest > oldest:
            yield Finding(
                feature=policy.feature,
                rule="time-leak",
                split=earlier,
                observed=f"newest row of {earlier} at {_date(newest)}",
                allowed=f"no later than the oldest row of {later}, {_date(oldest)}",
                why="The model would be evaluated on a time that it has seen.",
            )
            context.ask(_after(policy, "time-leak", earlier, oldest))


def _after(policy: TimePolicy, rule: str, split: str, seconds: float) -> RowQuestion:
    limit = seconds * TIME_UNITS[policy.unit]
    return RowQuestion(feature=policy.feature, rule=rule, split=split, test="range", high=limit)


def _span(policy: TimePolicy, data: DataSummary) -> tuple[float, float] | None:
    """Oldest and newest row in seconds since 1970; None where the statistics do not say."""
    column = data.columns.get(policy.feature)
    if column is None or not column.num_present:
        return None
    extremes = _extremes(column)
    return None if extremes is None else (extremes[0] / TIME_UNITS[policy.unit], extremes[1] / TIME_UNITS[policy.unit])


def _extremes(column: ColumnSummary) -> tuple[float, float] | None:
    if column.number is not None:
        return column.number.low, column.number.high
    return None


def _date(seconds: float) -> str:
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):  # a number that is no date at all
        return f"{seconds:.6g} s since 1970"
