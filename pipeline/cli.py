"""The `sluice` command. Nothing heavy is imported here: each command's module imports what it needs when it runs."""

import argparse
import atexit
import contextlib
import gc
import importlib
import os
import sys
import threading
import traceback
from typing import NoReturn

# Name -> what it is for. The module pipeline/commands/<name>.py has HELP, add_arguments(parser) and run(args).
COMMANDS = {
    "run": "run a workload's pipeline on this machine",
    "runs": "list past runs and their verdicts",
    "show": "show one run: steps, artifacts and where they come from, metrics",
    "predict": "ask a pushed model",
    "generate": "continue a text with a pushed model",
    "doctor": "check this machine, and say what to do about what is missing",
    "clean": "remove old runs and artifacts, never what serves or is blessed",
    "ingest": "turn files into TFRecords, without a pipeline",
    "schema": "infer, compare or update a data schema",
    "validate": "judge data against a schema, without a pipeline",
    "train": "train a run_fn on local workers, without a pipeline",
    "models": "list, show, promote, roll back registered models",
    "push": "deploy one model to a serving folder",
    "serve": "serve models with the development server",
    "compile": "compile the pipeline for Kubeflow Pipelines",
    "submit": "submit the pipeline to Kubeflow Pipelines",
    "status": "state of a submitted run",
    "logs": "logs of a submitted run",
    "cancel": "stop a submitted run",
}


class _Defaults(argparse.ArgumentDefaultsHelpFormatter):
    """Shows the defaults that say something."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default in (None, "", False, []) or "default" in (action.help or ""):
            return action.help
        return super()._get_help_string(action)


EPILOG = """exit codes: 0 done; 1 a step failed; 2 wrong usage or configuration; 3 data rejected; 4 model not blessed;
5 push failed; 138 a training worker was lost for good; 143 stopped by a signal.
`sluice COMMAND --help` explains each command."""


def main(argv: list[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    prepare_environment()
    # TensorFlow, Beam and TFX create a million objects that stay. At the default threshold the collector searches them
    # all again and again, for a quarter of the import time and a tenth of a step's.
    gc.set_threshold(100_000, 50, 50)
    args = _parse(argv)
    try:
        return int(args.run(args) or 0)
    except KeyboardInterrupt:
        print("stopped by Ctrl-C", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output left, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return report_error(error, debug=args.debug)


def prepare_environment() -> None:
    """What must be set before TensorFlow is first imported, here and in every child process."""
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    # Beam builds an argparse parser per transform, and each looks on disk for translations that Python does not have.
    os.environ.setdefault("LANGUAGE", "C")


def console() -> NoReturn:
    """The `sluice` command: main(), and then the end of the process without destroying Python's objects.

    Beam's hold protobuf messages whose destructor looks for a module that is gone by then, so that a run that had
    succeeded could end with 139 (a segmentation fault). Threads are awaited and atexit functions called all the same.
    """
    code = main()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BrokenPipeError):  # whoever read it has left
            stream.flush()
    os._exit(code)


def report_error(error: BaseException, debug: bool) -> int:
    """Prints one line for the user (or, with `debug`, the trace) and returns the exit code that fits."""
    if debug:
        traceback.print_exception(error)
    exit_code = getattr(error, "exit_code", None)
    message = str(error) if exit_code is not None else f"{type(error).__name__}: {_first_line(error)}"
    hint = "" if debug or exit_code is not None else "  (sluice --debug shows the trace)"
    print(f"error: {message}{hint}", file=sys.stderr)
    return int(exit_code if exit_code is not None else 1)


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else "no message"


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="sluice",
        description="A TFX pipeline that runs on a laptop and on open-source Kubeflow Pipelines.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--debug", action="store_true", help="show traces and the libraries' own logs")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, title="commands")
    chosen_parser = parser
    chosen = next((argument for argument in argv if not argument.startswith("-")), None)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, formatter_class=_Defaults)
        if name == chosen:
            module = importlib.import_module(f"pipeline.commands.{name}")
            command.description = module.HELP
            command.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help="show traces and logs")
            module.add_arguments(command)
            command.set_defaults(run=module.run)
            chosen_parser = command
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:  # said by the command, which shows the options that it has
        chosen_parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return arguments


if __name__ == "__main__":
    console()
