"""Lost, stopped and hung workers: exit codes, messages, nothing half-written, and resuming to the same weights."""

import json
import signal
import socket
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.e2e

STEPS = 60
PEER_LOST, PREEMPTED = 138, 143


class Job:
    """One training job: its settings file, its folders, and a way to start its workers."""

    def __init__(self, gang, trips, root: Path):
        self.gang, self.trips, self.root = gang, trips, root
        self.run_dir, self.model_dir = root / "run", root / "model" / "Format-Serving"

    def start(self, num_workers=2, trouble=None, ports=None, tasks=None, late=False, **config):
        settings = {
            "batch_size": 32 // num_workers,
            "sharding": "data",
            "learning_rate": 0.01,
            "steps_per_loop": 5,
            "log_every": 10,
            **config,
        }
        settings.setdefault("checkpoint_every_steps", 20)
        fn_args = {
            "train_files": self.trips.train,
            "eval_files": self.trips.evaluation,
            "train_steps": STEPS,
            "transform_graph_path": self.trips.graph,
            "serving_model_dir": str(self.model_dir),
            "model_run_dir": str(self.run_dir),
            "custom_config": {"training": settings},
        }
        path = self.root / "settings.json"
        values = {"fn_args": fn_args, "result": str(self.root / "result.json")}
        if trouble:
            values["trouble"] = {"marker": str(self.root / "marker"), **trouble}
        path.write_text(json.dumps(values))
        return self.gang("trip", [str(path)], num_workers, ports=ports, tasks=tasks, late=late)

    @property
    def marked(self) -> bool:
        return (self.root / "marker").exists()

    def checkpoints(self):
        folder = self.run_dir / "checkpoints"
        return sorted(p.parent.name for p in folder.glob("*/state.json")) if folder.exists() else []

    def result(self):
        return json.loads((self.root / "result.json").read_text())


@pytest.fixture
def job(gang, trips, tmp_path):
    return Job(gang, trips, tmp_path)


@pytest.fixture(scope="module")
def undisturbed(gang, trips, tmp_path_factory):
    """The weights of a training that nothing happened to: one worker with the same global batch."""
    job = Job(gang, trips, tmp_path_factory.mktemp("undisturbed"))
    with job.start(num_workers=1) as workers:
        assert workers.wait() == [0], workers.logs()
    return job.result()


def assert_same_weights(one, other):
    for a, b in zip(one["weights"], other["weights"], strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5)


def test_killed_worker_ends_its_peer_with_138_and_a_restart_with_a_late_worker_gives_the_same_weights(job, undisturbed):
    with job.start() as workers:
        workers.until(job.checkpoints)
        workers.workers[1].send(signal.SIGKILL)
        assert workers.wait() == [PEER_LOST, -signal.SIGKILL], workers.logs()
        assert "worker 1 (127.0.0.1" in workers.workers[0].text
    assert not job.model_dir.exists()
    with job.start(late=True) as workers:
        assert workers.wait() == [0, 0], workers.logs()
    assert job.result()["resumed_at"] >= 20
    assert_same_weights(job.result(), undisturbed)


def test_chief_killed_while_saving_leaves_no_checkpoint_that_would_be_read(job, undisturbed):
    with job.start(trouble={"kind": "at_seal", "worker": 0}) as workers:
        workers.until(lambda: job.marked)
        workers.workers[0].send(signal.SIGKILL)
        assert workers.wait() == [-signal.SIGKILL, PEER_LOST], workers.logs()
    assert job.checkpoints() == []
    assert list((job.run_dir / "checkpoints").glob("step-*"))  # its remains are there, and ignored
    with job.start(num_workers=1) as workers:
        assert workers.wait() == [0], workers.logs()
    assert job.result()["resumed_at"] == 0
    assert_same_weights(job.result(), undisturbed)


def test_chief_killed_while_exporting_leaves_no_model_and_exports_when_started_again(job, undisturbed):
    with job.start(trouble={"kind": "in_export", "worker": 0}) as workers:
        workers.until(lambda: job.marked)
        workers.workers[0].send(signal.SIGKILL)
        assert workers.wait() == [-signal.SIGKILL, 0], workers.logs()
    assert not job.model_dir.exists()
    with job.start(num_workers=1) as workers:
        assert workers.wait() == [0], workers.logs()
    assert job.result()["resumed_at"] == STEPS
    assert (job.model_dir / "saved_model.pb").exists()
    assert_same_weights(job.result(), undisturbed)


def test_sigterm_to_one_worker_saves_once_and_ends_all_with_143(job, undisturbed):
    with job.start(checkpoint_every_steps=0) as workers:
        workers.until(lambda: "step 10/" in workers.workers[0].text)
        workers.workers[1].send(signal.SIGTERM)
        assert workers.wait() == [PREEMPTED, PREEMPTED], workers.logs()
    assert len(job.checkpoints()) == 1
    with job.start(num_workers=1) as workers:
        assert workers.wait() == [0], workers.logs()
    assert 10 <= job.result()["resumed_at"] < STEPS
    assert_same_weights(job.result(), undisturbed)


def test_hung_worker_is_noticed_by_everybody(job):
    trouble = {"kind": "hang", "worker": 1, "calls": [30]}
    with job.start(trouble=trouble, stall_timeout_s=4.0) as workers:
        assert workers.wait() == [PEER_LOST, PEER_LOST], workers.logs()
        assert "no progress for" in workers.workers[0].text
        assert "all peers answer, so one of them hangs" in workers.workers[0].text
        assert "wait_for_ever" in workers.workers[1].text  # the hung one shows where it hangs


def test_stopped_worker_is_noticed(job):
    with job.start(stall_timeout_s=5.0) as workers:
        workers.until(job.checkpoints)
        workers.workers[1].send(signal.SIGSTOP)
        workers.until(lambda: workers.workers[0].process.poll() is not None)
        assert workers.workers[0].process.returncode == PEER_LOST


def test_infinite_gradient_on_one_worker_skips_the_step_on_all(job):
    trouble = {"kind": "infinite", "worker": 1, "calls": [9]}
    with job.start(trouble=trouble, precision="mixed_float16") as workers:
        assert workers.wait() == [0, 0], workers.logs()
    assert job.result()["skipped"] == 1
    assert all(np.isfinite(weight).all() for weight in job.result()["weights"])


def test_nan_names_step_and_batch(job):
    trouble = {"kind": "nan", "worker": 1, "calls": [12]}
    with job.start(trouble=trouble) as workers:
        assert workers.wait() == [1, 1], workers.logs()
        assert "not finite in step 12, batch 1 of epoch 1" in workers.workers[0].text


def test_taken_port_is_named(job):
    with socket.socket() as holder, socket.socket() as other:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        other.bind(("127.0.0.1", 0))
        ports = [other.getsockname()[1], holder.getsockname()[1]]
        other.close()
        with job.start(ports=ports) as workers:
            workers.until(lambda: workers.workers[1].process.poll() is not None)
            assert workers.workers[1].process.returncode == 2
            assert f"port {ports[1]} is taken" in workers.workers[1].text


def test_full_disk_ends_with_a_plain_message_and_no_half_checkpoint(job):
    with job.start(num_workers=1, trouble={"kind": "file_limit", "worker": 0, "bytes": 15_000}) as workers:
        assert workers.wait() == [1], workers.logs()
        assert "cannot write the checkpoint" in workers.workers[0].text, workers.logs()
    assert job.checkpoints() == []
    assert not job.model_dir.exists()


def test_parameter_servers_train_and_the_evaluator_follows(job):
    tasks = [("chief", 0), ("worker", 0), ("ps", 0), ("evaluator", 0)]
    with job.start(tasks=tasks) as running:
        chief, worker, server, evaluator = running.workers
        running.until(lambda: chief.process.poll() is not None and evaluator.process.poll() is not None, 240)
        assert (chief.process.returncode, evaluator.process.returncode) == (0, 0), running.logs()
        assert worker.process.poll() is None  # these are ended by whoever started them
        assert server.process.poll() is None
        assert f"evaluation at step {STEPS}" in evaluator.text
    assert job.result()["steps"] == STEPS
    assert (job.model_dir / "saved_model.pb").exists()
    assert job.checkpoints()[-1] == f"step-{STEPS:09d}"
