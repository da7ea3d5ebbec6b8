"""Verifies a staged model in a process of its own: a model that crashes TensorFlow must not crash the deployer."""

import json
import os
import pathlib
import subprocess
from typing import Any

from components import prestart
from components.pusher.config import PushTarget
from components.pusher.errors import PushError

KIND = prestart.Kind("components.pusher.verify_process", ("tensorflow", "tensorflow_serving.apis.prediction_log_pb2"))
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
    process = prestart.launch(KIND, [json.dumps(request)], _environment())
    try:
        output, errors = process.communicate(timeout=target.verify_timeout_s)
    except BaseException as error:
        process.kill()  # nobody may go on writing into the staged model, after Ctrl-C either
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            message = f"{model}: not verified within {target.verify_timeout_s:g} s (verify_timeout_s)"
            raise PushError(message) from None
        raise
    report = _last_json(output.decode(errors="replace"))
    if report is None:
        raise PushError(_death(model, process.returncode, errors.decode(errors="replace")))
    if "error" in report:
        raise PushError(f"the model is not deployable: {report['error']}")
    return report


def prestart_verifier() -> None:
    """Starts the process of the next verification: it imports TensorFlow and waits."""
    prestart.start(KIND, _environment())


def _environment() -> dict[str, str]:
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH", "")])),
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }


def _last_json(output: str) -> dict[str, Any] | None:
    lines = output.strip().splitlines()
    try:
        return json.loads(lines[-1]) if lines else None
    except json.JSONDecodeError:
        return None


def _death(model: pathlib.Path, code: int, errors: str) -> str:
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    if code == -9:
        how += ", which is what running out of memory looks like"
    last = " | ".join(errors.strip().splitlines()[-3:])
    return f"{model}: the process that loads the model died ({how}): {last}"
