"""Verifies a staged model in a process of its own: a model that crashes TensorFlow must not crash the deployer."""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

from components.pusher.config import PushTarget
from components.pusher.errors import PushError

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def verify_in_subprocess(model: pathlib.Path, target: PushTarget) -> dict[str, Any]:
    """Loads `model` as TensorFlow Serving does, compares golden predictions, writes and replays warm-up requests.

    Args:
      model: the staged SavedModel folder; warm-up requests are written into it.
      target: for the name, the warm-up batch sizes, the time limit and whether golden predictions are required.

    Returns:
      The verifying process's report: `signatures`, `golden`, `warmup_records`, `seconds`, `warnings`.

    Raises:
      PushError: the model does not load, predicts differently, or the process died or ran too long.
    """
    request = {
        "model": str(model),
        "name": target.name,
        "require_golden": target.require_golden,
        "warmup_batch_sizes": list(target.warmup_batch_sizes),
        "parent": os.getpid(),
    }
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH", "")])),
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    try:
        process = subprocess.run(
            [sys.executable, "-m", "components.pusher.verify_process", json.dumps(request)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=target.verify_timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PushError(f"{model}: not verified within {target.verify_timeout_s:g} s (verify_timeout_s)") from None
    report = _last_json(process.stdout)
    if report is None:
        raise PushError(_death(model, process))
    if "error" in report:
        raise PushError(f"{model.name} is not deployable: {report['error']}")
    return report


def _last_json(output: str) -> dict[str, Any] | None:
    lines = output.strip().splitlines()
    try:
        return json.loads(lines[-1]) if lines else None
    except json.JSONDecodeError:
        return None


def _death(model: pathlib.Path, process: subprocess.CompletedProcess) -> str:
    how = f"signal {-process.returncode}" if process.returncode < 0 else f"exit code {process.returncode}"
    if process.returncode == -9:
        how += ", which is what running out of memory looks like"
    last = " | ".join(process.stderr.strip().splitlines()[-3:])
    return f"{model}: the process that loads the model died ({how}): {last}"
