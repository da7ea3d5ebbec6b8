"""Ingestion from patterns to finished splits, with or without a TFX pipeline around it."""

import contextlib
import logging
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from components.example_gen import beam_job, checks, declared_types, duplicates, readers, storage
from components.example_gen.chunks import Job
from components.example_gen.config import IngestConfig
from components.example_gen.errors import IngestConfigError, IngestDataError, IngestFileError
from components.example_gen.local_pool import num_cores
from components.example_gen.result import Result
from components.example_gen.sources import find_sources

# Beam runners that run in this process, where further processes of this machine speed things up.
_IN_PROCESS_RUNNERS = ("FnApiRunner", "SwitchingDirectRunner", "BundleBasedDirectRunner")
# Pieces per shard that make shards of balanced size.
_PIECES_PER_SHARD = 4

_BEAM_SUFFIX = re.compile(r" \[while running '[^']*'\]")

# Given the result and the folder that is about to become the output.
BeforeCommit = Callable[[Result, str], None]


def ingest(
    patterns: dict[str, str],
    output: str,
    config: IngestConfig,
    make_pipeline: Callable[[], Any] | None = None,
    before_commit: BeforeCommit | None = None,
) -> Result:
    """Reads files and leaves `output`/Split-<name>/ folders, whole or not at all.

    Everything is written in a folder beside `output` that takes its name at the very end.

    Args:
      patterns: split ("" unless splits are by file) to folder or glob.
      output: a folder that is new, empty or an earlier ingestion's.
      config: the options.
      make_pipeline: makes the Beam pipeline to run; in this process by default.
      before_commit: called with the result and the folder that will be `output`, while staged files are still there.

    Raises:
      IngestDataError: the data is not fit.
      IngestConfigError: the options do not fit the data, or `output` holds something else.
    """
    start = time.perf_counter()
    output = _output_folder(output)
    sources, skipped = find_sources(patterns, config)
    layouts = [readers.describe(source, config) for source in sources]
    columns = checks.columns_of(sources, layouts, config)
    declared = declared_types.of(config, columns)
    folder, name = os.path.split(output)
    staging = os.path.join(folder, f".{name}-ingesting-{uuid.uuid4().hex[:8]}")
    with storage.naming(output):
        storage.make_folder(os.path.join(staging, "whole"))
    try:
        inputs = list(zip(range(len(sources)), sources, layouts, strict=True))
        with _without_beam(), make_pipeline() if make_pipeline else _local_pipeline() as pipeline:
            num_chunks = sum(readers.estimate_spans(source, layout, config) for _, source, layout in inputs)
            parts = -(-_PIECES_PER_SHARD * config.shards // max(1, num_chunks))
            job = Job(config, columns, declared, staging, parts)
            in_process = type(pipeline.runner).__name__ in _IN_PROCESS_RUNNERS
            # Elsewhere the runner itself has workers.
            workers = min(num_chunks, config.workers or num_cores()) if in_process else config.workers
            beam_job.build(pipeline, job, inputs, max(1, workers), spread=not in_process)
        outcomes, shards = beam_job.read_summary(staging)
        result = Result(sources, skipped, layouts, declared, outcomes, shards, config.split.names)
        result.straddling = duplicates.count(outcomes, config.split.names)
        checks.check(result, config)
        result.seconds = time.perf_counter() - start
        if before_commit is not None:
            before_commit(result, os.path.join(staging, "whole"))
        with storage.naming(output):
            _commit(os.path.join(staging, "whole"), output)
    finally:
        storage.delete_folder(staging)
    return result


def _output_folder(output: str) -> str:
    """Where `output` really is; refuses to replace what is not an ingestion's output."""
    if not storage.is_local(output):
        return output.rstrip("/")
    if not output or os.path.ismount(output):
        raise IngestConfigError(f"the output is {output!r}; name a new folder")
    output = os.path.realpath(output) if os.path.islink(output.rstrip("/")) else output.rstrip("/")
    if os.path.exists(output) and not os.path.isdir(output):
        raise IngestConfigError(f"{output} is a file; name a new folder for the output")
    if os.path.isdir(output):
        strange = [name for name in os.listdir(output) if not name.startswith("Split-") and name not in _OWN_FILES]
        if strange:
            raise IngestConfigError(
                f"{output} holds {strange[0]}, which is not ingestion's; name a new folder for the output"
            )
    return output


_OWN_FILES = ("report.json", "report.html", "quarantine.jsonl")


def _commit(whole: str, output: str) -> None:
    """Gives the finished folder its name. On this machine that is one step; elsewhere files move one by one."""
    if not storage.is_local(output):
        for path, _ in storage.find(f"{whole}/**"):
            storage.rename(path, output + path[len(whole) :])
        return
    retired = f"{whole}-before"
    if os.path.isdir(output) and os.listdir(output):
        storage.rename(output, retired)
    storage.rename(whole, output)


@contextlib.contextmanager
def _without_beam() -> Iterator[None]:
    """Takes away what Beam adds to the messages for people, and the traces that it logs beside them."""
    log = logging.getLogger("apache_beam.runners.common")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    except (IngestDataError, IngestConfigError, IngestFileError) as error:
        raise type(error)(_BEAM_SUFFIX.sub("", str(error))) from None
    except RuntimeError as error:
        if isinstance(error.__context__, KeyboardInterrupt | SystemExit):  # Ctrl-C and SIGTERM end the process
            raise error.__context__ from None
        raise
    finally:
        log.setLevel(level)


def _local_pipeline() -> Any:
    import apache_beam
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner

    return apache_beam.Pipeline(runner=FnApiRunner(), argv=[])
