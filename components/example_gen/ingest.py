"""Ingestion from patterns to finished splits, with or without a TFX pipeline around it."""

import dataclasses
import functools
import os
import time
import uuid
from collections.abc import Callable
from typing import Any

from components.example_gen import beam_job, readers, storage
from components.example_gen.chunks import Job, Outcome
from components.example_gen.config import IngestConfig
from components.example_gen.errors import IngestConfigError, IngestDataError
from components.example_gen.evidence import Evidence, total
from components.example_gen.findings import Finding, describe
from components.example_gen.shards import Shard
from components.example_gen.sources import Source, find_sources


@dataclasses.dataclass
class Result:
    """What was read and written.

    Attributes:
      sources: the files.
      skipped: files left out, as (path, why).
      layouts: how each file is laid out.
      declared: column to declared kind.
      outcomes: per chunk, in input order.
      shards: what was written.
      seconds: from the first look at a file to the last rename.
    """

    sources: list[Source]
    skipped: list[tuple[str, str]]
    layouts: list[readers.Layout]
    declared: dict[str, str]
    outcomes: list[Outcome]
    shards: list[Shard]
    seconds: float = 0.0

    @functools.cached_property
    def evidence(self) -> dict[str, Evidence]:
        """What was seen in each column, over all chunks."""
        names = dict.fromkeys(name for outcome in self.outcomes for name in outcome.evidence)
        return {
            name: total(outcome.evidence[name] for outcome in self.outcomes if name in outcome.evidence)
            for name in names
        }

    @functools.cached_property
    def kinds(self) -> dict[str, str]:
        """The kind each column was written as."""
        return {name: kind for outcome in self.outcomes if outcome.rows for name, kind in outcome.kinds.items()}

    @functools.cached_property
    def findings(self) -> list[Finding]:
        """What there is to tell about the columns."""
        files = [source.name for source in self.sources]
        found: list[Finding] = []
        for source, layout in zip(self.sources, self.layouts, strict=True):
            for name in getattr(layout, "unnamed", ()):
                found.append(Finding("warning", name, f"has no name in {source.name}; it was given this one"))
        for name, kind in self.kinds.items():
            found += describe(name, self.evidence[name], kind, self.declared.get(name, ""), files)
        return found

    @property
    def stage_seconds(self) -> dict[str, float]:
        """Seconds of all processes together, per stage of the work."""
        totals: dict[str, float] = {}
        for outcome in self.outcomes:
            for stage, seconds in outcome.seconds.items():
                totals[stage] = totals.get(stage, 0.0) + seconds
        return totals

    @property
    def rows(self) -> dict[str, int]:
        """Rows per split."""
        totals: dict[str, int] = {}
        for shard in self.shards:
            totals[shard.split] = totals.get(shard.split, 0) + shard.rows
        return totals


def ingest(
    patterns: dict[str, str],
    output: str,
    config: IngestConfig,
    make_pipeline: Callable[[], Any] | None = None,
    before_commit: Callable[[Result], None] | None = None,
) -> Result:
    """Reads files and leaves `output`/Split-<name>/ folders, whole or not at all.

    Args:
      patterns: split ("" unless splits are by file) to folder or glob.
      output: an existing or new folder for the Split- folders.
      config: the options.
      make_pipeline: makes the Beam pipeline to run; in this process by default.
      before_commit: called with the result while staged files are still there.

    Raises:
      IngestDataError: the data is not fit.
      IngestConfigError: the options do not fit the data.
    """
    start = time.perf_counter()
    sources, skipped = find_sources(patterns, config)
    layouts = [readers.describe(source, config) for source in sources]
    columns = _columns(sources, layouts, config)
    declared = {name: kind for name, kind in config.types.items() if name in columns or not columns}
    staging = f"{output.rstrip('/')}/_ingesting-{uuid.uuid4().hex[:8]}"
    job = Job(config, columns, declared, staging)
    storage.make_folder(staging)
    try:
        inputs = list(zip(range(len(sources)), sources, layouts, strict=True))
        with make_pipeline() if make_pipeline else _local_pipeline() as pipeline:
            beam_job.build(pipeline, job, inputs, _num_workers(config, pipeline))
        outcomes, shards = beam_job.read_summary(staging)
        result = Result(sources, skipped, layouts, declared, outcomes, shards)
        check(result, config)
        if before_commit is not None:
            before_commit(result)
        _commit(result, output, config)
    finally:
        storage.delete_folder(staging)
    result.seconds = time.perf_counter() - start
    return result


def check(result: Result, config: IngestConfig) -> None:
    """Raises for what must not pass: a chunk that failed, a bad row, no rows, an empty split."""
    for outcome in result.outcomes:
        if outcome.error:
            raise IngestDataError(outcome.error)
    if config.bad_rows == "fail":
        _refuse_bad_rows(result)
    if config.float_loss == "fail":
        _refuse_float_losses(result)
    names = ", ".join(source.name for source in result.sources[:5])
    if not sum(result.rows.values()):
        raise IngestDataError(f"0 rows in {names}: only a header, or no records at all")
    for name in config.split.names:
        if not result.rows.get(name):
            raise IngestDataError(
                f"split {name!r} is empty: of {sum(result.rows.values())} rows all went to "
                f"{', '.join(result.rows)}; are rows or groups all alike? Change split.by, weights, cuts or seed"
            )


def _refuse_float_losses(result: Result) -> None:
    for finding in result.findings:
        seen = result.evidence[finding.column]
        if result.kinds[finding.column] == "float" and seen.losses + seen.overflows and "float32" in finding.text:
            raise IngestDataError(f"column {finding.column!r}: {finding.text}")


def _refuse_bad_rows(result: Result) -> None:
    count = sum(outcome.num_bad_rows for outcome in result.outcomes)
    for outcome in result.outcomes:
        if outcome.num_bad_rows:
            row = outcome.bad_rows[0]
            more = f" ({count - 1} more bad rows)" if count > 1 else ""
            raise IngestDataError(
                f"{outcome.chunk.source.name}:{row.line}: {row.reason}: {row.text[:200]!r}{more}; "
                "correct it, or set bad_rows to skip or quarantine"
            )


def _columns(sources: list[Source], layouts: list[readers.Layout], config: IngestConfig) -> tuple[str, ...]:
    """The columns to write, or () where only reading tells; raises where files differ or options name others."""
    first = readers.column_names(layouts[0])
    if first is None:
        return ()
    for source, layout in zip(sources, layouts, strict=True):
        names = readers.column_names(layout) or ()
        extra, lacking = set(names) - set(first), set(first) - set(names)
        if extra or lacking:
            has = f" has {', '.join(sorted(extra))}" if extra else ""
            lacks = f" lacks {', '.join(sorted(lacking))}" if lacking else ""
            raise IngestDataError(f"{source.name}: columns differ from those of {sources[0].name}:{has}{lacks}")
    check_names(first, config, sources[0].name)
    kept = tuple(name for name in first if (not config.keep or name in config.keep) and name not in config.drop)
    if not kept:
        raise IngestConfigError("keep and drop leave no column")
    return kept


def check_names(columns: tuple[str, ...], config: IngestConfig, where: str) -> None:
    """Raises where options name a column that is not there."""
    for option, names in (("types", config.types), ("keep", config.keep), ("drop", config.drop)):
        unknown = [name for name in names if name not in columns]
        if unknown:
            raise IngestConfigError(f"{option}: no column {unknown[0]!r} in {where}; it has {', '.join(columns)}")


def _commit(result: Result, output: str, config: IngestConfig) -> None:
    """Moves the finished shards out of staging: a folder at a time, so that no split is ever half there."""
    for split in config.split.names:
        target = f"{output.rstrip('/')}/Split-{split}"
        if storage.is_local(output):
            storage.delete_folder(target)
            staged = next(shard.path for shard in result.shards if shard.split == split).rsplit("/", 1)[0]
            storage.rename(staged, target)
        else:
            for shard in result.shards:
                if shard.split == split:
                    storage.rename(shard.path, f"{target}/{shard.name}")


def _local_pipeline() -> Any:
    import apache_beam
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner

    return apache_beam.Pipeline(runner=FnApiRunner(), argv=[])


def _num_workers(config: IngestConfig, pipeline: Any) -> int:
    """Processes to start beside Beam: only where Beam itself runs in this process."""
    in_process = type(pipeline.runner).__name__ in ("FnApiRunner", "SwitchingDirectRunner", "BundleBasedDirectRunner")
    if not in_process:
        return max(1, config.workers)
    return config.workers or len(os.sched_getaffinity(0))
