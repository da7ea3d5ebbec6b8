"""Data made bad one way at a time, with the column and rule that must say so; and changes that must not block.

Every entry of BAD is (name, column, rule, change); of HARMLESS (name, change). A change takes the good case and
returns another. Columns named in a finding of the whole data set are "".
"""

import datetime
import math
import random
from collections.abc import Callable

from validation_data import Case, Columns, other_flights, other_taxi, take

Change = Callable[[Case], Case]
DAY = 86_400


def column(split: str, name: str, edit: Callable[[list], list | None]) -> Change:
    """Changes one column of one split."""
    return lambda case: case.change(split, **{name: edit(case.splits[split][name])})


def some(share: float, value: object) -> Callable[[list], list]:
    """Puts `value` into a share of the rows, spread evenly."""
    step = round(1 / share)
    return lambda values: [value if i % step == 0 else old for i, old in enumerate(values)]


def one(value: object) -> Callable[[list], list]:
    """Puts `value` into the eighth row."""
    return lambda values: [value if i == 7 else old for i, old in enumerate(values)]


def every(function: Callable) -> Callable[[list], list]:
    """Applies `function` to all values that are there."""
    return lambda values: [None if value is None else function(value) for value in values]


def gone(values: list) -> None:
    """Removes the column."""


def add(split: str, name: str, make: Callable[[Columns], list]) -> Change:
    """A new column."""
    return lambda case: case.change(split, **{name: make(case.splits[split])})


def renamed(split: str, old: str, new: str) -> Change:
    """The same values under another name."""
    return lambda case: case.change(split, **{new: case.splits[split][old], old: None})


def serving(edit: Callable[[Columns], Columns]) -> Change:
    """Requests that were served: as the training data without its label, then edited."""

    def change(case: Case) -> Case:
        label = case.policy["label"]["feature"]
        columns = {name: values for name, values in case.splits["eval"].items() if name != label}
        return Case(**{**case.__dict__, "serving": edit(columns)})

    return change


def both(*changes: Change) -> Change:
    """One change after the other."""

    def change(case: Case) -> Case:
        for step in changes:
            case = step(case)
        return case

    return change


def policy(**changes: object) -> Change:
    """Another policy."""
    return lambda case: case.with_policy(**changes)


def setting(**changes: object) -> Change:
    """Another field of the case, such as `now` or `with_rows`."""
    return lambda case: Case(**{**case.__dict__, **changes})


def rows(split: str, edit: Callable[[Columns], Columns]) -> Change:
    """Changes all columns of a split together."""
    return lambda case: Case(**{**case.__dict__, "splits": {**case.splits, split: edit(case.splits[split])}})


def copied_into_eval(count: int) -> Change:
    """The first `count` training rows are evaluation rows too."""

    def change(case: Case) -> Case:
        train, evaluation = case.splits["train"], case.splits["eval"]
        mixed = {name: evaluation[name][: len(evaluation[name]) - count] + train[name][:count] for name in train}
        return Case(**{**case.__dict__, "splits": {"train": train, "eval": mixed}, "with_rows": True})

    return change


def only_baseline_rows_change(case: Case) -> Case:
    """The whole data set is the previous one again."""
    assert case.baseline is not None
    half = {"train": take(case.baseline, 0, 4000), "eval": take(case.baseline, 4000, 6000)}
    return Case(**{**case.__dict__, "splits": half})


def newest_first(case: Case) -> Case:
    """A split by time that was sorted the wrong way round."""
    train, evaluation = case.splits["train"], case.splits["eval"]
    joined = {name: train[name] + evaluation[name] for name in train}
    times = joined["trip_start_timestamp"]
    order = sorted(range(len(times)), key=lambda i: -times[i])
    joined = {name: [values[i] for i in order] for name, values in joined.items()}
    splits = {"train": take(joined, 0, 6000), "eval": take(joined, 6000, 9000)}
    ordered = {"feature": "trip_start_timestamp", "ordered_splits": ["train", "eval"]}
    return Case(**{**case.__dict__, "splits": splits, "policy": {**case.policy, "time": ordered}})


def oldest_first(case: Case) -> Case:
    """The split by time as it should be; season and fares differ between the halves, so drift is left out."""
    wrong = newest_first(case)
    flipped = {split: {name: values[::-1] for name, values in c.items()} for split, c in wrong.splits.items()}
    joined = {name: flipped["eval"][name] + flipped["train"][name] for name in flipped["train"]}
    splits = {"train": take(joined, 0, 6000), "eval": take(joined, 6000, 9000)}
    return Case(**{**wrong.__dict__, "splits": splits, "baseline": None})


def shuffled(columns: Columns) -> Columns:
    """The same rows in another order."""
    order = list(range(len(next(iter(columns.values())))))
    random.Random(7).shuffle(order)
    return {name: [values[i] for i in order] for name, values in columns.items()}


TIME = "trip_start_timestamp"
AREAS = [area for area in range(1, 78) if area != 47]
TOMORROW = datetime.datetime(2017, 1, 2, tzinfo=datetime.UTC).timestamp() + 30 * DAY

BAD_TAXI: list[tuple[str, str, str, Change]] = [
    ("a column is gone", "fare", "missing-column", column("train", "fare", gone)),
    ("a column is gone in eval only", "company", "missing-column", column("eval", "company", gone)),
    ("a column is renamed", "trip_miles", "missing-column", renamed("train", "trip_miles", "miles")),
    ("its new name is new", "miles", "new-column", renamed("train", "trip_miles", "miles")),
    ("a column is new", "surge", "new-column", add("train", "surge", lambda c: [1.5] * len(c["fare"]))),
    ("int became float", "trip_start_hour", "type-changed", column("train", "trip_start_hour", every(float))),
    ("float became text", "fare", "type-changed", column("train", "fare", every(str))),
    ("int became text", "trip_seconds", "type-changed", column("train", "trip_seconds", every(str))),
    ("text became codes", "payment_type", "type-changed", column("train", "payment_type", every(len))),
    ("an unseen category", "payment_type", "unexpected-value", column("train", "payment_type", one("Bitcoin"))),
    ("another case", "payment_type", "unexpected-value", column("train", "payment_type", every(str.lower))),
    ("white space around", "payment_type", "unexpected-value", column("eval", "payment_type", some(0.1, "Cash "))),
    ("hour 24", "trip_start_hour", "out-of-range", column("train", "trip_start_hour", one(24))),
    ("area 78 of 77", "pickup_community_area", "out-of-range", column("train", "pickup_community_area", one(78))),
    ("month 0", "trip_start_month", "out-of-range", column("eval", "trip_start_month", one(0))),
    ("days from 0", "trip_start_day", "out-of-range", column("train", "trip_start_day", every(lambda d: d - 1))),
    (
        "an int between min and max that is no category",
        "pickup_community_area",
        "unexpected-value",
        both(
            policy(enums={"pickup_community_area": AREAS}),
            column("train", "pickup_community_area", every(lambda a: 8 if a == 47 else a)),
            column("train", "pickup_community_area", one(47)),
        ),
    ),
    (
        "the same where only rows can tell",
        "pickup_community_area",
        "unexpected-value",
        both(
            policy(enums={"pickup_community_area": AREAS}),
            column("train", "pickup_community_area", one(47)),
            setting(with_schema=False, with_rows=True),
        ),
    ),
    ("negative fares", "fare", "out-of-range", column("train", "fare", some(0.01, -3.25))),
    ("one absurd fare", "fare", "out-of-range", column("eval", "fare", one(1e6))),
    ("a sentinel for missing", "trip_seconds", "out-of-range", column("train", "trip_seconds", some(0.01, 999_999))),
    ("minus one for missing", "trip_miles", "out-of-range", column("train", "trip_miles", some(0.02, -1.0))),
    (
        "latitude and longitude swapped",
        "pickup_latitude",
        "out-of-range",
        lambda case: case.change(
            "train",
            pickup_latitude=case.splits["train"]["pickup_longitude"],
            pickup_longitude=case.splits["train"]["pickup_latitude"],
        ),
    ),
    ("milliseconds for seconds", TIME, "out-of-range", column("train", TIME, every(lambda t: t * 1000))),
    ("NaN", "fare", "nan", column("train", "fare", one(math.nan))),
    ("NaN only", "fare", "all-missing", column("train", "fare", lambda values: [math.nan] * len(values))),
    ("the largest integer", "trip_start_hour", "out-of-range", column("train", "trip_start_hour", one(2**63 - 1))),
    ("an empty text", "payment_type", "unexpected-value", column("train", "payment_type", some(0.01, ""))),
    ("infinity", "trip_miles", "infinite", column("train", "trip_miles", one(math.inf))),
    ("minus infinity", "trip_miles", "infinite", column("eval", "trip_miles", one(-math.inf))),
    ("nulls where none may be", "payment_type", "missing-values", column("train", "payment_type", some(0.01, None))),
    ("more nulls than may be", "company", "missing-values", column("train", "company", some(0.34, None))),
    ("a tenth of nulls", "pickup_latitude", "missing-values", column("train", "pickup_latitude", some(0.1, None))),
    (
        "all null",
        "dropoff_census_tract",
        "missing-column",
        column("train", "dropoff_census_tract", lambda values: [None] * len(values)),
    ),
    ("two values in a row", "fare", "number-of-values", column("train", "fare", one([3.25, 4.0]))),
    ("labels missing", "tips", "label-missing", column("train", "tips", some(0.02, None))),
    ("NaN for labels", "tips", "label-missing", column("train", "tips", some(0.02, math.nan))),
    ("the label is gone", "tips", "label-missing", column("train", "tips", gone)),
    ("no positive label", "tips", "label-one-sided", column("train", "tips", every(lambda t: 0.0))),
    (
        "hardly any positive label",
        "tips",
        "label-one-sided",
        column("eval", "tips", lambda v: [1.0] * 9 + [0.0] * 2991),
    ),
    ("positive labels only", "tips", "label-one-sided", column("train", "tips", every(lambda t: t + 1.0))),
    ("kilometres for miles", "trip_miles", "drift", column("train", "trip_miles", every(lambda m: m * 1.609344))),
    ("minutes for seconds", "trip_seconds", "drift", column("train", "trip_seconds", every(lambda s: s // 60))),
    ("cents for dollars", "fare", "drift", column("eval", "fare", every(lambda f: min(f * 100, 9999.0)))),
    ("prices up by a fifth", "fare", "drift", column("train", "fare", every(lambda f: f * 1.2))),
    ("an hour off", "trip_start_hour", "drift", column("train", "trip_start_hour", every(lambda h: (h + 1) % 24))),
    (
        "UTC for local time",
        "trip_start_hour",
        "drift",
        column("train", "trip_start_hour", every(lambda h: (h + 6) % 24)),
    ),
    ("half of the cards are gone", "payment_type", "drift", column("train", "payment_type", some(0.33, "Cash"))),
    ("names cut short", "company", "drift", column("train", "company", every(lambda name: name[:8]))),
    (
        "coordinates rounded",
        "pickup_latitude",
        "drift",
        column("train", "pickup_latitude", every(lambda x: round(x, 1))),
    ),
    (
        "weekend trips only",
        "trip_start_day",
        "drift",
        column("train", "trip_start_day", every(lambda d: 1 + 6 * (d > 3))),
    ),
    ("one company", "company", "constant", column("train", "company", every(lambda name: "Taxi Affiliation Services"))),
    ("evaluated on what was learnt", "", "duplicates", copied_into_eval(150)),
    ("too few rows", "", "too-few-rows", rows("eval", lambda c: take(c, 0, 400))),
    ("an empty split", "", "too-few-rows", rows("eval", lambda c: take(c, 0, 0))),
    (
        "stale by the clock",
        TIME,
        "stale",
        both(
            policy(time={"feature": TIME, "max_age_days": 7}),
            setting(now=datetime.datetime(2017, 3, 1, tzinfo=datetime.UTC)),
        ),
    ),
    (
        "the previous span again",
        TIME,
        "stale",
        both(policy(time={"feature": TIME, "min_advance_days": 1}), only_baseline_rows_change),
    ),
    ("a trip next month", TIME, "future", column("train", TIME, one(int(TOMORROW)))),
    ("trained on what comes after", TIME, "time-leak", newest_first),
    (
        "served in kilometres",
        "trip_miles",
        "skew",
        serving(lambda c: {**c, "trip_miles": [1.6 * m for m in c["trip_miles"]]}),
    ),
    (
        "served without a column",
        "payment_type",
        "missing-column",
        serving(lambda c: {name: values for name, values in c.items() if name != "payment_type"}),
    ),
    ("the label is served", "tips", "new-column", serving(lambda c: {**c, "tips": [1.0] * len(c["fare"])})),
    (
        "served with another spelling",
        "payment_type",
        "unexpected-value",
        serving(lambda c: {**c, "payment_type": [p.upper() for p in c["payment_type"]]}),
    ),
    (
        "served as text",
        "trip_seconds",
        "type-changed",
        serving(lambda c: {**c, "trip_seconds": [None if s is None else str(s) for s in c["trip_seconds"]]}),
    ),
    (
        "allowed until yesterday",
        "trip_miles",
        "drift",
        both(
            column("train", "trip_miles", every(lambda m: m * 1.609344)),
            policy(allow=[{"feature": "trip_miles", "rule": "drift", "until": "2017-01-01"}]),
        ),
    ),
]

BAD_FLIGHTS: list[tuple[str, str, str, Change]] = [
    ("an unseen carrier", "carrier", "unexpected-value", column("train", "carrier", one("ZZ"))),
    ("an airport that is not in New York", "origin", "unexpected-value", column("eval", "origin", some(0.05, "BOS"))),
    ("month 13", "month", "out-of-range", column("train", "month", one(13))),
    ("hour 24", "hour", "out-of-range", column("train", "hour", one(24))),
    ("delay in hours", "dep_delay", "drift", column("train", "dep_delay", every(lambda d: d // 60))),
    ("kilometres for miles", "distance", "drift", column("train", "distance", every(lambda d: int(d * 1.609)))),
    ("hours off by one", "hour", "drift", column("train", "hour", every(lambda h: min(23, h + 1)))),
    ("January only", "month", "constant", column("train", "month", every(lambda m: 1))),
    ("flights to text", "flight", "type-changed", column("train", "flight", every(str))),
    ("times became fractions", "dep_time", "type-changed", column("train", "dep_time", every(lambda t: t / 60))),
    ("a destination renamed", "dest", "missing-column", renamed("train", "dest", "destination")),
    ("no tail numbers", "tailnum", "missing-column", column("train", "tailnum", gone)),
    ("a third without air time", "air_time", "missing-values", column("eval", "air_time", some(0.33, None))),
    ("cancelled flights only", "arr_delay", "label-missing", column("train", "arr_delay", some(0.5, None))),
    ("all on time", "arr_delay", "label-one-sided", column("train", "arr_delay", every(lambda d: min(d, 0)))),
    ("negative distance", "distance", "out-of-range", column("train", "distance", one(-1))),
    ("evaluated on what was learnt", "", "duplicates", copied_into_eval(600)),
]

HARMLESS_TAXI: list[tuple[str, Change]] = [
    ("nothing", lambda case: case),
    ("rows in another order", both(rows("train", shuffled), rows("eval", shuffled))),
    ("columns in another order", rows("train", lambda c: dict(reversed(c.items())))),
    ("a third of the rows", rows("train", lambda c: take(c, 0, 2000))),
    ("a sixth of the rows", both(rows("train", lambda c: take(c, 0, 1000)), rows("eval", lambda c: take(c, 0, 500)))),
    *((f"resampled, seed {s}", rows("train", lambda c, s=s: other_taxi(s, 6000))) for s in range(11, 16)),
    *((f"resampled small, seed {s}", rows("train", lambda c, s=s: other_taxi(s, 1200))) for s in range(21, 26)),
    ("minus zero", column("train", "tips", every(lambda tip: tip or -0.0))),
    ("a rare known category", column("train", "payment_type", one("Prcard"))),
    ("a known category not seen before", column("train", "payment_type", one("Way2ride"))),
    ("a rare area", column("train", "pickup_community_area", one(55))),
    ("an area of the policy's list", both(policy(enums={"pickup_community_area": AREAS}), rows("eval", shuffled))),
    ("a new small company", column("train", "company", some(0.002, "7000 - 12345 New Cab Co"))),
    ("values at the bounds", both(column("train", "trip_start_hour", one(0)), column("eval", "fare", one(0.0)))),
    ("some more nulls within the bound", column("train", "dropoff_latitude", some(0.03, None))),
    ("an optional column is not there", column("train", "pickup_census_tract", gone)),
    ("one very long trip", column("train", "trip_miles", one(4999.0))),
    ("a tenth of a percent of copies", copied_into_eval(3)),
    ("tips a little rarer", column("train", "tips", some(0.02, 0.0))),
    ("split by time", oldest_first),
    ("statistics without the schema", setting(with_schema=False, baseline=None)),
    ("served as trained", serving(lambda c: c)),
    ("a quarter served", serving(lambda c: take(c, 0, 750))),
    (
        "kilometres, allowed for now",
        both(
            column("train", "trip_miles", every(lambda m: m * 1.609344)),
            policy(allow=[{"feature": "trip_miles", "rule": "drift", "until": "2017-01-02", "reason": "new meters"}]),
        ),
    ),
    (
        "a new column, which the policy only warns of",
        both(add("train", "surge", lambda c: [1.5] * len(c["fare"])), policy(severity={"new-column": "warn"})),
    ),
]

HARMLESS_FLIGHTS: list[tuple[str, Change]] = [
    ("nothing", lambda case: case),
    *((f"resampled, seed {s}", rows("train", lambda c, s=s: other_flights(s, 6000))) for s in range(11, 16)),
    ("rows in another order", rows("train", shuffled)),
    ("half of the rows", rows("train", lambda c: take(c, 0, 3000))),
    ("a rare carrier", column("train", "carrier", some(0.005, "OO"))),
    ("served as trained", serving(lambda c: c)),
]
