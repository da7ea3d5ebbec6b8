"""One task of the training cluster: `python -m components.trainer.worker SPEC.json`, with TF_CONFIG when distributed.

Start-up is kept short: neither TFX nor TensorFlow is imported before the user's module asks for it.
"""

import atexit
import faulthandler
import importlib
import json
import os
import pathlib
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

from components.trainer import cluster_environment, exit_codes, export, failure, parent_watch
from components.trainer.errors import TrainingConfigError, TrainingError
from components.trainer.fn_args import make_fn_args
from components.trainer.training_spec import TrainingSpec

_POLL_SECONDS = 0.1
# What TensorFlow raises in the others when one task of a cluster goes away.
_PEER_ERRORS = ("UnavailableError", "AbortedError", "DeadlineExceededError", "CancelledError")


_ALONE = (
    "note: {run_fn} used no strategy for several workers, so each worker has trained a model of its own, and this "
    "one's is kept; train under tf.distribute.MultiWorkerMirroredStrategy, or with one worker"
)


def main(arguments: list[str] | None = None) -> int:
    """Runs `run_fn` as the task that TF_CONFIG names; returns the exit code."""
    parent_watch.die_with_parent()
    faulthandler.enable()
    if os.getpid() == 1:
        # The first process of a container is not ended by a signal that it does not handle.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(exit_codes.PREEMPTED))
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    [spec_path] = sys.argv[1:] if arguments is None else arguments
    spec = TrainingSpec.read(spec_path)
    try:
        task_type, task_index, task_types = _task()
    except (ValueError, KeyError, TypeError, AttributeError):
        text = os.environ["TF_CONFIG"]
        print(
            f"error: TF_CONFIG is {text[:200]!r}; expected JSON with 'cluster' and 'task', as the step writes it; "
            "leave it out to train in one process",
            file=sys.stderr,
        )
        return TrainingConfigError.exit_code
    task = f"{task_type}-{task_index}"
    try:
        if cluster_environment.is_chief(task_type, task_index, task_types):
            spec.chief_done_path.unlink(missing_ok=True)
            _train(spec, "chief", must_export=True)
            spec.chief_done_path.touch()
        else:
            _train(spec, task, must_export=False)
            _wait_for_chief(spec)
        return exit_codes.DONE
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if code not in (exit_codes.DONE, exit_codes.PREEMPTED):
            failure.leave_reason(spec.failure_path(task), error, code)
        return code
    except BaseException as error:
        code = _exit_code(error, is_distributed=len(task_types) > 0 and "TF_CONFIG" in os.environ)
        failure.leave_reason(spec.failure_path(task), error, code)
        return code


def _task() -> tuple[str, int, list[str]]:
    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    task = config.get("task", {"type": "worker", "index": 0})
    return task["type"], int(task["index"]), list(config.get("cluster", {"worker": []}))


def _train(spec: TrainingSpec, export_name: str, must_export: bool) -> None:
    run_fn = _load(spec.run_fn)
    staging = spec.staging_dir(export_name)
    export.remove(staging)  # what an attempt before this one has left
    serving_model_dir = os.path.join(staging, pathlib.Path(spec.fn_args["serving_model_dir"]).name)
    eval_model_dir = os.path.join(staging, pathlib.Path(spec.fn_args["eval_model_dir"]).name)
    run_fn(make_fn_args(spec, serving_model_dir, eval_model_dir))
    if must_export and _trained_alone():
        print(_ALONE.format(run_fn=spec.run_fn), file=sys.stderr, flush=True)
    if must_export and not export.exists(serving_model_dir):
        raise TrainingError(
            f"{spec.run_fn} returned without a model: it must save a SavedModel to fn_args.serving_model_dir "
            f"({serving_model_dir})"
        )


def _trained_alone() -> bool:
    """Whether TensorFlow was used in one of several workers, and does not listen for the others."""
    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    addresses = config.get("cluster", {}).get("worker", [])
    if len(addresses) < 2 or "tensorflow" not in sys.modules or config["task"]["type"] != "worker":
        return False
    host, _, port = addresses[config["task"]["index"]].rpartition(":")
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((host, int(port))) != 0


def _wait_for_chief(spec: TrainingSpec) -> None:
    """Stays alive while the chief exports: to TensorFlow's coordination service, a task that has ended is one lost.

    Should the chief fail instead, the step ends this process with the rest of the gang.
    """
    while not spec.chief_done_path.exists():
        time.sleep(_POLL_SECONDS)


def _load(dotted_path: str) -> Callable[[Any], Any]:
    module_name, _, function_name = dotted_path.rpartition(".")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there, and misses something itself
        raise TrainingConfigError(f"run_fn is {dotted_path}, but there is no module {error.name}") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise TrainingConfigError(f"run_fn is {dotted_path}, but {module.__file__} has no function {function_name}")
    return function


def _exit_code(error: BaseException, is_distributed: bool) -> int:
    code = getattr(error, "exit_code", None)
    if isinstance(code, int):
        return code
    if isinstance(error, KeyboardInterrupt):
        return exit_codes.PREEMPTED
    if is_distributed and type(error).__name__ in _PEER_ERRORS and "tensorflow" in type(error).__module__:
        return exit_codes.PEER_LOST
    return exit_codes.FAILED


def leave(code: int) -> NoReturn:
    """Ends this process, without Python's own way to do it.

    That one destroys every object, in an order that native libraries do not always survive: protobuf's messages, held
    by Beam, turned successes into 139 (a segmentation fault). What user code may count on still happens: threads that
    are no daemons are awaited, and functions given to atexit are called. After a failure not even that: a collective
    that waits for a lost peer would keep the process for ever.
    """
    if code == exit_codes.DONE:
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    leave(main())
