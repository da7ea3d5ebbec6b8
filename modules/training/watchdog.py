"""Notices when nothing moves any more.

A worker that is alive but hung keeps its connections open, so TensorFlow's collectives wait for it for ever. Only the
lack of finished steps shows it. Every worker watches itself: the hung one and those that wait for it all end with 138.
"""

import contextlib
import faulthandler
import os
import pathlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

from modules.training.cluster import ClusterSpec, unreachable_peers
from modules.training.errors import PEER_LOST


class Watchdog:
    """Ends the process with 138 when `progress()` returns the same value for too long.

    A phase ("startup", "training", "export") says what is going on and how long it may take without progress.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        progress: Callable[[], object] = lambda: None,
        on_stall: Callable[[str], None] | None = None,
    ):
        self._cluster = cluster
        self.progress = progress
        self._on_stall = on_stall or _die
        self._phase, self._timeout_s = "startup", 0.0
        self._changed = time.monotonic()
        self._seen: tuple[str, object] = ("", None)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def watching(self) -> Iterator["Watchdog"]:
        """Runs the watchdog's thread for the duration of the block."""
        self._thread = threading.Thread(target=self._watch, name="stall-watchdog", daemon=True)
        self._thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            self._thread.join()

    def enter(self, phase: str, timeout_s: float) -> None:
        """Begins a phase; `timeout_s` of 0 means that it may take any time."""
        self._phase, self._timeout_s = phase, timeout_s
        self._changed = time.monotonic()

    def _watch(self) -> None:
        while not self._stop.wait(0.5):
            value = (self._phase, self.progress())
            now = time.monotonic()
            if value != self._seen:
                self._seen, self._changed = value, now
                _beat()
            elif self._timeout_s and now - self._changed > self._timeout_s:
                self._on_stall(self._message(now - self._changed))
                return

    def _message(self, waited_s: float) -> str:
        text = f"{self._cluster.name}: no progress for {waited_s:.0f} s in {self._phase} (at {self._seen[1]})"
        missing = unreachable_peers(self._cluster)
        if missing:
            return f"{text}; no answer from {'; '.join(f'{peer}: {reason}' for peer, reason in missing.items())}"
        if self._cluster.num_workers > 1:
            return f"{text}; all peers answer, so one of them hangs: see which log stopped first"
        return text


def _beat() -> None:
    """Dates the file that the liveness probe of a pod looks at; without one nobody looks."""
    path = os.environ.get("SLUICE_HEARTBEAT_FILE")
    if not path:
        return
    try:
        pathlib.Path(path).touch()
    except OSError as error:
        # The probe finds an old file and restarts the worker; that is for the log to explain, not for this thread.
        print(f"warning: cannot write the heartbeat file {path}: {error}", file=sys.stderr, flush=True)


def _die(message: str) -> None:
    """Says why and ends at once: a thread that hangs in a collective cannot be unwound."""
    print(f"error: {message}", file=sys.stderr, flush=True)
    faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
    sys.stderr.flush()
    os._exit(PEER_LOST)
