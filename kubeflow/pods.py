"""Why a step's pod does not start, or was killed: asked of Kubernetes, because Kubeflow's API does not tell.

Kubeflow gives the state of a step and no reason (read in its sources from 2.5 to 2.17): a step whose image cannot be
pulled waits for ever without a word.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

from kubeflow import answers

RUN_LABEL = "pipeline/runid"
"""Kubeflow's own label of the pods of a run."""
DEFAULT_NAMESPACE = "kubeflow"
"""Where the pods of a Kubeflow with one user are."""
Kubectl = Callable[..., subprocess.CompletedProcess]
_SECONDS = 15
_STARTING = ("ContainerCreating", "PodInitializing")


def reasons(run_id: str, namespace: str, kubectl: Kubectl | None = None) -> dict[str, str]:
    """Pod to what keeps it from running; empty where kubectl is missing or may not look."""
    if not re.fullmatch(r"[-\w.]+", run_id) or (kubectl is None and not shutil.which("kubectl")):
        return {}
    namespace = namespace or DEFAULT_NAMESPACE
    answer = (kubectl or call)("get", "pods", "-n", namespace, "-l", f"{RUN_LABEL}={run_id}", "-o", "json")
    if answer.returncode:
        return {}
    found = {}
    for pod in answers.listed(json.loads(answer.stdout), "items"):
        name = answers.text(answers.mapping(pod, "metadata"), "name")
        if reason := _reason(answers.mapping(pod, "status")):
            found[name] = reason
    return found


def call(*arguments: str) -> subprocess.CompletedProcess:
    """kubectl, which answers in time or is taken for one that has failed."""
    try:
        return subprocess.run(
            ["kubectl", *arguments, f"--request-timeout={_SECONDS}s"],
            capture_output=True,
            text=True,
            check=False,
            timeout=2 * _SECONDS,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(arguments, 1, "", "it does not answer")


def _reason(status: dict[str, Any]) -> str:
    for container in answers.listed(status, "initContainerStatuses") + answers.listed(status, "containerStatuses"):
        state = answers.mapping(container, "state")
        waiting, ended = answers.mapping(state, "waiting"), answers.mapping(state, "terminated")
        if (reason := answers.text(waiting, "reason")) and reason not in _STARTING:
            return _sentence(reason, answers.text(waiting, "message"))
        if answers.text(ended, "reason") == "OOMKilled":
            return "OOMKilled"
    for condition in answers.listed(status, "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _sentence(answers.text(condition, "reason"), answers.text(condition, "message"))
    return ""


def _sentence(reason: str, message: str) -> str:
    return f"{reason}: {' '.join(message.split())[:300]}" if message else reason
