"""Which of several failures was the cause: one task raises, and its peers fail a moment later for that reason."""

import dataclasses
import json
import os
import pathlib
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from components.trainer import exit_codes
from components.trainer.job import JobResult

# On Kubernetes: the file whose contents become part of the pod's status, 4096 bytes at most.
TERMINATION_LOG_VARIABLE = "SLUICE_TERMINATION_LOG"
_MAX_BYTES = 4096


@dataclasses.dataclass(frozen=True)
class EndedTask:
    """A task that has ended. `record` is what it left about its failure, if it could."""

    task: str
    exit_code: int
    record: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def is_message(error: BaseException) -> bool:
    """Whether the error was written for people, who do not need a traceback then: it says how the process ends."""
    return isinstance(getattr(error, "exit_code", None), int)


def own_traceback(error: BaseException) -> str:
    """The error's traceback from the user's code on: how this package came to call it helps nobody."""
    here = str(pathlib.Path(__file__).parent)
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(here):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames or error.__traceback__))


def leave_reason(path: pathlib.Path, error: BaseException, exit_code: int) -> None:
    """Leaves the reason where the step looks for it, whole or not at all; the step tells it, once.

    Said here as well where it cannot be written (a full disk, say), and in a pod, whose log is read by itself.
    """
    record = {
        "time": time.time(),
        "exit_code": exit_code,
        "type": type(error).__name__,
        "message": str(error),
        "is_message": is_message(error),
        "keeps_work": bool(getattr(error, "keeps_work", False)),
        "traceback": own_traceback(error),
    }
    termination_log = os.environ.get(TERMINATION_LOG_VARIABLE)
    is_said = bool(termination_log)
    try:
        _write_whole(path, json.dumps(record))
        if termination_log:
            pathlib.Path(termination_log).write_bytes(_shortened(record))
    except OSError as failed:
        print(
            f"the reason could not be left in {failed.filename or path}: {failed.strerror}", file=sys.stderr, flush=True
        )
        is_said = True
    if is_said:
        text = f"error: {error}\n" if record["is_message"] else record["traceback"]
        print(text, file=sys.stderr, end="", flush=True)


def _write_whole(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8")
    partial.rename(path)


def _shortened(record: dict[str, Any]) -> bytes:
    """The record as JSON that fits: the beginning of the message, the end of the traceback."""
    length = _MAX_BYTES
    while True:
        short = record | {"message": record["message"][:length], "traceback": record["traceback"][-length:]}
        text = json.dumps(short, ensure_ascii=False).encode()
        if len(text) <= _MAX_BYTES:
            return text
        length //= 2


def read_record(path: pathlib.Path) -> dict[str, Any]:
    """What a worker wrote about its failure; empty where it had no time to."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def explain(ended: Sequence[EndedTask], num_restarts: int) -> JobResult:
    """The result of one attempt, from the tasks that ended, in the order in which they did."""
    failed = [task for task in ended if task.exit_code != exit_codes.DONE]
    if not failed:
        return JobResult(exit_code=exit_codes.DONE, message="training is done", num_restarts=num_restarts)
    cause = min(failed, key=lambda task: _rank(task, failed.index(task)))
    reason = f"{cause.task.replace('-', ' ')} {exit_codes.describe(cause.exit_code)}"
    if cause.record:
        summary = _one_line(cause.record["message"])
        kind = "" if cause.record.get("is_message") else f"{cause.record['type']}: "
        reason = f"{cause.task.replace('-', ' ')}: {kind}{summary}"
    return JobResult(
        exit_code=cause.exit_code,
        message=reason,
        traceback=str(cause.record.get("traceback", "")),
        is_explained=bool(cause.record.get("is_message")),
        keeps_work=exit_codes.is_retryable(cause.exit_code) or bool(cause.record.get("keeps_work")),
        num_restarts=num_restarts,
    )


def _one_line(message: object) -> str:
    return " ".join(str(message).split())


def cancelled(num_restarts: int, ended: Sequence[EndedTask] = (), killed: Sequence[str] = ()) -> JobResult:
    """The result of a job that was asked to stop.

    Args:
      num_restarts: before that.
      ended: the tasks that have ended; what the first of them says that has saved is told.
      killed: tasks that were given the time to write one, and did not end.
    """
    best_first = sorted(ended, key=lambda task: task.exit_code != exit_codes.PREEMPTED)
    messages = [_one_line(task.record["message"]) for task in best_first if task.record.get("is_message")]
    if killed:
        names = ", ".join(task.replace("-", " ") for task in sorted(killed))
        messages.append(f"{names} did not end in time (cluster: grace_seconds) and had to be killed")
    return JobResult(
        exit_code=exit_codes.PREEMPTED,
        message=": ".join(["training was stopped", *messages[:1]]),
        was_cancelled=True,
        keeps_work=True,
        num_restarts=num_restarts,
    )


def too_late(num_restarts: int) -> JobResult:
    """The result of a job that was still running at its deadline."""
    message = "training took longer than cluster.deadline_seconds and was stopped"
    return JobResult(exit_code=exit_codes.FAILED, message=message, keeps_work=True, num_restarts=num_restarts)


def _rank(task: EndedTask, position: int) -> tuple[int, float, int]:
    """Lowest first: what cannot be repaired, then crashes and kills, then those that only lost a peer."""
    kind = 0 if not exit_codes.is_retryable(task.exit_code) else 2 if task.exit_code == exit_codes.PEER_LOST else 1
    return kind, task.record.get("time", float("inf")), position
