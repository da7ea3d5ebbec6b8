"""The one interface to a running training cluster, whatever it runs on."""

import dataclasses
from collections.abc import Iterator
from typing import Protocol

from components.trainer import exit_codes


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobResult:
    """How a job ended."""

    exit_code: int
    message: str  # why, in one line, for a person
    traceback: str = ""  # of the task that failed, where it could leave one
    is_explained: bool = False  # the message is all that a person needs to know; nobody has to read the traceback
    was_cancelled: bool = False  # asked to stop from outside
    keeps_work: bool = False  # the same job may go on from its last checkpoint, at once or once a disk has room again
    num_restarts: int = 0

    @property
    def is_done(self) -> bool:
        """Whether every task ended well."""
        return self.exit_code == exit_codes.DONE


class Job(Protocol):
    """A training cluster. `submit` starts it; the other methods may be called from any thread afterwards."""

    def submit(self) -> None:
        """Starts the cluster, or adopts the one that this very job has already started."""

    def wait(self) -> JobResult:
        """Blocks until the job ends, restarts included."""

    def logs(self) -> Iterator[str]:
        """Yields every task's output, line by line and marked with the task, until the job ends."""

    def cancel(self) -> None:
        """Asks the tasks to write a checkpoint and stop; `wait` returns when they have. A second call does not ask."""
