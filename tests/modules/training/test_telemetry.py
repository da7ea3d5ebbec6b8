"""Progress for people and numbers for Prometheus."""

import shutil
import socket
import urllib.request

import numpy as np
import pytest

from modules.training.errors import TrainingConfigError
from modules.training.loop import At, Every, StepRecords, next_boundary
from modules.training.metrics import PrometheusMetrics
from modules.training.telemetry import Window, duration


def records(first_step, step_s, wait_s=0.0):
    count = len(step_s)
    ones = np.ones(count)
    return StepRecords(
        first_step=first_step,
        loss=ones * 0.5,
        grad_norm=ones,
        finite=ones,
        step_s=np.array(step_s),
        wait_s=ones * wait_s,
        reduce_s=ones * 0.1,
        stop=False,
        save=False,
    )


def snapshot():
    window = Window(global_batch=64, total_steps=1000)
    window.add(records(0, [1.0] * 5))
    window.add(records(5, [1.0, 1.0, 1.0, 1.0, 11.0], wait_s=0.5))
    return window.close(learning_rate=0.1, loss_scale=2.0, skipped_steps=3)


def test_a_window_sums_up_its_steps():
    taken = snapshot()
    assert taken.step == 10
    assert taken.step_p50_s == 1.0
    assert 1.0 < taken.step_p95_s <= 11.0
    assert taken.input_wait_share == pytest.approx(2.5 / 20)
    assert taken.all_reduce_share == pytest.approx(1.0 / 20)
    line = taken.line()
    for part in [
        "step   10/1000",
        "loss 0.5000",
        "examples/s",
        "ETA 16 min 30 s",
        "waiting for input 12%",
        "3 skipped",
    ]:
        assert part in line
    assert Window(64, 10).close(learning_rate=0.1, loss_scale=1.0, skipped_steps=0) is None


def test_durations_read_well():
    assert [duration(s) for s in (0, 59, 61, 3600 + 300)] == ["0 s", "59 s", "1 min 01 s", "1 h 05 min"]


def test_prometheus_serves_what_the_progress_line_says():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    metrics = PrometheusMetrics("worker-1", port)
    try:
        metrics.training(snapshot())
        metrics.evaluation(10, {"auc": 0.75})
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
            text = response.read().decode()
        assert 'sluice_training_step{task="worker-1"} 10.0' in text
        assert 'sluice_training_loss_scale{task="worker-1"} 2.0' in text
        assert 'sluice_training_evaluation{metric="auc",task="worker-1"} 0.75' in text
        with pytest.raises(TrainingConfigError, match=f"prometheus_port: port {port} cannot be used"):
            PrometheusMetrics("worker-1", port)
    finally:
        metrics.close()


def test_a_text_file_that_cannot_be_written_is_refused_at_first_and_only_reported_later(tmp_path, capsys):
    with pytest.raises(TrainingConfigError, match=r"prometheus_textfile: .*missing/a.prom cannot be written \(No such"):
        PrometheusMetrics("worker-0", textfile=str(tmp_path / "missing" / "a.prom"))
    (tmp_path / "there").mkdir()
    metrics = PrometheusMetrics("worker-0", textfile=str(tmp_path / "there" / "a.prom"))
    shutil.rmtree(tmp_path / "there")
    metrics.training(snapshot())
    assert "a.prom is not up to date: No such file" in capsys.readouterr().err


def test_the_loop_returns_at_the_next_thing_to_do():
    events = [Every(10), Every(0), At(25)]
    assert [next_boundary(step, 42, events) for step in (0, 10, 20, 25, 40)] == [10, 20, 25, 30, 42]
