"""What every container of a step does around its work: arguments, log lines, exit code, and dying with its launcher."""

import argparse
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable

from kubeflow import plan, step_metrics
from kubeflow.executor_input import ExecutorInput

_TERMINATION_LOG = "/dev/termination-log"
_WATCH_SECONDS = 1.0


def run_step(work: Callable[[plan.StepPlan, ExecutorInput], None], argv: list[str] | None) -> int:
    """Reads the plan and the executor input from the command line, and does `work` with them."""
    parser = argparse.ArgumentParser(description="Started by Kubeflow's launcher; not for people.")
    parser.add_argument("--plan", required=True, help="what the compiler planned, as JSON")
    parser.add_argument("--executor-input", required=True, help="what the launcher sends, as JSON")
    args = parser.parse_args(argv)
    step = plan.StepPlan.from_json(args.plan)
    return guarded(step.step, lambda: work(step, ExecutorInput.from_json(args.executor_input)))


def guarded(step: str, work: Callable[[], None]) -> int:
    """Does `work`, logs how long it took, and turns an exception into an exit code and one line that says why.

    An exception with an `exit_code` is a message for people and ends with that; others show their trace and end with 1.
    """
    prepare_environment()
    end_with_launcher()
    start_log(step)
    begin = time.monotonic()
    try:
        work()
    except Exception as error:
        exit_code = getattr(error, "exit_code", None)
        if exit_code is None:
            traceback.print_exc()
        message = f"{step} failed after {time.monotonic() - begin:.1f} s: {error if exit_code else repr(error)}"
        logging.getLogger("sluice").error(message)
        _leave_message(message)
        step_metrics.push(step, int(exit_code or 1), time.monotonic() - begin)
        return int(exit_code or 1)
    logging.getLogger("sluice").info("done in %.1f s", time.monotonic() - begin)
    step_metrics.push(step, 0, time.monotonic() - begin)
    return 0


def prepare_environment() -> None:
    """What must be set before TensorFlow is imported."""
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def start_log(step: str) -> None:
    """Log lines with the step and the seconds since its start, on standard error."""
    begin = time.monotonic()

    class _Formatter(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            text = super().format(record)
            return f"{step} {time.monotonic() - begin:7.1f}s {record.levelname.lower()}: {text}"

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)  # TFX and Beam say much; what they warn of is shown
    logging.getLogger("sluice").setLevel(logging.INFO)


def end_with_launcher() -> None:
    """Sends SIGTERM to this process when its launcher is gone, so that a cancelled step can clean up after itself.

    Kubeflow's launcher forwards no signal. The kernel's own parent-death signal is not used: it is sent when the thread
    that started the process ends, which in a Go program may be at any time.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="launcher-watch", daemon=True).start()


def _leave_message(message: str) -> None:
    """Shows the reason in the pod's status too, where there is a termination log."""
    if os.path.exists(_TERMINATION_LOG) and os.access(_TERMINATION_LOG, os.W_OK):
        with open(_TERMINATION_LOG, "w", encoding="utf-8") as file:
            file.write(message[:4000])
