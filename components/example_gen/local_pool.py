"""Processes of this machine for chunk work, started without re-importing the program that started them.

multiprocessing's spawn runs the caller's main module again in each child, which a user's script may not survive, and
fork copies TensorFlow's threads in whatever state they are. These workers import only what chunk work needs.
"""

import os
import pathlib
import pickle
import queue
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, Any

_ROOT = str(pathlib.Path(__file__).resolve().parents[2])


_CPU_QUOTA = pathlib.Path("/sys/fs/cgroup/cpu.max")


def num_cores() -> int:
    """The cores this process may use: of the machine, of its affinity, and of its container's CPU limit."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = _CPU_QUOTA.read_text().split()[:2]
    except (OSError, ValueError):  # no container, or another kernel
        return cores
    return cores if quota == "max" else max(1, min(cores, round(int(quota) / int(period))))


class LocalPool:
    """Runs picklable functions in `num_workers` processes. They end when the pool is closed or this process dies."""

    def __init__(self, num_workers: int) -> None:
        self._threads = ThreadPoolExecutor(num_workers, thread_name_prefix="ingest")
        self._idle: queue.SimpleQueue[subprocess.Popen] = queue.SimpleQueue()
        path = os.pathsep.join([_ROOT, *(entry for entry in sys.path if entry)])
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "components.example_gen.local_pool"]
        self._processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
            for _ in range(num_workers)
        ]
        for process in self._processes:
            self._idle.put(process)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        """Starts `function(*arguments)` in a worker that is or becomes idle."""
        return self._threads.submit(self._call, pickle.dumps((function, arguments)))

    def _call(self, request: bytes) -> Any:
        process = self._idle.get()
        try:
            _send(process.stdin, request)
            answer = _receive(process.stdout)
        finally:
            self._idle.put(process)
        if answer is None:
            raise RuntimeError(
                f"an ingestion process ended with exit code {process.wait()}; "
                "if it was killed for memory, set a smaller chunk_bytes or fewer workers"
            )
        failed, result = pickle.loads(answer)
        if failed:
            raise result
        return result

    def close(self) -> None:
        """Ends the workers."""
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            # Reads what is left, closes the pipes and waits: a worker ends where its input does.
            process.communicate()


def _send(pipe: IO[bytes] | None, message: bytes) -> None:
    assert pipe is not None
    pipe.write(struct.pack("<Q", len(message)) + message)
    pipe.flush()


def _receive(pipe: IO[bytes] | None) -> bytes | None:
    assert pipe is not None
    head = pipe.read(8)
    if len(head) < 8:
        return None
    (length,) = struct.unpack("<Q", head)
    message = pipe.read(length)
    return message if len(message) == length else None


def _serve() -> None:
    """Answers requests on standard input until it is closed. What the work prints goes to standard error."""
    # Ctrl-C is for the process that started this one, whose end closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while (request := _receive(requests)) is not None:
        function, arguments = pickle.loads(request)
        try:
            answer = (False, function(*arguments))
        except Exception as error:
            answer = (True, error)
        try:
            _send(answers, pickle.dumps(answer))
        except BrokenPipeError:  # who asked is gone
            return


if __name__ == "__main__":
    _serve()
