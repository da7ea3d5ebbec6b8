"""Local clusters, with run_fns that do without TensorFlow."""

import hashlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from components import file_record
from components.trainer.cluster_config import ClusterConfig
from components.trainer.errors import TrainingConfigError, TrainingError
from components.trainer.launch import _cancelled_by_sigterm, launch
from components.trainer.local_job import LocalJob

pytestmark = pytest.mark.usefixtures("no_orphans")

FAST = {"restart_backoff_seconds": 0.01, "peer_exit_seconds": 2.0}


def cluster(num_workers=1, **overrides):
    return ClusterConfig(num_workers=num_workers, **(FAST | overrides))


def test_one_worker_is_a_plain_process(make_spec, marks, capfd, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "left over from somewhere")
    spec = make_spec("scripted.trains", custom_config={"a": [1]})
    result = launch(spec, cluster())
    given = json.loads((marks / "given-worker-0").read_text())
    assert result.is_done
    assert given["tf_config"] is None
    assert given["fn_args"]["custom_config"] == {"a": [1]}
    assert capfd.readouterr().err == "hello from worker-0\n"
    model = pathlib.Path(spec.fn_args["serving_model_dir"])
    exported = (model / "saved_model.pb").read_bytes()
    assert json.loads((model / file_record.PATH).read_text()) == {
        "saved_model.pb": {"size": len(exported), "sha256": hashlib.sha256(exported).hexdigest()}
    }


def test_a_worker_imports_nothing_heavy_by_itself(make_spec, marks):
    """TensorFlow takes seconds to import and TFX as long again: only what run_fn asks for is paid for."""
    launch(make_spec("scripted.trains"), cluster())
    assert json.loads((marks / "given-worker-0").read_text())["heavy"] == []


def test_three_workers_know_each_other(make_spec, marks, capfd):
    launch(make_spec("scripted.trains"), cluster(3))
    given = [json.loads(json.loads((marks / f"given-worker-{i}").read_text())["tf_config"]) for i in range(3)]
    assert [config["task"] for config in given] == [{"type": "worker", "index": i} for i in range(3)]
    assert given[0]["cluster"] == given[1]["cluster"] == given[2]["cluster"]
    assert len(set(given[0]["cluster"]["worker"])) == 3
    assert sorted(capfd.readouterr().err.splitlines()) == [f"[worker {i}] hello from worker-{i}" for i in range(3)]


@pytest.mark.parametrize(("num_workers", "own", "expected"), [(1, None, None), (2, None, "share"), (2, "7", "7")])
def test_workers_share_out_the_cores(make_spec, marks, monkeypatch, num_workers, own, expected):
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    if own:
        monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", own)
    launch(make_spec("scripted.trains"), cluster(num_workers))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    share = str(max(1, cores // num_workers))
    assert json.loads((marks / "given-worker-0").read_text())["threads"] == (share if expected == "share" else expected)


def test_chatter_stays_in_the_log_file(make_spec, capfd):
    spec = make_spec("scripted.chatters")
    launch(spec, cluster(2))
    shown = capfd.readouterr().err.splitlines()
    assert len(shown) == 2
    assert all(line.endswith("coordination_service.cc:7] a peer has failed") for line in shown)
    assert "oneDNN custom operations" in pathlib.Path(spec.job_dir, "job.log").read_text()


def test_only_the_chiefs_export_is_kept(make_spec):
    spec = make_spec("scripted.trains")
    launch(spec, cluster(3))
    model_dir = pathlib.Path(spec.model_dir)
    assert [path.name for path in model_dir.iterdir()] == ["Format-Serving"]
    assert (model_dir / "Format-Serving" / "saved_model.pb").read_text() == "exported by worker-0"


def test_a_run_fn_that_exports_nothing(make_spec):
    with pytest.raises(TrainingError, match=r"scripted\.exports_nothing returned without a model") as caught:
        launch(make_spec("scripted.exports_nothing"), cluster())
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("run_fn", "expected"),
    [
        ("scripted.trane", r"run_fn is scripted\.trane, but .*/scripted\.py has no function trane"),
        ("no_such_module.run_fn", r"run_fn is no_such_module\.run_fn, but there is no module no_such_module"),
        ("json.no_such_module.run_fn", r"run_fn is .*, but there is no module json\.no_such_module"),
    ],
)
def test_a_run_fn_that_is_not_there(make_spec, run_fn, expected, capfd):
    with pytest.raises(TrainingError, match=expected) as caught:
        launch(make_spec(run_fn), cluster())
    assert caught.value.exit_code == 2
    assert "Traceback" not in capfd.readouterr().err


def test_a_run_fn_whose_module_misses_something(make_spec, capfd):
    with pytest.raises(TrainingError, match="ModuleNotFoundError: No module named 'no_such_library'"):
        launch(make_spec("misses_a_library.run_fn"), cluster())
    assert 'misses_a_library.py", line 3' in capfd.readouterr().err


@pytest.mark.parametrize("run_fn", ["scripted.one_raises", "scripted.peers_see_it_first"])
def test_the_cause_is_named_and_shown(make_spec, capfd, run_fn):
    with pytest.raises(TrainingError) as caught:
        launch(make_spec(run_fn), cluster(3))
    assert str(caught.value) == "training failed: worker 1: ValueError: the label of row 17 is neither 0 nor 1"
    assert caught.value.exit_code == 1
    shown = capfd.readouterr().err
    assert shown.startswith("the cause, in the words of the task that failed:\n")
    assert shown.count('raise ValueError("the label of row 17 is neither 0 nor 1")') == 1
    assert shown.endswith("ValueError: the label of row 17 is neither 0 nor 1\n")
    assert "worker.py" not in shown  # from the user's code on
    assert "restart" not in shown


def test_an_error_for_people_keeps_its_exit_code_and_has_no_traceback(make_spec, capfd):
    with pytest.raises(TrainingError, match=r"failed: worker \d: data/part-3: record 5 at byte") as caught:
        launch(make_spec("scripted.fails_with_code"), cluster(2))
    assert caught.value.exit_code == 3
    assert "Traceback" not in capfd.readouterr().err


def test_no_half_export(make_spec):
    spec = make_spec("scripted.half_export_then_raises")
    with pytest.raises(TrainingError, match="No space left on device"):
        launch(spec, cluster(2))
    assert list(pathlib.Path(spec.model_dir).iterdir()) == []


@pytest.mark.parametrize("moment", ["start", "train", "export"])
@pytest.mark.parametrize("victim", ["worker-0", "worker-1"])
def test_a_killed_worker_restarts_the_gang(make_spec, marks, capfd, victim, moment):
    spec = make_spec("scripted.killed_at", custom_config={"victim": victim, "moment": moment})
    result = launch(spec, cluster(2))
    assert result.num_restarts == 1
    assert (marks / f"attempts-{victim}").read_text() == ".."
    assert f"{victim.replace('-', ' ')} was killed" in capfd.readouterr().err
    assert pathlib.Path(spec.fn_args["serving_model_dir"], "saved_model.pb").exists()


def test_the_budget_of_restarts(make_spec, marks):
    with pytest.raises(TrainingError, match=r"worker 0 was killed .*; gave up after 2 restarts") as caught:
        launch(make_spec("scripted.always_killed"), cluster(max_restarts=2))
    assert caught.value.exit_code == 137
    assert (marks / "attempts-worker-0").read_text() == "..."


def test_the_pause_before_a_restart_grows(make_spec):
    started = time.monotonic()
    with pytest.raises(TrainingError):
        launch(make_spec("scripted.always_killed"), cluster(2, max_restarts=2, restart_backoff_seconds=0.4))
    assert time.monotonic() - started > 0.4 + 0.8


def test_a_worker_that_stumbles_over_the_end_of_the_chief(make_spec, marks, capfd):
    result = launch(make_spec("scripted.stumbles_at_the_end"), cluster(2))
    assert (result.is_done, result.num_restarts) == (True, 0)
    assert "worker 1 crashed in native code (signal 6) after the chief was done" in capfd.readouterr().err
    assert (marks / "attempts-worker-0").read_text() == "."


def test_a_worker_that_hangs_after_the_end_of_the_chief(make_spec):
    result = launch(make_spec("scripted.hangs_at_the_end"), cluster(2, peer_exit_seconds=0.1))
    assert (result.is_done, result.num_restarts) == (True, 0)


def test_workers_stay_until_the_chief_has_exported(make_spec, capfd):
    launch(make_spec("scripted.chief_exports_late"), cluster(3))
    assert "[worker 0] alive: [True, True]" in capfd.readouterr().err


def test_a_stopped_worker_is_killed_and_the_gang_restarted(make_spec, marks):
    result = launch(make_spec("scripted.stopped_once"), cluster(3, peer_exit_seconds=0.3))
    assert result.num_restarts == 1
    assert (marks / "attempts-worker-1").read_text() == ".."


def test_parameter_servers_end_with_the_chief(make_spec, marks):
    spec = make_spec("scripted.parameter_servers")
    launch(spec, cluster(2, num_parameter_servers=1, evaluator=True))
    assert sorted(path.name for path in marks.glob("running-*"))[0] == "running-chief-0"
    assert pathlib.Path(spec.fn_args["serving_model_dir"], "saved_model.pb").read_text() == "exported by chief-0"


def test_a_port_in_use(make_spec):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(TrainingConfigError, match=f"port {port} cannot be used .*Address already in use") as caught:
            launch(make_spec("scripted.trains"), cluster(first_port=port))
    assert caught.value.exit_code == 2


def test_a_folder_that_cannot_be_written(make_spec, tmp_path):
    (tmp_path / "run").write_text("a file where a folder is needed")
    with pytest.raises(TrainingConfigError, match=r"cannot write to .*run.*\(Not a directory\)"):
        launch(make_spec("scripted.trains"), cluster())


def test_a_daemon_does_not_keep_the_step_from_ending(make_spec, marks):
    try:
        assert launch(make_spec("scripted.leaves_a_daemon"), cluster()).is_done
    finally:
        os.kill(int((marks / "daemon").read_text()), signal.SIGKILL)


FULL_DISK = """
import pathlib, resource, signal, sys
from components.trainer.log_book import LogBook
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
book = LogBook(pathlib.Path(sys.argv[1]))
for number in range(10):
    book.append(f"a line of some length, number {number}")
book.close()
"""


def test_a_full_disk_does_not_stop_the_output(tmp_path):
    """Nobody may stop emptying a worker's pipe: the worker would wait for it."""
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / "job.log")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    written, shown = (tmp_path / "job.log").read_text(), done.stderr.splitlines()
    assert all(f"number {number}" in written + done.stderr for number in range(10))
    assert len(shown) < 10
    assert ["File too large" in line for line in shown] == [True] + [False] * (len(shown) - 1)


def test_the_deadline(make_spec):
    with pytest.raises(TrainingError, match=r"longer than cluster\.deadline_seconds") as caught:
        launch(make_spec("scripted.ignores_sigterm"), cluster(2, deadline_seconds=2.0))
    assert caught.value.exit_code == 1


def test_cancel_leaves_time_for_a_checkpoint(make_spec, marks):
    job = LocalJob(_written(make_spec("scripted.runs_until_told")), cluster(2))
    job.submit()
    _wait_for(marks / "running-worker-0", marks / "running-worker-1")
    job.cancel()
    assert job.wait().exit_code == 143
    assert (marks / "checkpoint-worker-0").exists()
    assert (marks / "checkpoint-worker-1").exists()


def test_a_supervisor_that_tells_the_process_and_its_group_asks_once(make_spec, marks):
    job = LocalJob(_written(make_spec("scripted.runs_until_told")), cluster(2))
    with _cancelled_by_sigterm(job):
        job.submit()
        _wait_for(marks / "running-worker-0", marks / "running-worker-1")
        for _ in range(2):
            signal.raise_signal(signal.SIGTERM)
    assert job.wait().message == "training was stopped: asked to stop; saved at step 7 of 9"
    assert (marks / "checkpoint-worker-0").exists()
    assert (marks / "checkpoint-worker-1").exists()


def test_cancel_leaves_parameter_servers_to_the_chief(make_spec, marks):
    """What they hold would be gone before it is saved."""
    spec = _written(make_spec("scripted.chief_saves_what_servers_hold"))
    job = LocalJob(spec, cluster(1, num_parameter_servers=1))
    job.submit()
    _wait_for(*(marks / f"running-{task}" for task in ("chief-0", "worker-0", "ps-0")))
    job.cancel()
    assert job.wait().message == "training was stopped: asked to stop; saved at step 7 of 9"
    assert [path.name for path in marks.glob("told-*")] == ["told-chief-0"]


@pytest.mark.parametrize("how", ["the grace period", "a second call"])
def test_cancel_does_not_wait_for_ever(make_spec, marks, how):
    grace_seconds = 0.2 if how == "the grace period" else 600
    job = LocalJob(_written(make_spec("scripted.ignores_sigterm")), cluster(2, grace_seconds=grace_seconds))
    job.submit()
    _wait_for(marks / "running-worker-0", marks / "running-worker-1")
    job.cancel()
    if how == "a second call":
        job.cancel()
    result = job.wait()
    assert result.exit_code == 143
    late = "worker 0, worker 1 did not end in time (cluster: grace_seconds) and had to be killed"
    assert result.message == "training was stopped" + (f": {late}" if how == "the grace period" else "")


def test_cancel_between_two_attempts(make_spec, marks):
    job = LocalJob(_written(make_spec("scripted.always_killed")), cluster(restart_backoff_seconds=600))
    job.submit()
    lines = job.logs()
    while "restart 1 of" not in next(lines):
        pass
    job.cancel()
    assert job.wait().exit_code == 143


def test_logs_can_be_followed_by_several_readers(make_spec):
    job = LocalJob(_written(make_spec("scripted.trains")), cluster(2))
    job.submit()
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(sorted(job.logs()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert job.wait().is_done
    for thread in threads:
        thread.join(timeout=10)
    assert seen == [["[worker 0] hello from worker-0", "[worker 1] hello from worker-1"]] * 3


def _written(spec):
    spec.write()
    return spec


def _wait_for(*paths):
    deadline = time.monotonic() + 30
    while not all(path.exists() for path in paths):
        assert time.monotonic() < deadline, f"not there in time: {paths}"
        time.sleep(0.01)
