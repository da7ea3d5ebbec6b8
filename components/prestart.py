"""Python processes that import what they will need before there is work for them.

Importing TensorFlow takes seconds on one core, while the steps before leave another idle. `start` launches processes
that import and then wait; `launch` gives the work to one of them or, where none fits, to a new process: the caller
sees no difference but the time. A waiting process ends by itself when this one is gone.

What native libraries read while they are imported cannot be changed afterwards. So a waiting process is used only for
work whose environment is the one that it was started with, save for variables that are read later.
"""

import contextlib
import dataclasses
import gc
import importlib
import json
import os
import runpy
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

# Read when the work begins, not at import.
_LATE_VARIABLES = {"TF_CONFIG", "SLUICE_PARENT_FD"}


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of process: the module that it runs (as `python -m` does), and what is imported ahead."""

    module: str
    imports: tuple[str, ...]
    merges_stderr: bool = False
    """Whether its standard error goes into its standard output, or into a pipe of its own."""


@dataclasses.dataclass(frozen=True)
class _Waiting:
    kind: Kind
    env: Mapping[str, str]
    process: subprocess.Popen


_waiting: list[_Waiting] = []
_lock = threading.Lock()


def start(kind: Kind, env: Mapping[str, str], count: int = 1) -> None:
    """Starts processes that import and wait.

    Call it from the main thread: on Linux a process may ask to die with the thread that started it.
    """
    for _ in range(count):
        command = [sys.executable, "-m", "components.prestart", *kind.imports]
        process = _popen(command, env, kind)
        with _lock:
            _waiting.append(_Waiting(kind, dict(env), process))


def launch(kind: Kind, arguments: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen:
    """Runs `kind.module` with `arguments`, in a session of its own.

    Returns:
      The process. Nothing is written to its stdin, a pipe by whose end it can tell that this process is gone.
    """
    waiting = _take(kind, env)
    if waiting is None:
        return _popen([sys.executable, "-m", kind.module, *arguments], env, kind)
    order = {"module": kind.module, "arguments": list(arguments), "env": dict(env)}
    assert waiting.process.stdin is not None
    try:
        waiting.process.stdin.write(json.dumps(order).encode() + b"\n")
        waiting.process.stdin.flush()
    except BrokenPipeError:  # it died while it waited
        _end(waiting.process)
        return launch(kind, arguments, env)
    return waiting.process


def close() -> None:
    """Ends the processes that nobody has asked for."""
    with _lock:
        left = list(_waiting)
        _waiting.clear()
    for waiting in left:
        _end(waiting.process)


def _take(kind: Kind, env: Mapping[str, str]) -> _Waiting | None:
    with _lock:
        for waiting in _waiting:
            if waiting.kind == kind and _differences(waiting.env, env) <= _LATE_VARIABLES:
                _waiting.remove(waiting)
                return waiting
    return None


def _differences(one: Mapping[str, str], other: Mapping[str, str]) -> set[str]:
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


def _popen(command: list[str], env: Mapping[str, str], kind: Kind) -> subprocess.Popen:
    return subprocess.Popen(
        command,
        env=dict(env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if kind.merges_stderr else subprocess.PIPE,
        start_new_session=True,  # the terminal's Ctrl-C goes to this process, which decides how the others stop
    )


def _end(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):  # work that it was given and never read
                pipe.close()


def _wait_for_work(imports: Sequence[str]) -> None:
    """What a waiting process does."""
    gc.disable()  # nothing that is imported ever becomes garbage
    for name in imports:
        importlib.import_module(name)
    gc.freeze()
    gc.enable()
    line = _read_line(sys.stdin.fileno())
    if not line:
        return  # the process that started this one is gone, or has no work
    order = json.loads(line)
    os.environ.clear()
    os.environ.update(order["env"])
    sys.argv[1:] = order["arguments"]
    runpy.run_module(order["module"], run_name="__main__", alter_sys=True)


def _read_line(descriptor: int) -> bytes:
    """Up to the end of the line and not a byte more: the rest of the pipe belongs to the work."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(descriptor, 1)
        if not byte:
            return b""
        line += byte
    return line


if __name__ == "__main__":
    _wait_for_work(sys.argv[1:])
