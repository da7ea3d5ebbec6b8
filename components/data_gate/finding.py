"""What the rules report: a finding, a rule that could not be checked, and the verdict over all of them."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from components.data_gate import catalog

ALLOWED = "allowed"
ACCEPTED, BLOCKED, WARNED = "accepted", "blocked", "accepted with warnings"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """One deviation of one column (or of the whole data set: feature is empty) in one data set.

    `severity` is block, warn, or allowed (an allow-list entry covers it). `rows` is the number of offending rows,
    None where the fault is not one of rows or they were not looked up. `accept` is what a person runs or writes to
    let it through.
    """

    feature: str
    rule: str
    split: str
    observed: str
    allowed: str
    why: str = ""
    severity: str = catalog.BLOCK
    accept: str = ""
    rows: int | None = None
    samples: tuple[Mapping[str, Any], ...] = ()

    @property
    def blocks(self) -> bool:
        """Whether this alone blocks the data."""
        return self.severity == catalog.BLOCK

    def sentence(self) -> str:
        """Feature, rule, observed and allowed value in one line."""
        subject = f"{self.feature}: " if self.feature else ""
        return f"{subject}{self.rule} in {self.split}: {self.observed}; allowed: {self.allowed}"


def row_count(rows: int) -> str:
    """A number of rows, for a sentence."""
    return f"{rows:,} row" + ("" if rows == 1 else "s")


def _as_dict(finding: Finding) -> dict[str, Any]:
    """For a reader: without the hashes by which samples are found again."""
    samples = [{key: value for key, value in sample.items() if key != "hash"} for sample in finding.samples]
    return dataclasses.asdict(finding) | {"samples": samples}


@dataclasses.dataclass(frozen=True, kw_only=True)
class NotChecked:
    """A rule that could not be applied, and what it would need."""

    rule: str
    why: str
    feature: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """The outcome. `splits` maps each data set to its number of rows; `notes` are for a person and block nothing.

    `accept` is what lets through all that blocks.
    """

    mode: str
    findings: tuple[Finding, ...]
    not_checked: tuple[NotChecked, ...]
    splits: Mapping[str, int]
    notes: tuple[str, ...] = ()
    accept: str = ""

    @property
    def blocking(self) -> tuple[Finding, ...]:
        """The findings that block."""
        return tuple(finding for finding in self.findings if finding.blocks)

    @property
    def accepted(self) -> bool:
        """False when the run must stop; always true in mode `warn`."""
        return not self.blocking or self.mode == catalog.WARN

    @property
    def word(self) -> str:
        """`accepted`, `accepted with warnings` or `blocked`."""
        if not self.accepted:
            return BLOCKED
        serious = [finding for finding in self.findings if finding.severity != ALLOWED]
        return WARNED if serious else ACCEPTED

    def as_dict(self) -> dict[str, Any]:
        """What verdict.json and `sluice validate --json` hold."""
        return {
            "verdict": self.word,
            "mode": self.mode,
            "findings": [_as_dict(finding) for finding in self.findings],
            "not_checked": [dataclasses.asdict(item) for item in self.not_checked],
            "notes": list(self.notes),
            "accept": self.accept,
            "splits": dict(self.splits),
        }

    def to_json(self) -> str:
        """`as_dict` as text; values that JSON has no word for (NaN, infinity) are spelt out in `samples`."""
        return json.dumps(self.as_dict(), indent=2, allow_nan=False) + "\n"

    def message(self, page: str) -> str:
        """One line for a person: what blocks, how to accept it and where the page is."""
        shown = "; ".join(finding.sentence() for finding in self.blocking[:3])
        more = f"; and {len(self.blocking) - 3} more" if len(self.blocking) > 3 else ""
        where = f". See {page}" if page else ""
        number = f" all {len(self.blocking)}" if len(self.blocking) > 1 else ""
        line = f"data rejected: {shown}{more}{where}. To accept{number}: {self.accept or self.blocking[0].accept}"
        return " ".join(line.split("\n"))  # the name of a column may hold a line end
