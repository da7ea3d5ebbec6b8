"""The step and the engine together: a killed worker, a preemption and a resume on the way to one model."""

import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
import tensorflow as tf

RUN_FNS = pathlib.Path(__file__).parent / "run_fns"


@pytest.fixture
def train(sums, processes):
    started = []

    def train(*options):
        command = [sys.executable, "-m", "pipeline.cli", "train", "--run-fn", "with_engine.run_fn", "--workers", "2"]
        command += ["--examples", str(sums / "examples"), "--schema", str(sums / "schema" / "schema.pbtxt")]
        command += ["--output", str(sums / "out"), "--batch-size", "16"]
        command += ["--set", "checkpoint_every_steps=200", "--set", "steps_per_loop=20", *options]
        env = os.environ | {"PYTHONPATH": os.pathsep.join([str(RUN_FNS), *filter(None, sys.path)])}
        started.append(subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield train
    for process in started:
        process.kill()
        process.communicate()
    assert processes.processes_naming(str(sums)) == []


def two_ports():
    """The first of two neighbouring ports that are free."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            with contextlib.suppress(OSError, OverflowError):
                second.bind(("127.0.0.1", port + 1))
                return port


def workers(sums, processes):
    pids = {int(path.name) for path in (sums / "out" / "model_run" / "pids").glob("*")}
    return [pid for pid in pids if processes.is_running(pid)]


def read_until(process, pattern):
    """The lines up to the one that matches; fails when the process ends before."""
    lines = []
    for line in process.stderr:
        lines.append(line)
        if re.search(pattern, line):
            return lines
    raise AssertionError(f"no line matches {pattern!r}:\n{''.join(lines)}")


@pytest.mark.e2e
def test_killed_preempted_resumed(sums, train, processes):
    port = two_ports()
    process = train("--steps", "1000000", "--set", f"prometheus_port={port}")  # more than it can do
    deadline = time.monotonic() + 120
    while not list((sums / "out" / "model_run").rglob("*.index")):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline, "no checkpoint"
        time.sleep(0.05)
    os.kill(max(workers(sums, processes)), signal.SIGKILL)
    lines = read_until(process, r"restart 1 of 3 of all workers")
    assert "was killed (SIGKILL" in lines[-1]
    read_until(process, r"step \d+")
    for rank in range(2):  # on one machine each worker has a port of its own
        with urllib.request.urlopen(f"http://127.0.0.1:{port + rank}/metrics") as response:
            assert b"sluice_training_step" in response.read()
    process.terminate()
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 143, errors
    assert re.search(r"error: training was stopped: asked to stop; saved at step \d+ of 1000000; add --resume", errors)
    assert not (sums / "out" / "model" / "Format-Serving").exists()

    saved = max(int(path.name.removeprefix("step-")) for path in (sums / "out" / "model_run").rglob("step-*"))
    process = train("--resume", "--steps", str(saved + 100))
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    assert f"resumed at {saved}, {saved + 100} steps on 2 replicas" in errors
    model = tf.saved_model.load(str(sums / "out" / "model" / "Format-Serving"))
    assert "serving_default" in model.signatures
