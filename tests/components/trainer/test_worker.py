"""The worker process by itself, as a container starts it."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

from components.trainer import failure, worker

NAMESPACE = ["unshare", "--user", "--map-root-user", "--pid", "--fork"]


def can_unshare():
    if not shutil.which("unshare"):
        return False
    return subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_unshare(), reason="this machine does not let us make a PID namespace")
def test_sigterm_reaches_the_first_process_of_a_container(make_spec, marks, processes):
    path = make_spec("scripted.waits_for_ever").write()
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    outside = subprocess.Popen([*NAMESPACE, sys.executable, "-m", "components.trainer.worker", str(path)], env=env)
    try:
        deadline = time.monotonic() + 30
        while not (marks / "running-worker-0").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert (marks / "running-worker-0").read_text() == "1"  # its own process id
        [inside] = [pid for pid in processes.processes_naming(str(path)) if pid != outside.pid]
        os.kill(inside, signal.SIGTERM)
        assert outside.wait(timeout=20) == 143
    finally:
        for pid in processes.processes_naming(str(path)):
            os.kill(pid, signal.SIGKILL)
        outside.wait()


def test_a_success_is_no_crash_when_python_ends(make_spec, marks):
    path = make_spec("scripted.cannot_be_destroyed").write()
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-m", "components.trainer.worker", str(path)], env=env, check=True)
    assert (marks / "thread").exists()
    assert (marks / "atexit").read_text() == "False"


@pytest.mark.parametrize(
    "text", ["{", "[1]", '{"task": {"type": "worker"}}', '{"task": {"type": "worker", "index": "x"}}']
)
def test_a_wrong_tf_config_is_shown(make_spec, monkeypatch, capfd, text):
    monkeypatch.setenv("TF_CONFIG", text)
    assert worker.main([str(make_spec("scripted.trains").write())]) == 2
    assert f"error: TF_CONFIG is {text!r}; expected JSON with 'cluster' and 'task'" in capfd.readouterr().err


class UnavailableError(Exception):
    """Looks like TensorFlow's, without importing it."""

    __module__ = "tensorflow.python.framework.errors_impl"


@pytest.mark.parametrize(
    ("error", "is_distributed", "expected"),
    [
        (ValueError("x"), True, 1),
        (KeyboardInterrupt(), False, 143),
        (type("DataError", (ValueError,), {"exit_code": 3})("x"), True, 3),
        (UnavailableError(), True, 138),
        (UnavailableError(), False, 1),
        (type("UnavailableError", (Exception,), {"__module__": "some.database"})(), True, 1),
    ],
)
def test_exit_codes(error, is_distributed, expected):
    assert worker._exit_code(error, is_distributed) == expected


def test_the_termination_message_fits(tmp_path, monkeypatch):
    """Kubernetes cuts it off at 4096 bytes, and half a JSON object says nothing."""
    log = tmp_path / "termination-log"
    monkeypatch.setenv(failure.TERMINATION_LOG_VARIABLE, str(log))
    failure.leave_reason(tmp_path / "worker-0.json", ValueError("ä" * 100_000), 1)
    assert pathlib.Path(log).stat().st_size <= 4096
    assert failure.read_record(log)["type"] == "ValueError"
    assert len(failure.read_record(tmp_path / "worker-0.json")["message"]) == 100_000


def test_a_reason_that_cannot_be_written_changes_no_exit_code(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(failure.TERMINATION_LOG_VARIABLE, str(tmp_path / "no" / "such" / "folder"))
    failure.leave_reason(tmp_path / "record.json", ValueError("x"), 138)
    assert failure.read_record(tmp_path / "record.json")["exit_code"] == 138
    [note, reason] = capsys.readouterr().err.splitlines()
    assert "the reason could not be left in" in note
    assert reason == "ValueError: x"
    (tmp_path / "file").touch()
    failure.leave_reason(tmp_path / "file" / "record.json", ValueError("x"), 138)
    assert str(tmp_path / "file") in capsys.readouterr().err
