"""When rows happened: not in the future, not too long ago, and evaluation after training."""

import datetime
import itertools
import math
from collections.abc import Iterator, Mapping

from components.data_gate import iso_time
from components.data_gate.config import TIME_UNITS, TimePolicy
from components.data_gate.context import Context
from components.data_gate.finding import Finding, NotChecked
from components.data_gate.row_pass import TimeSpan
from components.data_gate.row_question import RowQuestion
from components.data_gate.rules.wording import extremes
from components.data_gate.summary import CategorySummary, DataSummary

RULES = ("future", "stale", "time-leak")
_DAY = 86_400.0
_HOUR = 3_600.0


def only_rows_tell(context: Context, policy: TimePolicy) -> bool:
    """Whether the times are text of which statistics hold a part only, and there are rows to look at."""
    columns = [data.columns.get(policy.feature) for data in context.splits.values()]
    partial = any(column and column.category and not column.category.complete for column in columns)
    return partial and any(context.inputs.examples.get(split) for split in context.splits)


def check(context: Context) -> Iterator[Finding | NotChecked]:
    """All time rules; those that the policy leaves off are not reported."""
    policy = context.policy.time
    if policy is None:
        for rule in RULES:
            yield NotChecked(rule=rule, why="the policy names no time column")
        return
    spans = {split: _span(context, policy, split, data) for split, data in context.splits.items()}
    for split, span in spans.items():
        if span is None and context.splits[split].num_rows:
            why = (
                f"the statistics of {split} hold no range of {policy.feature}; store it as a number, or give the gate "
                "the examples"
            )
            for rule in RULES:
                yield NotChecked(rule=rule, feature=policy.feature, why=why)
        elif span is not None and span.unreadable:
            yield _unreadable(context, policy, split, span.unreadable)
    known = {split: span for split, span in spans.items() if span is not None and span.newest >= span.oldest}
    if not known:
        return
    yield from _future(context, policy, known)
    yield from _stale(context, policy, known)
    yield from _leak(context, policy, known)


def _unreadable(context: Context, policy: TimePolicy, split: str, count: int) -> Finding:
    context.ask(RowQuestion(feature=policy.feature, rule="unexpected-value", split=split, test="timeless"))
    return Finding(
        feature=policy.feature,
        rule="unexpected-value",
        split=split,
        observed=f"{count} values that are no time",
        allowed="ISO 8601, such as 2024-01-31 or 2024-01-31T08:00:00+01:00",
        why="Rows without a time pass every rule about time.",
    )


def _future(context: Context, policy: TimePolicy, spans: Mapping[str, TimeSpan]) -> Iterator[Finding]:
    limit = context.inputs.now.timestamp() + policy.max_future_hours * _HOUR
    for split, span in spans.items():
        if span.newest > limit:
            yield Finding(
                feature=policy.feature,
                rule="future",
                split=split,
                observed=f"newest row at {_date(span.newest)}",
                allowed=f"at most {policy.max_future_hours:g} hours after now, {_date(context.inputs.now.timestamp())}",
            )
            context.ask(_after(context, policy, "future", split, limit))


def _stale(context: Context, policy: TimePolicy, spans: Mapping[str, TimeSpan]) -> Iterator[Finding | NotChecked]:
    newest = max(span.newest for span in spans.values())
    if policy.max_age_days is not None:
        age = (context.inputs.now.timestamp() - newest) / _DAY
        if age > policy.max_age_days:
            yield _stale_finding(policy, newest, f"{age:.1f} days old", f"at most {policy.max_age_days:g} days old")
    if policy.min_advance_days is None:
        return
    before = [span for data in context.baseline.values() if (span := _known_span(policy, data))]
    if not before:
        why = "there are no baseline statistics, or they hold no range of it"
        yield NotChecked(rule="stale", feature=policy.feature, why=why)
        return
    last = max(span.newest for span in before)
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


def _leak(context: Context, policy: TimePolicy, spans: Mapping[str, TimeSpan]) -> Iterator[Finding | NotChecked]:
    ordered = [split for split in policy.ordered_splits if split in spans]
    for split in policy.ordered_splits:
        if split not in context.splits:
            why = f"ordered_splits names {split}; there are {', '.join(context.splits)}"
            yield NotChecked(rule="time-leak", feature=policy.feature, why=why)
    for earlier, later in itertools.pairwise(ordered):
        newest, oldest = spans[earlier].newest, spans[later].oldest
        if newest > oldest:
            yield Finding(
                feature=policy.feature,
                rule="time-leak",
                split=earlier,
                observed=f"newest row of {earlier} at {_date(newest)}",
                allowed=f"no later than the oldest row of {later}, {_date(oldest)}",
                why="The model would be evaluated on a time that it has seen.",
            )
            context.ask(_after(context, policy, "time-leak", earlier, oldest))


def _after(context: Context, policy: TimePolicy, rule: str, split: str, seconds: float) -> RowQuestion:
    text = context.splits[split].columns[policy.feature].type == "BYTES"
    limit = seconds if text else seconds * TIME_UNITS[policy.unit]
    return RowQuestion(feature=policy.feature, rule=rule, split=split, test="late" if text else "range", high=limit)


def _span(context: Context, policy: TimePolicy, split: str, data: DataSummary) -> TimeSpan | None:
    """The times of a split; None where neither statistics nor rows say."""
    return context.text_times.get(split) or _known_span(policy, data)


def _known_span(policy: TimePolicy, data: DataSummary) -> TimeSpan | None:
    """What the statistics alone say."""
    column = data.columns.get(policy.feature)
    if column is None or not column.num_present:
        return None
    if column.type == "BYTES":
        return _text_span(column.category) if column.category else None
    ends = extremes(column) if column.number or (column.category and column.category.complete) else None
    if ends is None:
        return None
    return TimeSpan(ends[0] / TIME_UNITS[policy.unit], ends[1] / TIME_UNITS[policy.unit], 0)


def _text_span(category: CategorySummary) -> TimeSpan | None:
    if not category.complete:
        return None
    seconds = iso_time.seconds_of(category.counts)
    unreadable = sum(count for count, at in zip(category.counts.values(), seconds, strict=True) if math.isnan(at))
    known = [at for at in seconds.tolist() if not math.isnan(at)]
    return TimeSpan(min(known, default=math.inf), max(known, default=-math.inf), int(unreadable))


def _date(seconds: float) -> str:
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):  # a number that is no date at all
        return f"{seconds:.6g} s since 1970"
