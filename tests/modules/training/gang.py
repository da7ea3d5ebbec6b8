"""Starts worker processes with a TF_CONFIG and waits for all of them; none outlives the test."""

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[3]


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for holder in sockets:
            holder.bind(("127.0.0.1", 0))
        return [holder.getsockname()[1] for holder in sockets]


def tf_config(tasks: Sequence[tuple[str, int]], ports: Sequence[int], task: tuple[str, int]) -> str:
    """An evaluator is a task without an address in the cluster."""
    cluster: dict[str, list[str]] = {}
    for (role, _), port in zip(tasks, ports, strict=True):
        if role != "evaluator":
            cluster.setdefault(role, []).append(f"127.0.0.1:{port}")
    return json.dumps({"cluster": cluster, "task": {"type": task[0], "index": task[1]}})


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclasses.dataclass
class Worker:
    process: subprocess.Popen
    log: Path

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


class Gang:
    """Running workers of one cluster."""

    def __init__(self, workers: list[Worker]):
        self.workers = workers

    def wait(self, timeout_s: float = 240.0) -> list[int]:
        """Exit codes of all workers, -9 for one that was killed.

        Raises:
          AssertionError: one is still running after `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        for worker in self.workers:
            try:
                worker.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"still running after {timeout_s} s:\n{self.logs()}") from None
        return [worker.process.returncode for worker in self.workers]

    def until(self, condition: Callable[[], object], timeout_s: float = 120.0) -> None:
        """Waits for `condition` while the workers run."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"did not happen within {timeout_s} s:\n{self.logs()}"
            ended = [worker.process.poll() for worker in self.workers]
            assert any(code is None for code in ended) or condition(), f"all ended with {ended}:\n{self.logs()}"
            time.sleep(0.05)

    def logs(self) -> str:
        return "\n".join(f"--- worker {i}\n{worker.text[-4000:]}" for i, worker in enumerate(self.workers))


@contextlib.contextmanager
def gang(
    program: str,
    arguments: Sequence[str],
    num_workers: int = 0,
    order: Sequence[int] | None = None,
    ports: Sequence[int] | None = None,
    tasks: Sequence[tuple[str, int]] | None = None,
    late: bool = False,
) -> Iterator[Gang]:
    """Starts processes of tests/.../programs/<program>.py, one per task, several with a TF_CONFIG.

    Args:
      order: the order in which the tasks are started; their addresses in TF_CONFIG stay.
      late: start every task only when the one before it already waits for its peers.
      tasks: (role, index) of each; None means `num_workers` workers.
    """
    tasks = tasks or [("worker", index) for index in range(num_workers)]
    ports = ports or free_ports(len(tasks))
    folder = Path(tempfile.mkdtemp(prefix="gang-"))
    workers: dict[int, Worker] = {}
    try:
        for index in order or range(len(tasks)):
            environment = dict(os.environ, PYTHONPATH=str(ROOT), PYTHONUNBUFFERED="1", TF_CPP_MIN_LOG_LEVEL="2")
            environment.update(TF_USE_LEGACY_KERAS="1", CUDA_VISIBLE_DEVICES="-1", TF_NUM_INTEROP_THREADS="4")
            environment.pop("TF_CONFIG", None)
            if len(tasks) > 1:
                environment["TF_CONFIG"] = tf_config(tasks, ports, tasks[index])
            log = folder / f"{index}.log"
            with log.open("wb") as out:
                command = [sys.executable, str(PROGRAMS / f"{program}.py"), *arguments]
                process = subprocess.Popen(
                    command, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
                )
            workers[index] = Worker(process, log)
            if late:
                Gang([workers[index]]).until(lambda port=ports[index]: listens(port))
        yield Gang([workers[index] for index in sorted(workers)])
    finally:
        for worker in workers.values():
            if worker.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(worker.process.pid, signal.SIGKILL)
            worker.process.wait()
