"""What every kind of training job has in common: a thread that supervises it, lines to follow, restarts, a result."""

import abc
import dataclasses
import pathlib
import threading
import time
from collections.abc import Iterator

from components.trainer import exit_codes
from components.trainer.cluster_config import ClusterConfig
from components.trainer.failure import cancelled, too_late
from components.trainer.job import JobResult
from components.trainer.log_book import LogBook


class SupervisedJob(abc.ABC):
    """See `components.trainer.job.Job`. A subclass says what one attempt is, and how to wait before the next one."""

    _whom = "workers"  # are restarted, in the words of the log

    def __init__(self, cluster: ClusterConfig, log_path: pathlib.Path):
        self._cluster = cluster
        self._log = LogBook(log_path)
        self._deadline = float("inf")
        self._result: JobResult | None = None
        self._error: BaseException | None = None
        # Everything is started and awaited by this one thread: to the kernel, it is the parent of local workers.
        self._supervisor = threading.Thread(target=self._supervise, name="training-supervisor", daemon=True)

    def submit(self) -> None:
        """Starts the job."""
        if self._cluster.deadline_seconds:
            self._deadline = time.monotonic() + self._cluster.deadline_seconds
        self._supervisor.start()

    def wait(self) -> JobResult:
        """Blocks until the last attempt has ended and nothing of it is left."""
        self._supervisor.join()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def logs(self) -> Iterator[str]:
        """Yields the lines of all tasks."""
        return self._log.follow()

    @abc.abstractmethod
    def _run_attempt(self, attempt: int) -> JobResult:
        """Starts all tasks (the first attempt is 0) and waits for their end."""

    @abc.abstractmethod
    def _pause(self, seconds: float) -> None:
        """Waits between two attempts, or until nothing is to be awaited any more."""

    @abc.abstractmethod
    def _is_cancelled(self) -> bool:
        """Whether somebody has asked the job to stop."""

    def _may_restart(self, result: JobResult) -> bool:
        return exit_codes.is_retryable(result.exit_code)

    def _is_over(self) -> bool:
        return self._is_cancelled() or time.monotonic() >= self._deadline

    def _supervise(self) -> None:
        try:
            self._result = self._run_attempts()
        except BaseException as error:
            self._error = error
        finally:
            self._log.close()

    def _run_attempts(self) -> JobResult:
        cluster, attempt = self._cluster, 0
        while True:
            result = self._run_attempt(attempt)
            if result.is_done or not self._may_restart(result) or self._is_over():
                return result
            if attempt == cluster.max_restarts:
                note = f"gave up after {attempt} restarts (cluster: max_restarts)"
                return dataclasses.replace(result, message=f"{result.message}; {note}")
            delay = min(cluster.restart_backoff_seconds * 2**attempt, cluster.max_restart_backoff_seconds)
            attempt += 1
            for line in () if result.is_explained else result.traceback.splitlines():
                self._log.append(line)
            self._log.append(
                f"restart {attempt} of {cluster.max_restarts} of all {self._whom} in {delay:g} s: {result.message}"
            )
            self._pause(delay)
            if self._is_over():
                return cancelled(attempt) if self._is_cancelled() else too_late(attempt)
