"""One local task: a process in a group of its own, whose output is read line by line and whose end is an event."""

import contextlib
import os
import pathlib
import signal
import threading
from collections.abc import Callable, Mapping

from components import prestart
from components.trainer import exit_codes, parent_watch

KIND = prestart.Kind("components.trainer.worker", ("tensorflow", "tf_keras"), merges_stderr=True)
_LAST_WORDS_SECONDS = 5.0


class WorkerProcess:
    """Started on construction. Nothing it starts itself outlives `kill`."""

    def __init__(
        self,
        task: str,
        spec_path: pathlib.Path,
        env: Mapping[str, str],
        on_line: Callable[[str], None],
        on_exit: Callable[["WorkerProcess"], None],
    ):
        """Starts the process.

        Args:
          task: such as "worker-0".
          spec_path: the TrainingSpec file.
          env: the whole environment of the process.
          on_line: called from a thread with each line of output.
          on_exit: called from a thread when the process has ended and its output was read.
        """
        self.task = task
        self.exit_code: int | None = None
        self._on_line = on_line
        self._on_exit = on_exit
        self._process = prestart.launch(KIND, [str(spec_path)], {**env, parent_watch.FD_VARIABLE: "0"})
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reaper = threading.Thread(target=self._reap, daemon=True)
        self._reader.start()
        self._reaper.start()

    @property
    def pid(self) -> int:
        """Process id, which is also its group's."""
        return self._process.pid

    def terminate(self) -> None:
        """Asks for a last checkpoint and an end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the process and all it has started, now."""
        self._signal(signal.SIGKILL)

    def join(self) -> None:
        """Waits until the process is gone."""
        self._reaper.join()

    def _signal(self, number: int) -> None:
        if self.exit_code is None:
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                return  # it ended a moment ago; `_reap` is about to say so

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                self._on_line(line.decode("utf-8", errors="replace").rstrip("\n"))

    def _reap(self) -> None:
        # The process is left unreaped while its group is cleaned up, so that its group id cannot be anybody else's.
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        # Neither error matters: nothing is left in the group (macOS says EPERM for a group of zombies).
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self.exit_code = exit_codes.from_returncode(self._process.wait())
        # A daemon that run_fn has started, in a session of its own, may keep the pipe open for ever.
        self._reader.join(timeout=_LAST_WORDS_SECONDS)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._on_exit(self)
