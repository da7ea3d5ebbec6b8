"""What was seen in a column, in numbers that add up over blocks, files and machines, and what follows from it."""

import dataclasses
from collections.abc import Iterable
from typing import NamedTuple

# What a declared kind is stored as.
FEATURE_OF = {"int": "int", "bool": "int", "timestamp": "int", "float": "float", "bytes": "bytes"}


class Place(NamedTuple):
    """Where something was first seen."""

    source: int
    line: int
    value: str


@dataclasses.dataclass
class Evidence:
    """Counts of a column's values. A value is counted as one of: missing, word, int, big, float, text.

    Attributes:
      rows: all rows.
      missing: empty fields, or nulls.
      blanked: words that the user's own list names as missing.
      words: words that mean missing, such as NA, where the column was read as numbers.
      ints: whole numbers within int64.
      bigs: whole numbers beyond int64.
      floats: other numbers.
      texts: everything else.
      otherwise: texts of columns whose values look like numbers in another notation, such as 1,5 or 12 %.
      zeros: numbers with leading zeros, such as 01234.
      losses: numbers that float32 does not keep to seven digits or to the unit.
      overflows: finite numbers that became infinite.
      firsts: what ("blanked", "words", "bigs", "texts", "zeros", "losses", "overflows", or the text of a note) to where
        it was first seen.
      types: how the files themselves type the column (Parquet, Avro ...).
      notes: conversion done to every value, such as "datetime to int64 microseconds", to the number of values.
    """

    rows: int = 0
    missing: int = 0
    blanked: int = 0
    words: int = 0
    ints: int = 0
    bigs: int = 0
    floats: int = 0
    texts: int = 0
    otherwise: int = 0
    zeros: int = 0
    losses: int = 0
    overflows: int = 0
    firsts: dict[str, Place] = dataclasses.field(default_factory=dict)
    types: dict[str, int] = dataclasses.field(default_factory=dict)
    notes: dict[str, int] = dataclasses.field(default_factory=dict)

    def add(self, other: "Evidence") -> None:
        """Adds what was seen elsewhere."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for what, place in other.firsts.items():
            self.firsts[what] = min(self.firsts.get(what, place), place)
        for mine, theirs in ((self.types, other.types), (self.notes, other.notes)):
            for key, count in theirs.items():
                mine[key] = mine.get(key, 0) + count

    def note(self, text: str, place: Place) -> None:
        """Counts something that was done to a value."""
        self.notes[text] = self.notes.get(text, 0) + 1
        self.firsts[text] = min(self.firsts.get(text, place), place)

    @property
    def numbers(self) -> int:
        """How many values are numbers."""
        return self.ints + self.bigs + self.floats


_COUNTS = tuple(field.name for field in dataclasses.fields(Evidence) if field.type == "int" or field.type is int)


def total(evidences: Iterable[Evidence]) -> Evidence:
    """The sum."""
    result = Evidence()
    for evidence in evidences:
        result.add(evidence)
    return result


def decide(evidence: Evidence, float_loss: str = "warn") -> str:
    """The kind of an inferred column: "int", "float", "bytes", or "none" where there is no value at all."""
    if evidence.texts:
        return "bytes"
    if evidence.floats:
        return "bytes" if float_loss == "bytes" and evidence.losses + evidence.overflows else "float"
    if evidence.bigs:
        return "bytes"
    if evidence.ints:
        return "int"
    return "bytes" if evidence.words else "none"
