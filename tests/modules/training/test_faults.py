"""Stopped, hung and misled workers: exit codes, messages, nothing half-written. Killed ones: test_kills.py."""

import signal
import socket

import numpy as np
import pytest

pytestmark = pytest.mark.e2e

PEER_LOST, PREEMPTED = 138, 143


def test_sigterm_to_one_worker_saves_once_and_ends_all_with_143(job, undisturbed):
    with job.start(checkpoint_every_steps=0) as workers:
        workers.until(lambda: "step 10/" in workers.workers[0].text)
        workers.workers[1].send(signal.SIGTERM)
        assert workers.wait() == [PREEMPTED, PREEMPTED], workers.logs()
    assert len(job.checkpoints()) == 1
    with job.start(num_workers=1) as workers:
        assert workers.wait() == [0], workers.logs()
    assert 10 <= job.result()["resumed_at"] < job.STEPS
    job.assert_same_weights(undisturbed)


def test_hung_worker_is_noticed_by_everybody(job):
    # The hung one is the more patient: it must not end first, which its peer would notice in another way.
    trouble = {"kind": "hang", "worker": 1, "calls": [30], "config": {"stall_timeout_s": 9.0}}
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
        assert f"evaluation at step {job.STEPS}" in evaluator.text
    assert job.result()["steps"] == job.STEPS
    assert (job.model_dir / "saved_model.pb").exists()
    assert job.checkpoints()[-1] == f"step-{job.STEPS:09d}"


def test_parameter_server_that_does_not_come_is_named(job):
    tasks = [("chief", 0), ("worker", 0), ("ps", 0)]
    with job.start(tasks=tasks, only=[0], startup_timeout_s=2.0) as running:
        assert running.wait() == [PEER_LOST], running.logs()
        assert "chief 0 (127.0.0.1" in running.logs()
        assert "no answer for 2 s from worker 0 (127.0.0.1" in running.logs()
        assert "ps 0 (127.0.0.1" in running.logs()
