"""One trial of a search in a process of its own: `python -m modules.training.trial_process`, the trial on its input.

A process per trial, because TensorFlow gives memory back only when its process ends, and because a trial that crashes
must not take the search with it. The process ends when its input does: no trial outlives the search.
"""

import importlib
import json
import os
import subprocess
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

from modules.training.errors import TrainingConfigError, TrainingError

_LAST_LINES = 20


def run_in_process(run_trial: Callable, fn_args: Any, hyperparameters: dict[str, Any], device: str | None) -> dict:
    """Runs one trial and returns its metrics.

    Args:
      run_trial: a function of an importable module; called with FnArgs (all but data_accessor) and HyperParameters.
      fn_args: what the trial gets; its values must be JSON.
      hyperparameters: keras-tuner's get_config() of the trial.
      device: the only GPU that the trial may see; None leaves it as it is.

    Raises:
      TrainingConfigError: run_trial cannot be found from another process.
      TrainingError: the trial failed; ends with the last lines that it wrote.
    """
    given = {key: value for key, value in vars(fn_args).items() if key != "data_accessor"}
    text = json.dumps({"run_trial": _importable(run_trial), "fn_args": given, "hyperparameters": hyperparameters})
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path or os.getcwd() for path in sys.path))
    environment.pop("TF_CONFIG", None)
    if device is not None:
        environment["CUDA_VISIBLE_DEVICES"] = device
    command = [sys.executable, "-m", "modules.training.trial_process"]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(text + "\n")
        process.stdin.flush()
        lines = process.stdout.read().strip().splitlines()
    if process.returncode:
        raise TrainingError(f"a trial ended with exit code {process.returncode}:\n" + "\n".join(lines[-_LAST_LINES:]))
    return json.loads(lines[-1])


def _importable(function: Callable) -> str:
    module, name = function.__module__, function.__qualname__
    if module == "__main__" or not name.isidentifier():
        raise TrainingConfigError(
            f"run_trial is {module}.{name}, which another process cannot import; with parallel_trials it must be a "
            "function of a module, not one inside a function or a script"
        )
    return f"{module}.{name}"


def _end_with_the_search() -> None:
    sys.stdin.read()  # until the search closes it, or is no more
    os._exit(143)


def main() -> None:
    """Runs the trial that is described in the first line of standard input; its metrics are the last line printed."""
    import keras_tuner

    spec = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_the_search, daemon=True).start()
    module, _, name = spec["run_trial"].rpartition(".")
    run_trial = getattr(importlib.import_module(module), name)
    hyperparameters = keras_tuner.HyperParameters.from_config(spec["hyperparameters"])
    metrics = run_trial(types.SimpleNamespace(**spec["fn_args"]), hyperparameters).metrics
    print(json.dumps(metrics), flush=True)
    os._exit(0)  # nothing is left to do, and native threads may not wait for the interpreter


if __name__ == "__main__":
    main()
