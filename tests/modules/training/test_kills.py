"""SIGKILL of the chief or a worker, at all kinds of moments: who ends how, what is left, and that going on is the same.

A few moments are part of every run. `make e2e-train` sets SLUICE_KILLS=all.
"""

import os
import signal

import pytest

pytestmark = pytest.mark.e2e

PEER_LOST, KILLED = 138, -signal.SIGKILL
CHIEF, WORKER = 0, 1
EVERY_RUN = {("mid_epoch", WORKER), ("at_seal", CHIEF), ("in_export", CHIEF)}
# Moment, what its victim does then, and what the job must have saved by then.
MOMENTS = [
    ("at_start", {"kind": "at_start"}, 0),
    ("in_cluster", {"kind": "in_cluster"}, 0),
    ("in_compile", {"kind": "in_compile"}, 0),
    ("mid_epoch", {"kind": "hang", "calls": [30]}, 20),
    ("in_checkpoint", {"kind": "in_checkpoint"}, 20),  # the chief's; what a worker writes is thrown away
    ("at_seal", {"kind": "at_seal"}, 0),
    ("after_seal", {"kind": "after_seal"}, 20),
    ("in_evaluation", {"kind": "in_evaluation"}, 60),
    ("in_export", {"kind": "in_export"}, 60),
    ("in_reload", {"kind": "in_reload"}, 60),
    ("at_end", {"kind": "at_end"}, 60),
]
OF_THE_CHIEF = {"at_seal", "after_seal", "in_export", "in_reload"}
OF_WORKERS = {"in_checkpoint"}
# Once the last evaluation and checkpoint are done, nobody needs the others any more.
NEEDS_NO_PEER = {"in_export", "in_reload", "at_end"}
CASES = [
    pytest.param(moment, trouble, saved, victim, id=f"{moment}-{'worker' if victim else 'chief'}")
    for moment, trouble, saved in MOMENTS
    for victim in (CHIEF, WORKER)
    if moment not in (OF_WORKERS if victim == CHIEF else OF_THE_CHIEF)
    and (os.environ.get("SLUICE_KILLS") == "all" or (moment, victim) in EVERY_RUN)
]


@pytest.mark.parametrize(("moment", "trouble", "saved", "victim"), CASES)
def test_killed(job, undisturbed, moment, trouble, saved, victim):
    patience = {"startup_timeout_s": 30.0} if moment == "at_start" else {}
    expected = [f"step-{saved:09d}"] if saved else []
    with job.start(trouble={**trouble, "worker": victim}, **patience) as workers:
        workers.until(lambda: job.marked and job.checkpoints()[-1:] == expected)
        workers.workers[victim].send(signal.SIGKILL)
        codes = workers.wait()
        peer = workers.workers[1 - victim]
        assert codes[victim] == KILLED, workers.logs()
        assert codes[1 - victim] == (0 if moment in NEEDS_NO_PEER else PEER_LOST), workers.logs()
        if moment not in NEEDS_NO_PEER:
            assert "lost worker" in peer.text or "no answer" in peer.text, workers.logs()
    was_exported = moment == "at_end"
    assert job.model_dir.exists() == was_exported
    assert job.checkpoints()[-1:] == expected
    again = {"num_workers": 2, "late": True} if (moment, victim) == ("mid_epoch", WORKER) else {"num_workers": 1}
    with job.start(**again) as workers:
        assert set(workers.wait()) == {0}, workers.logs()
    assert job.result()["resumed_at"] == saved
    assert (job.model_dir / "saved_model.pb").exists()
    assert not list(job.model_dir.parent.glob("*.writing-*"))
    job.assert_same_weights(undisturbed)
