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
        state = follow(client, args.run_id, args.deadline) if args.wait else summary(client.run(args.run_id))
    if args.json:
        print(json.dumps(state))
    else:
        print(text_of(state))
    return 1 if args.wait and state["state"] != "SUCCEEDED" else 0


def follow(client: Any, run_id: str, deadline_seconds: float) -> dict[str, Any]:
    """Waits for the end of the run, with a line on standard error for every step whose state changes."""
    states: dict[str, str] = {}
    current: dict[str, Any] = {}
    for current in client.wait(run_id, deadline_seconds):
        for step in summary(current)["steps"]:
            if states.get(step["name"]) != step["state"]:
                states[step["name"]] = step["state"]
                print(f"{step['name']}: {step['state'].lower()}", file=sys.stderr, flush=True)
    return summary(current)


def summary(run: dict[str, Any]) -> dict[str, Any]:
    """{"run_id", "name", "state", "error", "steps": [{"name", "state", "error"}]} of a run as the API gives it."""
    from kubeflow import client

    steps = [{key: task[key] for key in ("name", "state", "error")} for task in client.tasks_of(run)]
    return {
        "run_id": run.get("run_id", ""),
        "name": run.get("display_name", ""),
        "state": run.get("state", "PENDING"),
        "error": (run.get("error") or {}).get("message", ""),
        "steps": steps,
    }


def text_of(state: dict[str, Any]) -> str:
    """The summary for people, with what to do next."""
    lines = [f"{state['name']}: {state['state'].lower()}"]
    for step in state["steps"]:
        lines.append(f"  {_MARKS.get(step['state'], step['state'].lower()):8} {step['name']} {step['error']}".rstrip())
    if state["error"]:
        lines.append(f"error: {state['error']}{_advice(state['error'])}")
    failed = [step["name"] for step in state["steps"] if step["state"] == "FAILED"]
    if failed:
        lines.append(f"next: sluice logs {state['run_id']} {failed[0]}")
    return "\n".join(lines)


def _advice(error: str) -> str:
    if "ImagePull" in error or "ErrImage" in error:
        return "\n  the image cannot be pulled: is its name right, and has the namespace the pull secret?"
    if "OOMKilled" in error:
        return "\n  the step wanted more memory than its limit: raise memory_limit in the Kubeflow config"
    return ""
