"""The last step of a run, whatever became of it: `python -m kubeflow.report_outcome`.

Posts a JSON object to a webhook, gives it to a command, and leaves a summary that Kubeflow's page of the run shows.
"""

import argparse
import json
import logging
import os
import pathlib
import subprocess
import urllib.error
import urllib.request
from typing import Any

from kubeflow import outcome_names, step_process
from kubeflow.errors import KubeflowError
from kubeflow.executor_input import ExecutorInput

LOG = logging.getLogger("sluice")
_TIMEOUT_SECONDS = 30


def main(argv: list[str] | None = None) -> int:
    """Reports; returns the exit code of the container."""
    parser = argparse.ArgumentParser(description="Started by Kubeflow's launcher; not for people.")
    parser.add_argument("--executor-input", required=True, help="what the launcher sends, as JSON")
    parser.add_argument("--command", default="[]", help="command to run, as a JSON list")
    args = parser.parse_args(argv)
    request = ExecutorInput.from_json(args.executor_input)
    return step_process.guarded("report-outcome", lambda: _report(request, json.loads(args.command)))


def _report(request: ExecutorInput, command: list[str]) -> None:
    message = outcome_of(request.parameters)
    path = pathlib.Path(request.outputs[outcome_names.SUMMARY_PORT].path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_summary(message), encoding="utf-8")
    request.write_output({})
    url = os.environ.get(outcome_names.WEBHOOK_VARIABLE)
    if url:
        _post(url, message)
    if command:
        subprocess.run(command, input=json.dumps(message), text=True, check=True, timeout=_TIMEOUT_SECONDS)


def outcome_of(parameters: dict[str, Any]) -> dict[str, Any]:
    """{"run", "run_id", "succeeded", "state", "error"} from what Kubeflow sends."""
    status = parameters.get("status") or {}
    state = status.get("state", "UNKNOWN")
    return {
        "run": parameters.get("run_name", ""),
        "run_id": parameters.get("run_id", ""),
        "succeeded": state in ("COMPLETE", "SUCCEEDED", "CACHED"),
        "state": state,
        "error": (status.get("error") or {}).get("message", ""),
    }


def _summary(message: dict[str, Any]) -> str:
    verdict = "succeeded" if message["succeeded"] else "did not succeed"
    lines = [f"# {message['run']} {verdict}", "", f"- run: `{message['run_id']}`", f"- state: `{message['state']}`"]
    if message["error"]:
        lines.append(f"- error: {message['error']}")
    if not message["succeeded"]:
        lines += [
            "",
            f"`sluice status {message['run_id']}` names the step, `sluice logs {message['run_id']} STEP` why.",
        ]
    return "\n".join(lines) + "\n"


def _post(url: str, message: dict[str, Any]) -> None:
    request = urllib.request.Request(
        url, data=json.dumps(message).encode(), headers={"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
            LOG.info("the webhook answered %d", response.status)
    except (urllib.error.URLError, TimeoutError) as error:
        raise KubeflowError(f"the webhook could not be told: {error}") from None


if __name__ == "__main__":
    raise SystemExit(main())
