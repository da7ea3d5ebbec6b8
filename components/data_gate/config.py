"""What the gate lets through: severities, bounds that a schema cannot say, and exceptions that expire."""

import dataclasses
import datetime
import json
from collections.abc import Mapping
from typing import Any

from components.data_gate import catalog
from components.data_gate.errors import GateConfigError
from components.data_gate.policy_reader import read, reject

MODES = ("block", "warn")
TIME_UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
ANY = "*"


def _share(key: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise GateConfigError(f"{key}: {value} is not a share; it must be between 0 and 1")


def _count(key: str, value: int) -> None:
    if value < 0:
        raise GateConfigError(f"{key}: {value} is not a number of rows; it must be 0 or more")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Allowance:
    """One accepted deviation. After `until` (a date, inclusive, UTC) the rule blocks again."""

    feature: str
    rule: str
    until: str
    reason: str = ""

    def __post_init__(self):
        if self.rule not in catalog.RULES:
            reject("rule", self.rule, catalog.RULES)
        if self.rule in catalog.OF_THE_DATA_SET and self.feature not in ("", ANY):
            raise GateConfigError(
                f"feature: {self.feature!r}, but {self.rule} is about the whole data set; write feature: '{ANY}'"
            )
        try:
            datetime.date.fromisoformat(self.until)
        except ValueError as error:
            raise GateConfigError(f"until: {self.until!r} is not a date ({error}); write it as 2030-12-31") from error

    def covers(self, feature: str, rule: str) -> bool:
        """Whether this is about `feature` (or about every feature) and `rule`."""
        return self.rule == rule and self.feature in (feature, ANY)

    def expired(self, today: datetime.date) -> bool:
        """Whether the last allowed day is over."""
        return today > datetime.date.fromisoformat(self.until)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelPolicy:
    """The column that the label is, or is made from.

    A number counts as positive above `threshold`; a category counts as itself. Every class must have at least
    `min_share` of the labelled rows, and at most `max_missing` of all rows may lack the label.
    """

    feature: str
    threshold: float = 0.0
    min_share: float = 0.01
    max_missing: float = 0.0

    def __post_init__(self):
        _share("label.min_share", self.min_share)
        _share("label.max_missing", self.max_missing)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TimePolicy:
    """When a row happened. `feature` is a number of `unit` since 1970, or ISO 8601 text (UTC where it names no zone).

    `max_age_days` is against the clock and `min_advance_days` against the newest row of the baseline; both are off
    unless given. `ordered_splits` names splits that follow each other in time, such as [train, eval].
    """

    feature: str
    unit: str = "s"
    max_future_hours: float = 24.0
    max_age_days: float | None = None
    min_advance_days: float | None = None
    ordered_splits: tuple[str, ...] = ()

    def __post_init__(self):
        if self.unit not in TIME_UNITS:
            reject("time.unit", self.unit, TIME_UNITS)
        if len(self.ordered_splits) == 1:
            raise GateConfigError(f"ordered_splits: only {self.ordered_splits[0]}; name two or more, in their order")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DuplicatePolicy:
    """How many evaluation rows may be in the training split too.

    Beyond `max_rows` rows the share is estimated from that many; 0 rows turns the check off. Rows are the same when
    their `columns` are, such as the content of a picture whatever its file is called; empty means all columns.
    """

    max_share: float = 0.01
    max_rows: int = 20_000
    columns: tuple[str, ...] = ()

    def __post_init__(self):
        _share("duplicates.max_share", self.max_share)
        _count("duplicates.max_rows", self.max_rows)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GatePolicy:
    """The whole policy; every field has a default, so that a schema alone is enough to start with.

    Attributes:
      mode: `block` stops the run on a blocking finding; `warn` reports it and goes on.
      severity: rule -> block, warn or ignore; rules are in `catalog.RULES`.
      allow: accepted deviations, each with the date on which it ends.
      min_rows: split -> least number of rows; `*` stands for every split not named.
      label, time: what the schema cannot say about these two columns; their rules are off without them.
      duplicates: leakage between splits.
      enums: integer column -> the integers it may hold; a schema can only say from which to which.
      may_be_constant: columns for which one value is normal.
      key: columns that identify a row to a person; shown first in sample rows.
      max_samples: offending rows shown for each finding.
      schema_file: where the curated schema is kept; only used to say how to change it.
      training_environment, serving_environment: names used in the schema's environments.
    """

    mode: str = "block"
    severity: Mapping[str, str] = dataclasses.field(default_factory=dict)
    allow: tuple[Allowance, ...] = ()
    min_rows: Mapping[str, int] = dataclasses.field(default_factory=lambda: {ANY: 1})
    label: LabelPolicy | None = None
    time: TimePolicy | None = None
    duplicates: DuplicatePolicy = DuplicatePolicy()
    enums: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    may_be_constant: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    max_samples: int = 20
    schema_file: str = "schema.pbtxt"
    training_environment: str = "TRAINING"
    serving_environment: str = "SERVING"

    def __post_init__(self):
        if self.mode not in MODES:
            reject("mode", self.mode, MODES)
        for rule, severity in self.severity.items():
            if rule not in catalog.RULES:
                reject("severity", rule, catalog.RULES)
            if severity not in catalog.SEVERITIES:
                reject(f"severity.{rule}", severity, catalog.SEVERITIES)
        for split, rows in self.min_rows.items():
            _count(f"min_rows.{split}", rows)
        _count("max_samples", self.max_samples)
        for feature, values in self.enums.items():
            if not values:
                raise GateConfigError(f"enums.{feature}: the list is empty; name the integers that it may hold")

    def severity_of(self, rule: str) -> str:
        """`block`, `warn` or `ignore` for `rule`."""
        return self.severity.get(rule, catalog.RULES[rule].severity)

    def min_rows_of(self, split: str) -> int:
        """The least number of rows of `split`."""
        return self.min_rows.get(split, self.min_rows.get(ANY, 1))

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any] | None, where: str = "gate") -> "GatePolicy":
        """The policy that `mapping` (from YAML or JSON) says.

        Raises:
          GateConfigError: an unknown key or a value that is not allowed; `where` says in which section.
        """
        return read(cls, mapping or {}, where)

    @classmethod
    def from_json(cls, text: str) -> "GatePolicy":
        """The inverse of `to_json`."""
        return cls.from_dict(json.loads(text) if text else {})

    def to_json(self) -> str:
        """One line of JSON, the same for equal policies: it is an execution property, on which TFX caches."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)
