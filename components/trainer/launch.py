"""Trains: writes the spec, starts the cluster, shows its output, and publishes the model or says why there is none."""

import contextlib
import math
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator

from components.trainer import backends, export
from components.trainer.cluster_config import ClusterConfig
from components.trainer.errors import TrainingConfigError, TrainingError
from components.trainer.job import Job, JobResult
from components.trainer.staging import stage_out
from components.trainer.training_spec import TrainingSpec

# What TensorFlow's native code says at every start, at levels info and warning. It stays in the job's log file.
_CHATTER = re.compile(
    r"(\[\w+ \d+\] )?([IW]\d{4} \d\d:\d\d:\d+\.\d+ +\d+ \S+:\d+\]|WARNING: All log messages before absl::"
    r"|To enable the following instructions:|E0000 \S+ +\d+ cuda_platform\.cc:)"
)
_SAME_REQUEST_SECONDS = 1.0


def launch(spec: TrainingSpec, cluster: ClusterConfig) -> JobResult:
    """Runs one training job to its end. The model is then where `spec.fn_args["serving_model_dir"]` says.

    Raises:
      TrainingError: it did not end well. `exit_code` is 138 or 143 where another try may help.
      TrainingConfigError: it could not be started as configured.
    """
    try:
        prepared = backends.prepare(spec, cluster)
    except OSError as error:
        raise TrainingConfigError(
            f"cannot write to {error.filename or spec.job_dir} ({error.strerror}); training needs a folder there"
        ) from error
    if prepared.note:
        print(prepared.note, file=sys.stderr, flush=True)
    try:
        with _cancelled_by_sigterm(prepared.job):
            prepared.job.submit()
            result = _run(prepared.job)
        if not result.is_done:
            raise _failure(result, cluster.is_distributed)
        export.publish(prepared.spec)
        if prepared.spec is not spec:
            stage_out(spec, prepared.spec)
        return result
    except BaseException:
        export.clear_staging(prepared.spec)
        raise


def _run(job: Job) -> JobResult:
    try:
        for line in job.logs():
            if not _CHATTER.match(line):
                print(line, file=sys.stderr, flush=True)
        return job.wait()
    except BaseException:  # Ctrl-C above all: the workers are told, and waited for, before it goes on
        try:
            job.cancel()
            print(job.wait().message, file=sys.stderr, flush=True)
        except BaseException:  # Ctrl-C again
            job.cancel()
            job.wait()
        raise


def _failure(result: JobResult, is_distributed: bool) -> TrainingError:
    """The error to raise; first the cause is shown, where a person has to look at the code."""
    if result.traceback and not result.is_explained:
        head = "the cause, in the words of the task that failed:\n" if is_distributed else ""
        print(f"{head}{result.traceback.rstrip()}", file=sys.stderr, flush=True)
    message = result.message if result.was_cancelled else f"training failed: {result.message}"
    error = TrainingError(message, result.exit_code, result.keeps_work)
    if result.is_explained and result.traceback:
        error.add_note(result.traceback)  # shown with --debug
    return error


@contextlib.contextmanager
def _cancelled_by_sigterm(job: Job) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return
    told = -math.inf

    def cancel(*_: object) -> None:
        nonlocal told
        # `timeout` and some supervisors tell the process and then its group: that is not asking twice.
        if time.monotonic() - told > _SAME_REQUEST_SECONDS:
            told = time.monotonic()
            job.cancel()

    previous = signal.signal(signal.SIGTERM, cancel)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
