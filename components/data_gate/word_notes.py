"""Words that ingestion took for missing values: the gate sees no value there, and a person may have meant NaN."""

from collections.abc import Iterable, Mapping
from typing import Any

# What ingestion's report says of them.
_SIGNS = ("words among numbers mean missing", "are in the list of missing words")
_ADVICE = "a word such as nan or NA in a number column counts as missing, not as NaN (ingest.na lists the words)"


def missing_words(report: Mapping[str, Any]) -> list[str]:
    """One note for each column of ExampleGen's report in which a word was read as no value."""
    notes: Iterable[str] = report.get("notes", ())
    return [f"{note}; {_ADVICE}" for note in notes if any(sign in note for sign in _SIGNS)]
