"""`sluice status`."""

import argparse
import json
import sys
from typing import Any

from pipeline.commands import submit

HELP = "Show a run on Kubeflow Pipelines: its state, its steps, and why it failed."
_MARKS = {"SUCCEEDED": "done", "RUNNING": "runs", "PENDING": "waits", "FAILED": "FAILED", "SKIPPED": "skipped"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", metavar="RUN", help="id of the run")
    parser.add_argument("--wait", action="store_true", help="wait for the end; exit code 1 if it is not a good one")
    parser.add_argument(
        "--deadline", type=submit.seconds, default=24 * 3600.0, metavar="SECONDS", help="how long to wait"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object, last on stdout")
    submit.add_connection_arguments(parser)


def run(args: argparse.Namespace) -> int:
    with submit.connect(args) as client:
        state = (
            follow(client, args.run_id, args.deadline, args.namespace)
            if args.wait
            else explained(summary(client.run(args.run_id)), args.namespace)
        )
    if args.json:
        print(json.dumps(state))
    else:
        print(text_of(state))
    return 1 if args.wait and state["state"] != "SUCCEEDED" else 0


def follow(client: Any, run_id: str, deadline_seconds: float, namespace: str = "") -> dict[str, Any]:
    """Waits for the end of the run, with a line on standard error for every step whose state changes."""
    said: dict[str, str] = {}
    current: dict[str, Any] = {}
    for run in client.wait(run_id, deadline_seconds):
        # a step that has been waiting for one look may be waiting for ever: is there a reason?
        waits = any(step["state"] == "PENDING" and step["name"] in said for step in summary(run)["steps"])
        current = explained(summary(run), namespace) if waits or run.get("state") == "FAILED" else summary(run)
        for step in current["steps"]:
            line = f"{step['name']}: {step['state'].lower()} {step['error']}".rstrip()
            if said.get(step["name"]) != line:
                said[step["name"]] = line
                print(line, file=sys.stderr, flush=True)
    return current


def explained(state: dict[str, Any], namespace: str) -> dict[str, Any]:
    """The summary with what Kubernetes says of the pods of steps that wait or have failed."""
    from kubeflow import client, pods

    unclear = [step for step in state["steps"] if step["state"] in ("PENDING", "FAILED") and not step["error"]]
    found = pods.reasons(state["run_id"], namespace) if unclear else {}
    for step in unclear:
        step["error"] = next((found[name] for name in client.pod_names(step["pods"]) if name in found), "")
    return state


def summary(run: dict[str, Any]) -> dict[str, Any]:
    """A run as the API gives it: {"run_id", "name", "state", "error", "steps"}.

    A step is {"name", "state", "error", "pods"}; the pods are names that Kubeflow gives, or parts of them.
    """
    from kubeflow import answers, client

    steps = [{key: task[key] for key in ("name", "state", "error", "pods")} for task in client.tasks_of(run)]
    return {
        "run_id": answers.text(run, "run_id"),
        "name": answers.text(run, "display_name"),
        "state": answers.text(run, "state") or "PENDING",
        "error": answers.text(answers.mapping(run, "error"), "message"),
        "steps": steps,
    }


def text_of(state: dict[str, Any]) -> str:
    """The summary for people, with what to do next."""
    lines = [f"{state['name']}: {state['state'].lower()}"]
    for step in state["steps"]:
        lines.append(f"  {_MARKS.get(step['state'], step['state'].lower()):8} {step['name']} {step['error']}".rstrip())
        lines += [f"  {line}" for line in _advice(step["error"]).splitlines() if line]
    if state["error"]:
        lines.append(f"error: {state['error']}{_advice(state['error'])}")
    failed = [step["name"] for step in state["steps"] if step["state"] == "FAILED"]
    if failed:
        lines.append(f"next: sluice logs {state['run_id']} {failed[0]}")
    return "\n".join(lines)


def _advice(error: str) -> str:
    if "ImagePull" in error or "ErrImage" in error or "InvalidImageName" in error:
        return "\n  the image cannot be pulled: is its name right, and has the namespace the pull secret?"
    if "OOMKilled" in error:
        return "\n  the step wanted more memory than its limit: raise memory_limit in the Kubeflow config"
    return ""
