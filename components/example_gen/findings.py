"""Evidence as sentences: everything that happened to values on their way, with the first place where it did."""

from collections.abc import Sequence
from typing import NamedTuple

from components.example_gen.evidence import Evidence, Place
from components.example_gen.sources import Source

# From this share of numbers on, a text column looks like a number column that something got into.
_MOSTLY_NUMBERS = 0.5


class Finding(NamedTuple):
    """One line of the report. `level` is "warning" (look at it) or "note" (good to know)."""

    level: str
    column: str
    text: str


def describe(column: str, seen: Evidence, kind: str, declared: str, files: Sequence[Source]) -> list[Finding]:
    """What to tell about a column.

    Args:
      column: its name.
      seen: the evidence of all of the data.
      kind: what it was written as.
      declared: the declared kind, or "".
      files: the files, by source index.
    """
    describer = _Describer(column, seen, files)
    describer.missing(kind)
    if kind == "bytes" and not declared:
        describer.became_text()
    if kind in ("int", "float"):
        describer.numbers(kind)
    for text, count in sorted(seen.notes.items()):
        describer.add("note", f"{text}: {count} values{describer.first(text)}")
    return describer.findings


class _Describer:
    def __init__(self, column: str, seen: Evidence, files: Sequence[Source]) -> None:
        self.findings: list[Finding] = []
        self._column = column
        self._seen = seen
        self._files = files

    def add(self, level: str, text: str) -> None:
        self.findings.append(Finding(level, self._column, text))

    def missing(self, kind: str) -> None:
        seen = self._seen
        if kind == "none":
            self.add("warning", "no row has a value")
        if seen.blanked:
            self.add("note", f"{seen.blanked} values are in the list of missing words{self.first('blanked')}: missing")
        if seen.words and kind in ("int", "float"):
            self.add("note", f"{seen.words} words among numbers mean missing{self.first('words')}: missing")

    def became_text(self) -> None:
        seen = self._seen
        if seen.texts and seen.numbers:
            level = "warning" if seen.numbers >= _MOSTLY_NUMBERS * (seen.numbers + seen.texts) else "note"
            self.add(
                level,
                f"{seen.numbers} values are numbers and {seen.texts} are not{self.first('texts')}{self._header()}: "
                "the whole column is bytes; declare its type, or add the word to na",
            )
        elif seen.otherwise:
            self.add(
                "warning",
                f"values look like numbers, but not in the form 1234.5{self.first('texts')}: the whole column is bytes",
            )
        elif seen.words and not seen.texts:
            self.add(
                "warning",
                f"nothing but words that often mean missing{self.first('words')}: they stay text; if they do, set na",
            )
        elif seen.bigs:
            self.add(
                "warning", f"{seen.bigs} whole numbers are beyond int64{self.first('bigs')}: the whole column is bytes"
            )
        elif seen.losses + seen.overflows:
            self.add(
                "warning",
                f"{seen.losses + seen.overflows} numbers do not fit float32{self.first('losses', 'overflows')}: "
                "the whole column is bytes",
            )

    def _header(self) -> str:
        place = self._seen.firsts.get("texts")
        return ", the header once more" if place is not None and place.value.strip() == self._column else ""

    def numbers(self, kind: str) -> None:
        seen = self._seen
        if kind == "float" and seen.ints and seen.floats:
            self.add("note", f"{seen.ints} whole numbers among {seen.floats} others: the whole column is float")
        if seen.zeros:
            self.add(
                "warning",
                f"{seen.zeros} numbers have leading zeros{self.first('zeros')}, which are gone now; "
                "if they are codes, declare the column as bytes",
            )
        if seen.losses:
            self.add(
                "warning",
                f"{seen.losses} numbers have more digits than float32 keeps{self.first('losses')}; "
                "declare the column as bytes, or set float_loss to bytes or fail",
            )
        if seen.overflows:
            self.add(
                "warning", f"{seen.overflows} numbers are too large for float32{self.first('overflows')}: infinite"
            )

    def first(self, *whats: str) -> str:
        """Where the first of `whats` that was seen at all was first seen."""
        for what in whats:
            place: Place | None = self._seen.firsts.get(what)
            if place is not None:
                return f" (first: {place.value!r} at {self._files[place.source].place(place.line)})"
        return ""
