"""The engine dates the file that a pod's liveness probe looks at, and components/trainer's probe understands it."""

import os
import time

from components.trainer import heartbeat
from modules.training.cluster import read_cluster
from modules.training.watchdog import Watchdog


def _wait_for(condition) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)  # between two looks at the condition


def test_every_step_of_progress_dates_the_file(tmp_path, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    path = tmp_path / "last-step"
    monkeypatch.setenv(heartbeat.FILE_VARIABLE, str(path))
    assert not heartbeat.is_stalled(10)  # nobody is killed before the first step
    step = [0]
    with Watchdog(read_cluster(), progress=lambda: step[0]).watching():
        _wait_for(path.exists)
        os.utime(path, (0, 0))
        assert heartbeat.is_stalled(10)
        step[0] = 1
        _wait_for(lambda: not heartbeat.is_stalled(10))


def test_an_unwritable_place_is_reported_and_the_watchdog_lives_on(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setenv(heartbeat.FILE_VARIABLE, str(tmp_path / "missing" / "last-step"))
    stalled = []
    watchdog = Watchdog(read_cluster(), on_stall=stalled.append)
    with watchdog.watching():
        watchdog.enter("training", 0.01)
        _wait_for(lambda: stalled)
    assert "cannot write the heartbeat file" in capsys.readouterr().err
