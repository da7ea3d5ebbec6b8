"""The step and the engine together: a killed worker, a preemption and a resume on the way to one model."""

import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

import pytest
import tensorflow as tf

RUN_FNS = pathlib.Path(__file__).parent / "run_fns"

SCHEMA = """
feature { name: "x" type: FLOAT shape { dim { size: 4 } } presence { min_fraction: 1.0 } }
feature { name: "y" type: FLOAT shape { dim { size: 1 } } presence { min_fraction: 1.0 } }
"""


@pytest.fixture
def data(tmp_path):
    numbers = random.Random(0)
    (tmp_path / "schema.pbtxt").write_text(SCHEMA)
    for split in ("train", "eval"):
        folder = tmp_path / "examples" / f"Split-{split}"
        folder.mkdir(parents=True)
        with tf.io.TFRecordWriter(str(folder / "data-00000-of-00001.gz"), options="GZIP") as writer:
            for _ in range(512):
                x = [numbers.random() for _ in range(4)]
                features = {
                    "x": tf.train.Feature(float_list=tf.train.FloatList(value=x)),
                    "y": tf.train.Feature(float_list=tf.train.FloatList(value=[sum(x)])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    return tmp_path


@pytest.fixture
def train(data, processes):
    started = []

    def train(*options):
        command = [sys.executable, "-m", "pipeline.cli", "train", "--run-fn", "with_engine.run_fn", "--workers", "2"]
        command += ["--examples", str(data / "examples"), "--schema", str(data / "schema.pbtxt")]
        command += ["--output", str(data / "out"), "--batch-size", "16"]
        command += ["--set", "checkpoint_every_steps=200", "--set", "steps_per_loop=20", *options]
        env = os.environ | {"PYTHONPATH": os.pathsep.join([str(RUN_FNS), *filter(None, sys.path)])}
        started.append(subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield train
    for process in started:
        process.kill()
        process.communicate()
    assert processes.processes_naming(str(data)) == []


def workers(data, processes):
    pids = {int(path.name) for path in (data / "out" / "model_run" / "pids").glob("*")}
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
def test_killed_preempted_resumed(data, train, processes):
    process = train("--steps", "1000000")  # more than it can do
    deadline = time.monotonic() + 120
    while not list((data / "out" / "model_run").rglob("*.index")):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline, "no checkpoint"
        time.sleep(0.05)
    os.kill(max(workers(data, processes)), signal.SIGKILL)
    lines = read_until(process, r"restart 1 of 3 of all workers")
    assert "was killed (SIGKILL" in lines[-1]
    read_until(process, r"step \d+")
    process.terminate()
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 143, errors
    assert not (data / "out" / "model" / "Format-Serving").exists()

    saved = max(int(path.name.removeprefix("step-")) for path in (data / "out" / "model_run").rglob("step-*"))
    process = train("--resume", "--steps", str(saved + 100))
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    assert f"resumed at {saved}, {saved + 100} steps on 2 replicas" in errors
    model = tf.saved_model.load(str(data / "out" / "model" / "Format-Serving"))
    assert "serving_default" in model.signatures
