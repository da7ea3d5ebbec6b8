"""The Beam pipeline: chunks of files in, shards out. Single examples never travel through Beam."""

import pickle
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from components.example_gen import chunks, readers, shards, storage
from components.example_gen.chunks import Chunk, Job, Outcome
from components.example_gen.evidence import FEATURE_OF, decide, total
from components.example_gen.local_pool import LocalPool
from components.example_gen.sources import Source

SUMMARY = "summary.pickle"
# Pieces per shard that make shards of balanced size.
_PIECES_PER_SHARD = 4


def build(pipeline: beam.Pipeline, job: Job, inputs: list[tuple[int, Source, readers.Layout]], workers: int) -> None:
    """Adds ingestion to `pipeline`. The result lies in `job.staging` when the pipeline is done.

    Args:
      pipeline: not yet run.
      job: what to do.
      inputs: (index, file, how to read it).
      workers: processes to start on the machine of each Beam worker; 1 means none.
    """
    planned = (
        pipeline
        | "Files" >> beam.Create(inputs)
        | "SpreadFiles" >> beam.Reshuffle()
        | "CutIntoChunks" >> beam.ParDo(_Cut(job))
    )
    count = beam.pvalue.AsSingleton(planned | "CountChunks" >> beam.combiners.Count.Globally())
    first = planned | "SpreadChunks" >> beam.Reshuffle() | "Convert" >> beam.ParDo(_Convert(job, workers), count)
    kinds = beam.pvalue.AsSingleton(
        first | "Evidence" >> beam.Map(_evidence) | "AgreeOnKinds" >> beam.CombineGlobally(_AgreeOnKinds(job))
    )
    final = first | "ConvertAgain" >> beam.ParDo(_ConvertAgain(job, workers), count, kinds)
    plan = final | "Collect" >> beam.CombineGlobally(beam.combiners.ToListCombineFn())
    (
        plan
        | "PlanShards" >> beam.FlatMap(shards.plan, job.config, job.staging)
        | "SpreadShards" >> beam.Reshuffle()
        | "AssembleShards" >> beam.Map(shards.assemble)
        | "CollectShards" >> beam.CombineGlobally(beam.combiners.ToListCombineFn())
        | "Summary" >> beam.Map(_write_summary, beam.pvalue.AsSingleton(plan), job.staging)
    )


def read_summary(staging: str) -> tuple[list[Outcome], list[shards.Shard]]:
    """What the pipeline left: the outcome of every chunk in input order, and the shards."""
    with storage.reading(f"{staging}/{SUMMARY}") as file:
        return pickle.loads(file.read())


def _write_summary(done: list[shards.Shard], outcomes: list[Outcome], staging: str) -> None:
    ordered = sorted(outcomes, key=lambda outcome: (outcome.chunk.source_index, outcome.chunk.number))
    with storage.writing(f"{staging}/{SUMMARY}") as file:
        file.write(pickle.dumps((ordered, sorted(done))))


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


class _Convert(beam.DoFn):
    """Chunks to outcomes, by processes of this machine where there are several."""

    def __init__(self, job: Job, workers: int) -> None:
        self._job = job
        self._workers = workers
        self._pool: LocalPool | None = None
        self._pending: list[tuple[Future, Outcome | None]] = []

    def process(self, chunk: Chunk, num_chunks: int) -> Iterable[Outcome]:
        yield from self._start(chunk, num_chunks, None, None)

    def _start(
        self, chunk: Chunk, num_chunks: int, forced: dict[str, str] | None, first: Outcome | None
    ) -> Iterator[Outcome]:
        parts = -(-_PIECES_PER_SHARD * self._job.config.shards // max(1, num_chunks))
        workers = min(self._workers, num_chunks)
        if workers == 1:
            outcome = chunks.work(self._job, chunk, parts, forced)
            yield outcome.after(first) if first is not None else outcome
            return
        if self._pool is None:
            self._pool = LocalPool(workers)
        self._pending.append((self._pool.submit(chunks.work, self._job, chunk, parts, forced), first))

    def finish_bundle(self) -> Iterator[Any]:
        pending, self._pending = self._pending, []
        for future, first in pending:
            try:
                outcome = future.result()
            except BaseException:
                # Beam does not tear down what fails.
                self.teardown()
                raise
            yield _in_global_window(outcome.after(first) if first is not None else outcome)

    def teardown(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None


class _ConvertAgain(_Convert):
    """Outcomes whose kinds are those of all of the data; a chunk that took other kinds is converted again."""

    def process(  # type: ignore[override]  # Beam passes side inputs as further arguments
        self, outcome: Outcome, num_chunks: int, kinds: dict[str, str]
    ) -> Iterable[Outcome]:
        agrees = all(outcome.kinds.get(name) == kind for name, kind in kinds.items())
        if outcome.error or agrees or not outcome.rows:
            yield outcome
        else:
            yield from self._start(outcome.chunk, num_chunks, kinds, outcome)


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
