"""From what Kubernetes says about a job and its pods to a result for a person."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from components.trainer import exit_codes
from components.trainer.failure import EndedTask, explain
from components.trainer.job import JobResult
from components.trainer.kubernetes.manifests import JobKind
from components.trainer.kubernetes.pod_logs import task_of


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a job ended, by its conditions alone."""

    has_succeeded: bool
    reason: str = ""
    message: str = ""


def outcome_of(kind: JobKind, job: Mapping[str, Any]) -> Outcome | None:
    """The terminal condition of a job; None while it runs, waits or is suspended."""
    for condition in job.get("status", {}).get("conditions", []):
        if condition["status"] == "True" and condition["type"] in (kind.succeeded, "Failed"):
            has_succeeded = condition["type"] == kind.succeeded
            return Outcome(has_succeeded, condition.get("reason", ""), condition.get("message", ""))
    return None


def result_of(outcome: Outcome, pods: Sequence[Mapping[str, Any]], num_restarts: int) -> JobResult:
    """The result of a job that has ended; where pods are left that failed, they say why."""
    if outcome.has_succeeded:
        return JobResult(exit_code=exit_codes.DONE, message="training is done", num_restarts=num_restarts)
    ended = [task for pod in pods if (task := _ended(pod)) and task.exit_code != exit_codes.DONE]
    if ended:
        # The pods' logs have been shown line by line, tracebacks and all.
        return dataclasses.replace(explain(ended, num_restarts), traceback="")
    # The job's own words are all there is. Only pods that were lost are worth another try.
    is_permanent = any(word in f"{outcome.reason} {outcome.message}" for word in ("PodFailurePolicy", "Deadline"))
    return JobResult(
        exit_code=exit_codes.FAILED if is_permanent else exit_codes.PEER_LOST,
        message=": ".join(filter(None, (outcome.reason, outcome.message))) or "the job failed and does not say why",
        keeps_work=not is_permanent,
        num_restarts=num_restarts,
    )


def _ended(pod: Mapping[str, Any]) -> EndedTask | None:
    status = pod.get("status", {})
    for container in status.get("containerStatuses", []):
        terminated = container.get("state", {}).get("terminated")
        if terminated:
            record = _record(terminated)
            return EndedTask(task_of(dict(pod)), int(terminated["exitCode"]), record)
    if status.get("phase") == "Failed":  # evicted before its container could say anything
        record = {"type": status.get("reason", "Failed"), "message": status.get("message", "the pod was lost")}
        return EndedTask(task_of(dict(pod)), exit_codes.PREEMPTED, record)
    return None


def _record(terminated: Mapping[str, Any]) -> dict[str, Any]:
    """What the worker left in its termination message; else the last lines of its log, which Kubernetes puts there."""
    message = terminated.get("message", "")
    try:
        record = json.loads(message)
    except ValueError:
        record = None
    if isinstance(record, dict) and {"type", "message"} <= set(record):
        return record
    if terminated.get("reason") == "OOMKilled":
        return {"type": "OOMKilled", "message": "the worker used more memory than its limit"}
    lines = [line for line in message.splitlines() if line.strip()]
    return {"type": terminated.get("reason", "Error"), "message": lines[-1], "traceback": message} if lines else {}
