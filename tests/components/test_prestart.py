"""Processes started ahead do the same work as new ones, and none is left."""

import json
import os
import select
import subprocess
import sys

import pytest

from components import prestart

WORK = """
import json, os, sys
print(json.dumps({
    "argv": sys.argv[1:], "name": __name__, "imported": "colorsys" in sys.modules,
    "TF_CONFIG": os.environ.get("TF_CONFIG"), "extra": os.environ.get("EXTRA"), "pid": os.getpid(),
    "stdin_ended": os.environ.get("WAIT") == "1" and sys.stdin.buffer.read() == b"",
}), flush=True)
print("to stderr", file=sys.stderr)
"""


@pytest.fixture
def kind(tmp_path):
    """A kind of process whose work tells what it sees."""
    (tmp_path / "prestart_work.py").write_text(WORK)
    yield prestart.Kind("prestart_work", ("colorsys",))
    prestart.close()


@pytest.fixture
def env(tmp_path):
    """An environment in which the work can be imported."""
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    return dict(os.environ) | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


def _result(process: subprocess.Popen) -> dict:
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert errors.decode().endswith("to stderr\n")
    return json.loads(output)


def _waiting_pids() -> list[int]:
    return [waiting.process.pid for waiting in prestart._waiting]


def test_work_goes_to_a_waiting_process_whatever_its_late_variables(kind, env):
    prestart.start(kind, env, count=2)
    pids = _waiting_pids()
    process = prestart.launch(kind, ["one", "two"], env | {"TF_CONFIG": "{}"})
    result = _result(process)
    assert result["pid"] == pids[0] == process.pid
    assert result == result | {"argv": ["one", "two"], "name": "__main__", "imported": True, "TF_CONFIG": "{}"}
    assert _waiting_pids() == pids[1:]


def test_another_environment_gets_a_new_process(kind, env):
    prestart.start(kind, env)
    pids = _waiting_pids()
    result = _result(prestart.launch(kind, [], env | {"EXTRA": "1"}))
    assert result["extra"] == "1"
    assert result["imported"] is False
    assert result["pid"] not in pids
    assert _waiting_pids() == pids


def test_a_process_that_died_while_it_waited_is_replaced(kind, env):
    prestart.start(kind, env)
    (waiting,) = prestart._waiting
    waiting.process.kill()
    waiting.process.wait()
    assert _result(prestart.launch(kind, [], env))["imported"] is False


def test_the_work_sees_the_end_of_its_parent(kind, env):
    prestart.start(kind, env)
    process = prestart.launch(kind, [], env | {"TF_CONFIG": "x"})
    assert process.stdin is not None
    process.stdin.close()  # what the kernel does when this process dies
    process.stdin = None
    assert _result(process)["stdin_ended"] is False  # it did not ask
    process = prestart.launch(kind, [], env | {"WAIT": "1"})
    assert _result(process)["stdin_ended"] is True


def test_nothing_is_left_when_the_starter_closes_or_dies(kind, env):
    prestart.start(kind, env)
    (waiting,) = prestart._waiting
    prestart.close()
    assert waiting.process.returncode is not None
    assert _waiting_pids() == []

    starter = (
        "import json, os, sys\n"
        "from components import prestart\n"
        "prestart.start(prestart.Kind('prestart_work', ()), dict(os.environ))\n"
        "print(prestart._waiting[0].process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    pid = int(subprocess.run([sys.executable, "-c", starter], env=env, stdout=subprocess.PIPE, check=False).stdout)
    try:
        orphan = os.pidfd_open(pid)
    except ProcessLookupError:
        return  # it has ended already
    ended, _, _ = select.select([orphan], [], [], 60)
    os.close(orphan)
    assert ended
