"""The training cluster as processes on this machine, restarted together until done or the budget is spent."""

import contextlib
import os
import pathlib
import queue
import sys
import time

from components import prestart
from components.trainer import cluster_environment, exit_codes, gpus, ports
from components.trainer.cluster_config import LOCAL, ClusterConfig
from components.trainer.failure import EndedTask, cancelled, explain, read_record, too_late
from components.trainer.job import JobResult
from components.trainer.supervised_job import SupervisedJob
from components.trainer.training_spec import TrainingSpec
from components.trainer.worker_process import KIND, WorkerProcess

_THREADS_VARIABLE = "TF_NUM_INTRAOP_THREADS"  # TensorFlow's: threads that share one operation


class LocalJob(SupervisedJob):
    """See `components.trainer.job.Job`."""

    def __init__(self, spec: TrainingSpec, cluster: ClusterConfig):
        super().__init__(cluster, pathlib.Path(spec.job_dir, "job.log"))
        self._spec = spec
        self._events: queue.SimpleQueue[WorkerProcess | None] = queue.SimpleQueue()  # None: something was cancelled
        self._cancels = 0

    def cancel(self) -> None:
        """SIGTERM to all workers; SIGKILL after the grace period or at the second call. Safe in a signal handler."""
        self._cancels += 1
        self._events.put(None)

    def _is_cancelled(self) -> bool:
        return self._cancels > 0

    def _pause(self, seconds: float) -> None:
        until = min(time.monotonic() + seconds, self._deadline)
        while not self._is_over() and time.monotonic() < until:
            with contextlib.suppress(queue.Empty):  # what it holds are the ends of the last attempt's workers
                self._events.get(timeout=_timeout(until))

    def _run_attempt(self, attempt: int) -> JobResult:
        counts = self._cluster.task_counts()
        tasks = [(kind, index) for kind, count in counts.items() for index in range(count)]
        num_servers = sum(count for kind, count in counts.items() if kind != "evaluator")
        workers: list[WorkerProcess] = []
        # Events of the last attempt say nothing about this one.
        events = self._events = queue.SimpleQueue()
        try:
            with ports.hold(num_servers, self._cluster.first_port) as held:
                addresses = _addresses(counts, held)
                for kind, index in tasks:
                    env = self._environment(addresses, kind, index)
                    task = f"{kind}-{index}"
                    self._spec.failure_path(task).unlink(missing_ok=True)
                    worker = WorkerProcess(
                        task, self._spec.path, env, on_line=self._line_writer(task), on_exit=events.put
                    )
                    workers.append(worker)
                return self._watch(workers, events, attempt)
        finally:
            for worker in workers:
                worker.kill()
            for worker in workers:
                worker.join()

    def _watch(self, workers: list[WorkerProcess], events: queue.SimpleQueue, attempt: int) -> JobResult:
        """Waits for the gang to end, one way or another."""
        ended: list[EndedTask] = []  # in the order in which they ended
        kill_at = self._deadline
        was_told = 0
        awaited = _awaited(workers)
        while not awaited <= {task.task for task in ended}:
            if self._cancels > was_told:
                for worker in workers:
                    if self._cancels > 1:
                        worker.kill()
                    elif worker.task in awaited:  # parameter servers stay: the chief saves what they hold
                        worker.terminate()
                was_told = self._cancels
                kill_at = min(kill_at, time.monotonic() + self._cluster.grace_seconds)
            try:
                worker = events.get(timeout=_timeout(kill_at))
            except queue.Empty:
                break
            if worker is None:
                continue
            exit_code = self._exit_code(worker, ended)
            ended.append(EndedTask(worker.task, exit_code, read_record(self._spec.failure_path(worker.task))))
            if exit_code != exit_codes.DONE:
                # After a lost peer the others take a while to notice; after an error of its own nobody else matters.
                is_cause = not exit_codes.is_retryable(exit_code)
                patience = min(1.0, self._cluster.peer_exit_seconds) if is_cause else self._cluster.peer_exit_seconds
                kill_at = min(kill_at, time.monotonic() + patience)
            elif worker.task == _chief(self._cluster):
                # The model is whole. The others leave at once, unless they hang or still save their scratch copies.
                kill_at = min(kill_at, time.monotonic() + 4 * self._cluster.peer_exit_seconds)
        if was_told and not (ended and all(task.exit_code == exit_codes.DONE for task in ended)):
            ran_out = awaited - {task.task for task in ended} if self._cancels == 1 else ()
            return cancelled(attempt, ended, sorted(ran_out))
        return too_late(attempt) if self._deadline <= time.monotonic() else explain(ended, attempt)

    def _exit_code(self, worker: WorkerProcess, ended: list[EndedTask]) -> int:
        """The worker's exit code; 0 for one that only stumbles over the end of the chief, whose model is whole."""
        assert worker.exit_code is not None
        is_chief_done = any(task.task == _chief(self._cluster) and task.exit_code == exit_codes.DONE for task in ended)
        if is_chief_done and exit_codes.is_retryable(worker.exit_code):
            name, end = worker.task.replace("-", " "), exit_codes.describe(worker.exit_code)
            self._log.append(f"{name} {end} after the chief was done, which does no harm")
            return exit_codes.DONE
        return worker.exit_code

    def _environment(self, addresses: dict[str, list[str]], kind: str, index: int) -> dict[str, str]:
        env = common_environment(self._cluster)
        if self._cluster.is_distributed:
            env["TF_CONFIG"] = cluster_environment.tf_config(addresses, kind, index)
            if kind == "worker":
                part = gpus.share(gpus.visible(os.environ), self._cluster.num_workers, index)
                env |= {} if part is None else {gpus.VARIABLE: part}
        return env | dict(self._cluster.env)

    def _line_writer(self, task: str):
        prefix = f"[{task.replace('-', ' ')}] " if self._cluster.is_distributed else ""
        return lambda line: self._log.append(prefix + line)


def prestart_workers(cluster: ClusterConfig) -> None:
    """Starts the processes of a cluster's first attempt; they import TensorFlow and wait for `submit`."""
    if cluster.backends[0] == LOCAL:
        env = common_environment(cluster) | dict(cluster.env)
        prestart.start(KIND, env, sum(cluster.task_counts().values()))


def common_environment(cluster: ClusterConfig) -> dict[str, str]:
    """What the environments of all workers have in common."""
    env = dict(os.environ)
    env.pop("TF_CONFIG", None)
    env["PYTHONUNBUFFERED"] = "1"
    # What can be imported here can be imported there: the folder of the script that was started, for one.
    env["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
    env.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if cluster.num_workers > 1:
        # Each would take all cores for every operation: two workers on two cores took 15 % longer for a step.
        env.setdefault(_THREADS_VARIABLE, str(max(1, _num_cores() // cluster.num_workers)))
    return env | (ports.ENVIRONMENT if cluster.is_distributed else {})


def _num_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _addresses(counts: dict[str, int], held: list[int]) -> dict[str, list[str]]:
    remaining = iter(held)
    return {
        kind: [f"{ports.HOST}:{next(remaining)}" for _ in range(count)]
        for kind, count in counts.items()
        if kind != "evaluator"
    }


def _chief(cluster: ClusterConfig) -> str:
    return "chief-0" if "chief" in cluster.task_counts() else "worker-0"


def _awaited(workers: list[WorkerProcess]) -> set[str]:
    """The tasks whose end is the end of training: parameter servers and a chief's workers never end by themselves."""
    tasks = {worker.task for worker in workers}
    return tasks & {"chief-0", "evaluator-0"} if "chief-0" in tasks else tasks


def _timeout(until: float) -> float | None:
    return None if until == float("inf") else max(0.0, until - time.monotonic())
