"""From an offending row back to the file and line that a person wrote it in."""

import csv
import dataclasses
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from components.data_gate.finding import Verdict
from components.example_gen import streams
from components.example_gen.config import IngestConfig
from components.example_gen.csv_dialect import read_dialect
from components.example_gen.sources import Source, find_sources


def add_lines(verdict: Verdict, patterns: Mapping[str, str], config: IngestConfig) -> Verdict:
    """`verdict` with `line` (counted from 1) and the CSV `file` in samples, where the row is found by its values.

    Args:
      verdict: whose samples name example files and records.
      patterns: split to folder or glob, as ingestion was given them.
      config: what ingestion ran with.

    Raises:
      IngestDataError: the files are not there any more.
    """
    rows = [sample["row"] for finding in verdict.findings for sample in finding.samples]
    if not rows:
        return verdict
    wanted = {_values(row) for row in rows}
    column, seen = _telling_column(rows)
    places: dict[tuple, list[tuple[str, int]]] = {}
    for source in _csv_sources(patterns, config):
        for place, row in _rows(source, config):
            # One column spares nearly all rows the rest.
            if (not column or _normal(row.get(column, "")) in seen) and (values := _values(row)) in wanted:
                places.setdefault(values, []).append((source.name, place))
    findings = []
    for finding in verdict.findings:
        samples = tuple(_placed(sample, places.get(_values(sample["row"]))) for sample in finding.samples)
        findings.append(dataclasses.replace(finding, samples=samples))
    return dataclasses.replace(verdict, findings=tuple(findings))


def _telling_column(rows: Sequence[Mapping[str, Any]]) -> tuple[str, set[str]]:
    """The column in which the rows differ most, of those that all of them have, and its values; "" if there is none."""
    common = set.intersection(*({name for name, _ in _values(row)} for row in rows))
    found = {name: {_normal(row[name]) for row in rows} for name in sorted(common)}
    column = max(found, key=lambda name: len(found[name]), default="")
    return column, found.get(column, set())


def _placed(sample: Mapping[str, Any], places: list[tuple[str, int]] | None) -> Mapping[str, Any]:
    if not places:
        return sample
    # Equal rows are told apart by nothing: the first sample gets the first line, and so on.
    file, line = places.pop(0) if len(places) > 1 else places[0]
    return {"file": file, "line": line, "row": sample["row"]}


def _csv_sources(patterns: Mapping[str, str], config: IngestConfig) -> list[Source]:
    sources, _ = find_sources(dict(patterns), config)
    return [source for source in sources if source.format in ("csv", "tsv")]


def _rows(source: Source, config: IngestConfig) -> Iterator[tuple[int, dict[str, str]]]:
    """(line, fields) of every record, by name."""
    dialect = read_dialect(source, config)
    with streams.plain(source, config.encoding) as file:
        text = io.TextIOWrapper(io.BufferedReader(_Raw(file)), encoding="utf-8-sig", errors="replace", newline="")
        reader = csv.reader(text, delimiter=dialect.delimiter)
        line = 1
        for fields in reader:
            if line >= dialect.first_line and fields:
                yield line, dict(zip(dialect.columns, fields, strict=False))
            line = reader.line_num + 1


class _Raw(io.RawIOBase):
    """Any object with `read(size)` as a raw stream."""

    def __init__(self, file: Any) -> None:
        super().__init__()
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _values(row: Mapping[str, Any]) -> tuple:
    """The row's values in the one form in which text and what was read from it are equal."""
    return tuple(sorted((name, _normal(value)) for name, value in row.items() if value not in (None, "", [])))


def _normal(value: Any) -> str:
    text = str(value).strip()
    if not text or text[0] not in "0123456789-+.nNiI":
        return text
    try:
        return f"{float(np.float32(float(text))):.6g}"  # float32 is what an example holds
    except ValueError:
        return text
