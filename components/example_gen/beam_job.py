"""The Beam pipeline: chunks of files in, shards out. Single examples never travel through Beam."""

import dataclasses
import pickle
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from components.example_gen import chunks, readers, shards, storage
from components.example_gen.chunks import Chunk, Job, Outcome
from components.example_gen.config import IngestConfig
from components.example_gen.evidence import FEATURE_OF, decide, total
from components.example_gen.local_pool import LocalPool
from components.example_gen.sources import Source

SUMMARY = "summary.pickle"


def build(
    pipeline: beam.Pipeline, job: Job, inputs: list[tuple[int, Source, readers.Layout]], workers: int, spread: bool
) -> None:
    """Adds ingestion to `pipeline`. The result lies in `job.staging` when the pipeline is done.

    Args:
      pipeline: not yet run.
      job: what to do.
      inputs: (index, file, how to read it).
      workers: processes that work at a time on the machine of each Beam worker, that worker among them.
      spread: whether Beam has several machines to spread work over.
    """
    files = _spread(pipeline | "Files" >> beam.Create(inputs), "Files", spread)
    chunks_in = _spread(files | "CutIntoChunks" >> beam.ParDo(_Cut(job)), "Chunks", spread)
    first = chunks_in | "Convert" >> beam.ParDo(_Convert(job, workers))
    kinds = first | "Evidence" >> beam.Map(_evidence) | "AgreeOnKinds" >> beam.CombineGlobally(_AgreeOnKinds(job))
    final = first | "ConvertAgain" >> beam.ParDo(_ConvertAgain(job, workers), beam.pvalue.AsSingleton(kinds))
    once = pipeline | "Once" >> beam.Create([job.staging])
    outcomes = beam.pvalue.AsList(final)
    planned = _spread(once | "PlanShards" >> beam.FlatMap(_plan_shards, job.config, outcomes), "Shards", spread)
    done = planned | "AssembleShards" >> beam.Map(shards.assemble)
    _ = once | "Summary" >> beam.Map(_write_summary, outcomes, beam.pvalue.AsList(done))


def _spread(collection: beam.PCollection, label: str, spread: bool) -> beam.PCollection:
    """`collection`, free to go to any machine."""
    return collection | f"Spread{label}" >> beam.Reshuffle() if spread else collection


def _plan_shards(staging: str, config: IngestConfig, outcomes: list[Outcome]) -> Iterator[shards.Shard]:
    return shards.plan(_ordered(outcomes), config, staging)


def _ordered(outcomes: Iterable[Outcome]) -> list[Outcome]:
    return sorted(outcomes, key=lambda outcome: (outcome.chunk.source_index, outcome.chunk.number))


def read_summary(staging: str) -> tuple[list[Outcome], list[shards.Shard]]:
    """What the pipeline left: the outcome of every chunk in input order, and the shards."""
    with storage.reading(f"{staging}/{SUMMARY}") as file:
        return pickle.loads(file.read())


def _write_summary(staging: str, outcomes: list[Outcome], done: list[shards.Shard]) -> None:
    with storage.writing(f"{staging}/{SUMMARY}") as file:
        file.write(pickle.dumps((_ordered(outcomes), sorted(done))))


def _evidence(outcome: Outcome) -> tuple[dict, bool]:
    return outcome.evidence, bool(outcome.error)


def _in_global_window(value: Any) -> WindowedValue:
    window = GlobalWindow()
    return WindowedValue(value, window.max_timestamp(), (window,))


class _Cut(beam.DoFn):
    """Files to chunks."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def process(self, element: tuple[int, Source, readers.Layout]) -> Iterator[Chunk]:
        source_index, source, layout = element
        for index, span in enumerate(readers.plan(source, layout, self._job.config)):
            yield Chunk(source_index, index, source, layout, span)


@dataclasses.dataclass
class _Pending:
    """A chunk to convert; `future` is None until another process has been asked for it."""

    chunk: Chunk
    forced: dict[str, str] | None
    first: Outcome | None
    future: Future | None = None


class _Convert(beam.DoFn):
    """Chunks to outcomes: by this process, and by others of this machine beside it where `workers` is above 1."""

    def __init__(self, job: Job, workers: int) -> None:
        self._job = job
        self._workers = workers
        self._pool: LocalPool | None = None
        self._pending: list[_Pending] = []

    def process(self, chunk: Chunk) -> Iterable[Outcome]:
        yield from self._start(_Pending(chunk, None, None))

    def _start(self, work: _Pending) -> Iterator[Outcome]:
        if self._workers == 1:
            yield self._convert_here(work)
            return
        if self._pending:  # the first chunk stays here: other processes take half a second to start
            if self._pool is None:
                self._pool = LocalPool(self._workers - 1)
            work.future = self._pool.submit(chunks.work, self._job, work.chunk, work.forced)
        self._pending.append(work)

    def _convert_here(self, work: _Pending) -> Outcome:
        outcome = chunks.work(self._job, work.chunk, work.forced)
        return outcome.after(work.first) if work.first is not None else outcome

    def finish_bundle(self) -> Iterator[Any]:
        pending, self._pending = self._pending, []
        try:
            # The others take chunks from the front, this process from the back, until none is left untaken.
            here = [
                self._convert_here(work)
                for work in [*pending[:1], *reversed(pending[1:])]
                if work.future is None or work.future.cancel()
            ]
            there = [
                (work.first, work.future.result()) for work in pending if work.future and not work.future.cancelled()
            ]
        except BaseException:
            # Beam does not tear down what fails.
            self.teardown()
            raise
        yield from map(_in_global_window, here)
        for first, outcome in there:
            yield _in_global_window(outcome.after(first) if first is not None else outcome)

    def teardown(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None


class _ConvertAgain(_Convert):
    """Outcomes whose kinds are those of all of the data; a chunk that took other kinds is converted again."""

    def process(  # type: ignore[override]  # Beam passes side inputs as further arguments
        self, outcome: Outcome, kinds: dict[str, str]
    ) -> Iterable[Outcome]:
        agrees = all(outcome.kinds.get(name) == kind for name, kind in kinds.items())
        if outcome.error or agrees or not outcome.rows:
            yield outcome
        else:
            yield from self._start(_Pending(outcome.chunk, kinds, outcome))


class _AgreeOnKinds(beam.CombineFn):
    """Evidence of all chunks to one kind per inferred column."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def create_accumulator(self) -> dict:
        return {}

    def add_input(self, accumulator: dict, element: tuple[dict, bool]) -> dict:
        return self.merge_accumulators([accumulator, element[0]])

    def merge_accumulators(self, accumulators: Iterable[dict]) -> dict:
        gathered: dict[str, list] = {}
        for accumulator in accumulators:
            for name, evidence in accumulator.items():
                gathered.setdefault(name, []).append(evidence)
        return {name: total(evidences) for name, evidences in gathered.items()}

    def extract_output(self, accumulator: dict) -> dict[str, str]:
        declared, float_loss = self._job.declared, self._job.config.float_loss
        return {
            name: FEATURE_OF[declared[name]] if name in declared else decide(seen, float_loss)
            for name, seen in accumulator.items()
        }
