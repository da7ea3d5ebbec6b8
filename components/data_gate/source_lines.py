"""From an offending row back to the file and line that a person wrote it in, whatever format ingestion read.

The files are read and typed once more, by what ingestion itself is made of, and rows are recognised by the hash of all
their values. So a word that means missing, a quoted line end or a date that became a number make no difference.
"""

import collections
import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from components.data_gate.finding import Verdict
from components.data_gate.row_hash import row_hashes
from components.example_gen import arrow_values, declared_types, kinds, readers
from components.example_gen.blocks import Block
from components.example_gen.config import IngestConfig
from components.example_gen.evidence import Place
from components.example_gen.features import FEATURE_KINDS, Column, scalar_column
from components.example_gen.sources import Source, find_sources

_KIND_OF_FEATURE = {feature: kind for kind, feature in FEATURE_KINDS.items()}
# Of these a row names its file itself.
_PICTURES = ("images", "arrays")
_LINES = ("csv", "jsonl")
_LONGEST_TEXT = 200


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ingested:
    """One ingestion, as far as it takes to find a row again.

    Attributes:
      patterns: split ("" unless splits are by file) to folder or glob, as ingestion was given them.
      config: what it ran with.
      kinds: the kind that each column was written as: "int", "float", "bytes" or "none".
      split: the split that all of its rows are; "" where it divided them.
    """

    patterns: Mapping[str, str]
    config: IngestConfig
    kinds: Mapping[str, str]
    split: str = ""

    @classmethod
    def from_report(cls, report: Mapping[str, Any], config: IngestConfig) -> "Ingested":
        """From the content of ExampleGen's report.json."""
        columns = {name: _KIND_OF_FEATURE[feature] for name, feature in report["columns"].items()}
        return cls(patterns=report["patterns"], config=config, kinds=columns)


@dataclasses.dataclass(frozen=True)
class _Row:
    """A row of a file: `line` (a row number where the format has no lines), and what is written there by column."""

    split: str
    path: str
    line: int
    is_text: bool
    written: Mapping[str, str]


# Split, example file and record number: one row, whatever finding it is in.
_Record = tuple[str, str, int]


def add_lines(verdict: Verdict, ingestions: Sequence[Ingested]) -> Verdict:
    """`verdict` with the source `file`, `line` (or `record`, of Parquet and the like) and written `text` in samples.

    Args:
      verdict: whose samples name example files and records.
      ingestions: what the examples were made by.

    Raises:
      IngestDataError: the files are not there any more.
    """
    samples = [list(finding.samples) for finding in verdict.findings]
    columns = {finding.feature for finding in verdict.findings if finding.samples}
    found = locate(samples, columns, ingestions)
    findings = tuple(
        dataclasses.replace(
            finding, samples=tuple(_shown(sample, found, finding.feature) for sample in finding.samples)
        )
        for finding in verdict.findings
    )
    return dataclasses.replace(verdict, findings=findings)


def locate(
    samples: Sequence[Sequence[Mapping[str, Any]]], columns: Collection[str], ingestions: Sequence[Ingested]
) -> Callable[[Mapping[str, Any], str], dict[str, Any]]:
    """A function from a sample and a column to {"file", "line" or "record", "text"}, empty where it is not found.

    Args:
      samples: of each finding.
      columns: whose text is wanted.
      ingestions: what the examples were made by.
    """
    records: dict[tuple[str, int], list[_Record]] = collections.defaultdict(list)
    for sample in (sample for group in samples for sample in group):
        record = _record(sample)
        if record not in records[sample["split"], sample["hash"]]:
            records[sample["split"], sample["hash"]].append(record)
    rows: dict[tuple[str, int], list[_Row]] = collections.defaultdict(list)
    for split, hashed, row in _matching(records, columns, ingestions):
        rows[split, hashed].append(row)
    # Equal rows are told apart by nothing: the first sample gets the first line, and so on.
    where: dict[_Record, _Row] = {}
    for key, wanted in records.items():
        where.update(zip(sorted(wanted), rows.get(key, []), strict=False))
    shared = _common_folders({row.path for group in rows.values() for row in group})

    def place(sample: Mapping[str, Any], column: str) -> dict[str, Any]:
        row = where.get(_record(sample))
        if row is None:
            return {}
        found = {"file": "/".join(row.path.split("/")[shared:]), "line" if row.is_text else "record": row.line}
        return found | ({"text": row.written[column]} if column in row.written else {})

    return place


def _common_folders(paths: Collection[str]) -> int:
    """How many folders, or parts of a URL, all paths begin with."""
    levels = zip(*(path.split("/")[:-1] for path in paths), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda names: len(set(names)) == 1, levels))


def _record(sample: Mapping[str, Any]) -> _Record:
    return sample["split"], sample["file"], sample["record"]


def _shown(sample: Mapping[str, Any], place: Callable[..., dict[str, Any]], column: str) -> Mapping[str, Any]:
    found = place(sample, column)
    if not found:
        return sample
    return {"split": sample["split"], **found, "row": sample["row"]}


def _matching(
    records: Mapping[tuple[str, int], Sequence[_Record]], columns: Collection[str], ingestions: Sequence[Ingested]
) -> Iterator[tuple[str, int, _Row]]:
    """Rows whose hash is wanted, as (split of the sample, hash, row), until there are enough."""
    missing = {key: len(wanted) for key, wanted in records.items()}
    for ingested in ingestions:
        for source in _sources(ingested):
            own = ingested.split or source.split
            hashes = np.array([h for split, h in missing if own in ("", split)], np.uint64)
            for block, typed in _blocks(source, ingested) if len(hashes) else ():
                found = row_hashes(typed)
                for row in np.flatnonzero(np.isin(found, hashes)).tolist():
                    for split in [split for split, h in missing if h == int(found[row]) and own in ("", split)]:
                        yield split, int(found[row]), _row(block, row, source, split, columns)
                        missing[split, int(found[row])] -= 1
                if all(count <= 0 for count in missing.values()):
                    return


def _sources(ingested: Ingested) -> list[Source]:
    if ingested.config.of_images:
        return []
    sources, _ = find_sources(dict(ingested.patterns), ingested.config)
    return [source for source in sources if source.format not in _PICTURES]


def _blocks(source: Source, ingested: Ingested) -> Iterator[tuple[Block, pa.RecordBatch]]:
    config = ingested.config
    layout = readers.describe(source, config)
    for span in readers.plan(source, layout, config):
        for block in readers.read(source, layout, span, _columns(source, ingested), config):
            if block.num_rows:
                yield _typed(block, source, ingested)


def _columns(source: Source, ingested: Ingested) -> tuple[str, ...]:
    """Of formats that say first which columns they have, those that were ingested."""
    there = readers.column_names(readers.describe(source, ingested.config))
    return tuple(name for name in ingested.kinds if there is None or name in there)


def _typed(block: Block, source: Source, ingested: Ingested) -> tuple[Block, pa.RecordBatch]:
    """The rows that ingestion took, and what their examples hold as list columns."""
    features = _features(block, source, ingested)
    refused = [rows for _, rows in features.values() if rows is not None and len(rows)]
    if refused:
        block = block.without(sorted(set(np.concatenate(refused).tolist())))
        features = _features(block, source, ingested)
    columns = [column for column, _ in features.values()]
    arrays = [pa.LargeListArray.from_arrays(pa.array(column.offsets), column.values) for column in columns]
    return block, pa.RecordBatch.from_arrays(arrays, list(features))


def _features(block: Block, source: Source, ingested: Ingested) -> dict[str, tuple[Column, np.ndarray | None]]:
    """Each column as ingestion made it, and the rows whose value is not of its declared kind."""
    declared = declared_types.of(ingested.config, tuple(ingested.kinds))
    return {
        name: _feature(block, name, declared.get(name, ""), kind, source, ingested.config)
        for name, kind in ingested.kinds.items()
        if name in block.columns
    }


def _feature(
    block: Block, name: str, declared: str, kind: str, source: Source, config: IngestConfig
) -> tuple[Column, np.ndarray | None]:
    def place(row: int, value: str) -> Place:
        return Place(0, 0, value)  # evidence was given at ingestion; here nobody reads it

    array = block.columns[name]
    if not block.is_text or name in block.typed:
        typed = arrow_values.to_column(array, name, declared or kind, bool(declared), config, place, source.name)
        return typed.column, typed.offenders
    parsed = kinds.convert(array, declared or kind, config, place)
    return scalar_column(parsed.kind, parsed.values), parsed.offenders if declared else None


def _row(block: Block, row: int, source: Source, split: str, columns: Collection[str]) -> _Row:
    written = {}
    if block.is_text:
        written = {
            name: str(block.columns[name][row].as_py())[:_LONGEST_TEXT] for name in columns if name in block.columns
        }
    return _Row(split, source.path, block.line(row), source.format in _LINES, written)
