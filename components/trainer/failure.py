"""Which of several failures was the cause: one task raises, and its peers fail a moment later for that reason."""

import json
from collections.abc import Sequence

from components.trainer import exit_codes
from components.trainer.job import JobResult
from components.trainer.training_spec import TrainingSpec
from components.trainer.worker_process import WorkerProcess


def explain(
    spec: TrainingSpec, ended: Sequence[WorkerProcess], attempt: int, was_cancelled: bool, timed_out: bool
) -> JobResult:
    """The result of one attempt, from the tasks that ended, in the order in which they did."""
    failed = [worker for worker in ended if worker.exit_code != exit_codes.DONE]
    if was_cancelled:
        return JobResult(exit_code=exit_codes.PREEMPTED, message="training was cancelled", num_restarts=attempt)
    if timed_out:
        return JobResult(
            exit_code=exit_codes.FAILED,
            message="training took longer than cluster.deadline_seconds and was stopped",
            num_restarts=attempt,
        )
    if not failed:
        return JobResult(exit_code=exit_codes.DONE, message="training is done", num_restarts=attempt)
    records = {worker.task: _record(spec, worker) for worker in failed}
    cause = min(failed, key=lambda worker: _rank(worker, records[worker.task], failed))
    return _result(cause, records[cause.task], attempt)


def _record(spec: TrainingSpec, worker: WorkerProcess) -> dict:
    path = spec.failure_path(worker.task)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _rank(worker: WorkerProcess, record: dict, failed: Sequence[WorkerProcess]) -> tuple:
    """Lowest first: what cannot be repaired, then crashes and kills, then those that only lost a peer."""
    code = worker.exit_code
    assert code is not None
    kind = 0 if not exit_codes.is_retryable(code) else 2 if code == exit_codes.PEER_LOST else 1
    return kind, record.get("time", float("inf")), failed.index(worker)


def _result(cause: WorkerProcess, record: dict, attempt: int) -> JobResult:
    assert cause.exit_code is not None
    name = cause.task.replace("-", " ")
    reason = f"{name} {exit_codes.describe(cause.exit_code)}"
    if record:
        summary = " ".join(str(record["message"]).split())
        reason = f"{name}: {record['type']}: {summary}"
    return JobResult(
        exit_code=cause.exit_code,
        message=reason,
        details=record.get("traceback", ""),
        num_restarts=attempt,
    )
