"""From an offending row back to the file and line that a person wrote it in."""

import csv
import dataclasses
import io
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from components.data_gate.finding import Verdict
from components.example_gen import streams
from components.example_gen.config import IngestConfig
from components.example_gen.csv_dialect import read_dialect
from components.example_gen.errors import IngestDataError
from components.example_gen.sources import Source, find_sources


def add_lines(verdict: Verdict, folder: str, config: IngestConfig) -> Verdict:
    """`verdict` with `line` (counted from 1) and the CSV `file` in samples, where the row is found in `folder`."""
    wanted = {_values(sample["row"]): None for finding in verdict.findings for sample in finding.samples}
    if not wanted:
        return verdict
    places: dict[tuple, list[tuple[str, int]]] = {}
    for source in _csv_sources(folder, config):
        for place, row in _rows(source, config):
            values = _values(row)
            if values in wanted:
                places.setdefault(values, []).append((source.name, place))
    findings = []
    for finding in verdict.findings:
        samples = tuple(_placed(sample, places.get(_values(sample["row"]))) for sample in finding.samples)
        findings.append(dataclasses.replace(finding, samples=samples))
    return dataclasses.replace(verdict, findings=tuple(findings))


def _placed(sample: Mapping[str, Any], places: list[tuple[str, int]] | None) -> Mapping[str, Any]:
    if not places:
        return sample
    # Equal rows are told apart by nothing: the first sample gets the first line, and so on.
    file, line = places.pop(0) if len(places) > 1 else places[0]
    return {"file": file, "line": line, "row": sample["row"]}


def _csv_sources(folder: str, config: IngestConfig) -> list[Source]:
    try:
        sources, _ = find_sources({"": folder}, config)
    except IngestDataError:  # folders named after splits
        sources, _ = find_sources({"": f"{folder}/*"}, config)
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
