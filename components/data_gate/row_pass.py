"""The one pass over rows: offending rows of the findings, and rows that are in two splits. Runs on any Beam runner.

Each element is a file; what comes out of it is small: counts, a few sample rows, and hashes of a bounded sample.
"""

import dataclasses
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa

from components.data_gate import example_files, iso_time, record_blocks, row_hash
from components.data_gate.row_question import RowQuestion

_BATCH_ROWS = 4096


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowPass:
    """What to look for.

    `files` is by split, the training split first. Rows are compared between splits when `one_in` is above 0: those
    whose content falls into one of `one_in` classes, which estimates the share of all. Rows are equal when their
    `columns` are; empty means all columns. `time_text` is a column of ISO 8601 text whose range is wanted.
    """

    files: Mapping[str, tuple[str, ...]]
    questions: tuple[RowQuestion, ...] = ()
    one_in: int = 0
    key: tuple[str, ...] = ()
    max_samples: int = 0
    columns: tuple[str, ...] = ()
    time_text: str = ""

    @property
    def elements(self) -> list[tuple[str, str]]:
        """(split, file) for every file that somebody asks about."""
        asked = {question.split for question in self.questions}
        everywhere = bool(self.one_in or self.time_text)
        return [(split, file) for split, files in self.files.items() if everywhere or split in asked for file in files]


@dataclasses.dataclass(frozen=True)
class RowAnswer:
    """How many rows offend, and some of them."""

    rows: int
    samples: tuple[Mapping[str, Any], ...]


@dataclasses.dataclass(frozen=True)
class SharedRows:
    """Of `compared` rows of a split, how many are in the training split too."""

    compared: int
    shared: int
    samples: tuple[Mapping[str, Any], ...]


@dataclasses.dataclass(frozen=True)
class TimeSpan:
    """Oldest and newest time of a split in seconds since 1970, and how many texts are no time at all."""

    oldest: float
    newest: float
    unreadable: int


@dataclasses.dataclass(frozen=True)
class RowResult:
    """`answers` in the order of the questions; the others by split."""

    answers: list[RowAnswer]
    shared: dict[str, SharedRows]
    times: dict[str, TimeSpan]


def run(task: RowPass, pipeline: beam.Pipeline, out: str) -> RowResult:
    """What is found in the rows.

    Args:
      task: what to look for.
      pipeline: not yet run; this runs it and waits.
      out: path of a file that the workers can write and this process can read; holds the raw answers as JSON.
    """
    with pipeline as p:
        _ = (
            p
            | "Files" >> beam.Create(task.elements)
            | "Spread" >> beam.Reshuffle()
            | "Read" >> beam.ParDo(_ReadFile(task))
            | "Gather" >> beam.CombineGlobally(_Gather(task))
            | "Write" >> beam.Map(_write, out)
        )
    with example_files.tf.io.gfile.GFile(out) as file:
        found = json.load(file)
    answers = [RowAnswer(rows, tuple(samples)) for rows, samples in zip(found["rows"], found["samples"], strict=True)]
    shared = {
        split: SharedRows(item["compared"], item["shared"], tuple(_samples(task, split, item["where"])))
        for split, item in found["shared"].items()
    }
    return RowResult(answers, shared, {split: TimeSpan(*span) for split, span in found["times"].items()})


def _write(found: dict[str, Any], out: str) -> None:
    with example_files.tf.io.gfile.GFile(out, "w") as file:
        file.write(json.dumps(found))


class _ReadFile(beam.DoFn):
    """From one file: {"rows": counts, "samples": lists, "hashes": [(split, file, hashes, record numbers)], "times"}."""

    def __init__(self, task: RowPass):
        self._task = task

    def process(self, element: tuple[str, str]) -> Iterator[dict[str, Any]]:
        split, path = element
        task = self._task
        questions = [(i, q) for i, q in enumerate(task.questions) if q.split == split]
        rows = [0] * len(task.questions)
        samples: list[list[dict]] = [[] for _ in task.questions]
        chosen: list[bytes] = []
        hashes: list[np.ndarray] = []
        times: dict[str, list] = {}
        places, first = [np.zeros(0, np.int64)], 0
        for block in record_blocks.blocks(path):
            if questions:
                batch = example_files.decode(block.records(range(len(block))))
                for i, question in questions:
                    offending = question.offending(batch)
                    rows[i] += len(offending)
                    for row in offending[: task.max_samples - len(samples[i])]:
                        samples[i].append(_sample(task, split, path, first + int(row), batch, int(row)))
            if task.one_in and task.columns:
                values = _hashes(block.records(range(len(block))), task.columns)
                here = np.flatnonzero(values % np.uint64(task.one_in) == 0)
                hashes.append(values[here])
                places.append(first + here)
            elif task.one_in:
                here = _chosen(block, task.one_in)
                chosen += block.records(here)
                places.append(first + here)
            if task.time_text:
                column = example_files.decode_text(block.records(range(len(block))), task.time_text)
                times = _joined(times, {split: _span(iso_time.seconds_of_column(column.flatten()))})
            first += len(block)
        if chosen:
            hashes.append(_hashes(chosen))
        found = [(split, path, np.concatenate(hashes), np.concatenate(places))] if hashes else []
        yield {"rows": rows, "samples": samples, "hashes": found, "times": times}


def _span(seconds: np.ndarray) -> list:
    """[oldest, newest, number of NaN]; infinities where there is no time."""
    known = seconds[~np.isnan(seconds)]
    oldest, newest = known.min(initial=math.inf), known.max(initial=-math.inf)
    return [float(oldest), float(newest), len(seconds) - len(known)]


def _joined(one: dict[str, list], other: dict[str, list]) -> dict[str, list]:
    result = dict(one)
    for split, (oldest, newest, unreadable) in other.items():
        low, high, count = result.get(split, [math.inf, -math.inf, 0])
        result[split] = [min(low, oldest), max(high, newest), count + unreadable]
    return result


def _chosen(block: record_blocks.Block, one_in: int) -> np.ndarray:
    if one_in == 1:
        return np.arange(len(block))
    return np.flatnonzero(row_hash.byte_sums(block) % np.uint64(one_in) == 0)


def _hashes(records: Sequence[bytes], columns: tuple[str, ...] = ()) -> np.ndarray:
    batches = (example_files.decode(records[i : i + _BATCH_ROWS]) for i in range(0, len(records), _BATCH_ROWS))
    return np.concatenate([row_hash.row_hashes(_only(batch, columns) if columns else batch) for batch in batches])


def _only(batch: pa.RecordBatch, columns: tuple[str, ...]) -> pa.RecordBatch:
    """Those of `columns` that the batch has; one that no row of it has is absent, as it is in a hash of all columns."""
    return batch.select([name for name in columns if name in batch.schema.names])


class _Gather(beam.CombineFn):
    def __init__(self, task: RowPass):
        self._task = task

    def create_accumulator(self) -> dict[str, Any]:
        questions = self._task.questions
        return {"rows": [0] * len(questions), "samples": [[] for _ in questions], "hashes": [], "times": {}}

    def add_input(self, accumulator: dict[str, Any], element: dict[str, Any]) -> dict[str, Any]:
        return self.merge_accumulators([accumulator, element])

    def merge_accumulators(self, accumulators: Iterable[dict[str, Any]]) -> dict[str, Any]:
        merged = self.create_accumulator()
        for accumulator in accumulators:
            for i, rows in enumerate(accumulator["rows"]):
                merged["rows"][i] += rows
                merged["samples"][i] = (merged["samples"][i] + accumulator["samples"][i])[: self._task.max_samples]
            merged["hashes"] += accumulator["hashes"]
            merged["times"] = _joined(merged["times"], accumulator["times"])
        return merged

    def extract_output(self, accumulator: dict[str, Any]) -> dict[str, Any]:
        shared = _shared(self._task, accumulator["hashes"])
        return {key: accumulator[key] for key in ("rows", "samples", "times")} | {"shared": shared}


def _shared(task: RowPass, hashes: Sequence[tuple[str, str, np.ndarray, np.ndarray]]) -> dict[str, Any]:
    """For every split but the first: rows compared, rows that the first one has too, and where some of them are."""
    if not task.one_in:
        return {}
    reference, *others = task.files
    known = np.concatenate([np.zeros(0, np.uint64), *(h for split, _, h, _ in hashes if split == reference)])
    result: dict[str, Any] = {}
    for other in others:
        where: list[tuple[str, int]] = []
        compared, shared = 0, 0
        for split, path, values, places in hashes:
            if split == other:
                inside = np.isin(values, known)
                compared += len(values)
                shared += int(inside.sum())
                where += [(path, int(place)) for place in places[inside][: task.max_samples - len(where)]]
        result[other] = {"compared": compared, "shared": shared, "where": where}
    return result


def _samples(task: RowPass, split: str, where: Sequence[tuple[str, int]]) -> Iterator[dict[str, Any]]:
    """The rows at (file, record number)."""
    wanted: dict[str, set[int]] = {}
    for path, place in where:
        wanted.setdefault(path, set()).add(place)
    for path, places in wanted.items():
        first = 0
        for block in record_blocks.blocks(path):
            here = [place for place in sorted(places) if first <= place < first + len(block)]
            if here:
                batch = example_files.decode(block.records(place - first for place in here))
                for i, place in enumerate(here):
                    yield _sample(task, split, path, place, batch, i)
            first += len(block)


def _sample(task: RowPass, split: str, path: str, place: int, batch: pa.RecordBatch, row: int) -> dict[str, Any]:
    """One offending row: split, file, record number counted from 1, the hash of its content, and its values."""
    values = example_files.row_as_dict(batch, row, task.key)
    (hashed,) = row_hash.row_hashes(batch.slice(row, 1)).tolist()
    return {"split": split, "file": os.path.basename(path), "record": place + 1, "hash": hashed, "row": values}
