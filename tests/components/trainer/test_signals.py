"""What becomes of the workers when the command that started them is stopped or killed."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

RUN_FNS = pathlib.Path(__file__).parent / "run_fns"


@pytest.fixture
def start(tmp_path, processes):
    """start("scripted.run_fn") -> the `sluice train` process, in a process group of its own as a shell gives it."""
    (tmp_path / "examples" / "Split-train").mkdir(parents=True)
    started = []

    def start(run_fn, *options):
        command = [sys.executable, "-m", "pipeline.cli", "train", "--run-fn", run_fn, "--workers", "2", "--json"]
        command += ["--examples", str(tmp_path / "examples"), "--output", str(tmp_path / "out"), *options]
        env = os.environ | {"PYTHONPATH": os.pathsep.join([str(RUN_FNS), *filter(None, sys.path)])}
        started.append(
            subprocess.Popen(command, env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()
    wait_until(lambda: processes.processes_naming(str(tmp_path)) == [])


@pytest.fixture
def marks(tmp_path):
    return tmp_path / "out" / "model_run" / "marks"


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def wait_until_running(marks):
    wait_until(lambda: all((marks / f"running-worker-{i}").exists() for i in range(2)))


def children_of_workers(marks):
    return [int((marks / f"child-worker-{i}").read_text()) for i in range(2)]


def test_a_run_that_ends_well(start, tmp_path):
    process = start("scripted.trains")
    output, errors = process.communicate(timeout=60)
    summary = json.loads(output)
    assert process.returncode == 0, errors
    assert summary["model"] == str(tmp_path / "out" / "model" / "Format-Serving")
    assert (pathlib.Path(summary["model"]) / "saved_model.pb").exists()
    assert b"[worker 1] hello from worker-1" in errors


def test_an_error_is_one_line_and_comes_last(start):
    process = start("scripted.fails_with_code")
    output, errors = process.communicate(timeout=60)
    last = errors.decode().splitlines()[-1]
    assert process.returncode == 3
    assert last.startswith("error: training failed: worker ")
    assert last.endswith(": data/part-3: record 5 at byte 812 is corrupt")
    assert errors.count(b"is corrupt") == 1
    assert output == b""


def test_debug_shows_where_an_error_for_people_comes_from(start):
    _, errors = start("scripted.fails_with_code", "--debug").communicate(timeout=60)
    assert re.search(r'scripted.py", line \d+, in fails_with_code\n', errors.decode())


def test_ctrl_c_lets_the_workers_write_a_checkpoint(start, marks, processes):
    process = start("scripted.runs_until_told")
    wait_until_running(marks)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.decode().splitlines() == [
        "training was stopped: asked to stop; saved at step 7 of 9",
        "add --resume to go on from the last checkpoint, if there is one",
        "stopped by Ctrl-C",
    ]
    assert (marks / "checkpoint-worker-0").exists()
    wait_until(lambda: not any(map(processes.is_running, children_of_workers(marks))))


def test_ctrl_c_twice_does_not_wait(start, marks, tmp_path, processes):
    process = start("scripted.ignores_sigterm")
    wait_until_running(marks)
    os.killpg(process.pid, signal.SIGINT)
    wait_until(lambda: all((marks / f"told-worker-{i}").exists() for i in range(2)))
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    wait_until(lambda: processes.processes_naming(str(tmp_path)) == [])


def test_sigterm_is_a_preemption(start, marks, processes):
    process = start("scripted.runs_until_told")
    wait_until_running(marks)
    process.terminate()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    assert errors.decode().splitlines() == [
        "error: training was stopped: asked to stop; saved at step 7 of 9; "
        "add --resume to go on from the last checkpoint, if there is one"
    ]
    assert (marks / "checkpoint-worker-1").exists()
    wait_until(lambda: not any(map(processes.is_running, children_of_workers(marks))))


def test_a_killed_command_leaves_nothing_behind(start, marks, tmp_path, processes):
    process = start("scripted.runs_until_told")
    wait_until_running(marks)
    children = children_of_workers(marks)
    process.kill()
    wait_until(lambda: processes.processes_naming(str(tmp_path)) == [])
    wait_until(lambda: not any(map(processes.is_running, children)))


def test_a_killed_command_takes_stopped_workers_along(start, marks, processes):
    process = start("scripted.ignores_sigterm")
    wait_until_running(marks)
    workers = [int((marks / f"running-worker-{i}").read_text()) for i in range(2)]
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    process.kill()
    wait_until(lambda: not any(map(processes.is_running, workers)))


def test_resume_needs_to_be_asked_for(start):
    assert start("scripted.trains").wait(timeout=60) == 0
    process = start("scripted.trains")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert b"holds an earlier run; add --resume" in errors
    assert start("scripted.trains", "--resume").wait(timeout=60) == 0
