"""Kill the deployer anywhere: afterwards the folder is as before or fully deployed, and the next push works."""

import json
import random
import shutil
import signal
import subprocess
import sys

import pytest

from components.pusher import content
from components.pusher.base_folder import BaseFolder
from components.pusher.errors import PushError
from components.pusher.journal import State

PUSH_STATES = ("RESERVED", "STAGED", "VERIFIED", "PUBLISHED", "AVAILABLE", "PROBED", "PROMOTED", "DONE")
PUSH_BOUNDARIES = [f"{side} {state}" for state in PUSH_STATES for side in ("before", "within", "after")]
PUSH_BOUNDARIES = [name for name in PUSH_BOUNDARIES if name not in ("within RESERVED", "within VERIFIED")]
UNDO_BOUNDARIES = ["after UNDOING", "before withdrawal", "before UNDONE", "after UNDONE"]
ROLLBACK_BOUNDARIES = ["after ROLLING_BACK", "before withdrawal", "before ROLLED_BACK", "after ROLLED_BACK"]


@pytest.fixture
def deployed(pushing, exported, tmp_path) -> BaseFolder:
    """A serving folder in which the model "double" is live."""
    pushing.deployer(tmp_path, clock=lambda: 1000).push(exported["double"])
    return BaseFolder(str(tmp_path), "line")


def test_every_boundary_is_crossed_by_a_push(pushing, deployed, exported):
    first = subprocess.run(
        [sys.executable, "-c", _PRINT_BOUNDARIES, str(deployed.path.parent), str(exported["triple"])],
        env=pushing.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    crossed = first.stdout.splitlines()
    assert sorted(crossed) == sorted(PUSH_BOUNDARIES)


_PRINT_BOUNDARIES = """
import sys
from push_process import BaseFolder, Deployer, PushTarget, Servers
target = PushTarget(base=sys.argv[1], name="line")
rollout = Servers(BaseFolder(target.base, target.name), fail=False)
Deployer(target, rollout=rollout, verify=lambda *_: {}, boundary=print).push(sys.argv[2])
"""


@pytest.mark.parametrize("boundary", PUSH_BOUNDARIES)
def test_killed_push_is_undone_or_finished(pushing, boundary, deployed, exported):
    before = pushing.digests(deployed)
    wanted = content.manifest_of(exported["triple"]).digest
    process = pushing.start(base=str(deployed.path.parent), model=str(exported["triple"]), kill_at=boundary)
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL

    # Even before anybody cleans up, a reader sees whole models only.
    assert set(pushing.digests(deployed).values()) <= {*before.values(), wanted}

    pushing.deployer(deployed.path.parent).recover()
    after = pushing.digests(deployed)
    assert after == before or sorted(after.values()) == sorted([*before.values(), wanted])
    state = deployed.journal.records()[-1].state
    assert state == (State.DONE if boundary == "before RESERVED" or after != before else State.UNDONE)
    published = PUSH_BOUNDARIES.index(boundary) > PUSH_BOUNDARIES.index("before PUBLISHED")
    assert (after != before) == published
    assert not any((deployed.state_path / "staging").iterdir())

    again = pushing.run(base=str(deployed.path.parent), model=str(exported["triple"]))
    assert again["outcome"] == ("unchanged" if published else "pushed")
    assert pushing.digests(deployed)[again["version"]] == wanted
    assert again["version"] == max(deployed.versions())


@pytest.mark.parametrize("boundary", UNDO_BOUNDARIES)
def test_killed_undo_is_finished(pushing, boundary, deployed, exported):
    before = pushing.digests(deployed)
    process = pushing.start(
        base=str(deployed.path.parent), model=str(exported["triple"]), kill_at=boundary, servers_fail=True
    )
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    pushing.deployer(deployed.path.parent).recover()
    assert pushing.digests(deployed) == before
    assert deployed.journal.records()[-1].state == State.UNDONE


@pytest.mark.parametrize("boundary", ROLLBACK_BOUNDARIES)
def test_killed_rollback_is_finished(pushing, boundary, deployed, exported):
    before = pushing.digests(deployed)
    pushing.deployer(deployed.path.parent).push(exported["triple"])
    process = pushing.start(base=str(deployed.path.parent), kill_at=boundary)
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    pushing.deployer(deployed.path.parent).recover()
    assert pushing.digests(deployed) == before
    assert deployed.journal.records()[-1].state == State.ROLLED_BACK


def test_kill_at_any_moment(pushing, deployed, exported):
    """Deaths between the named boundaries too: in the middle of a copy, of a rename, of a journal line."""
    big = deployed.path.parent / "big"
    shutil.copytree(exported["triple"], big)
    (big / "assets" / "table").write_bytes(random.Random(1).randbytes(60 << 20))
    before, wanted = pushing.digests(deployed), content.manifest_of(big).digest
    random_times = random.Random(7)
    for _ in range(8):
        process = pushing.start(base=str(deployed.path.parent), model=str(big))
        try:
            process.wait(timeout=random_times.uniform(0.15, 0.6))
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
        assert set(pushing.digests(deployed).values()) <= {*before.values(), wanted}
    result = pushing.run(base=str(deployed.path.parent), model=str(big))
    assert pushing.digests(deployed)[result["version"]] == wanted


def test_torn_journal_line_is_ignored_and_removed(pushing, deployed, exported):
    path = deployed.journal.path
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"version": 1001, "state": "RESER')
    assert deployed.journal.highest_version() == 1000
    result = pushing.deployer(deployed.path.parent).push(exported["triple"])
    assert result.outcome == "pushed"
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_damaged_journal_line_is_named(pushing, deployed, exported):
    lines = deployed.journal.path.read_text().splitlines(keepends=True)
    deployed.journal.path.write_text("".join([*lines[:1], "garbage\n", *lines[1:]]))
    with pytest.raises(PushError, match=r"journal\.jsonl:2: not a journal line"):
        pushing.deployer(deployed.path.parent).push(exported["triple"])


def test_undo_after_a_failed_load_leaves_the_folder_as_it_was(pushing, deployed, exported):
    before = pushing.digests(deployed)
    result = pushing.run(base=str(deployed.path.parent), model=str(exported["triple"]), servers_fail=True)
    assert "was not loaded" in result["error"]
    assert pushing.digests(deployed) == before
    assert [path.name for path in (deployed.state_path / "withdrawn").iterdir()] != []


def test_recovery_of_a_push_that_cannot_be_finished_does_not_stop_the_next(pushing, deployed, exported):
    process = pushing.start(base=str(deployed.path.parent), model=str(exported["triple"]), kill_at="after PUBLISHED")
    process.communicate(timeout=120)
    result = pushing.run(base=str(deployed.path.parent), model=str(exported["triple"]), servers_fail=True)
    assert "was not loaded" in result["error"]
    again = pushing.run(base=str(deployed.path.parent), model=str(exported["triple"]))
    assert again["outcome"] == "pushed"


def test_recover_with_nothing_to_do(pushing, deployed):
    assert pushing.deployer(deployed.path.parent).recover() is None


def test_rollback_needs_an_older_version(pushing, deployed):
    with pytest.raises(PushError, match="no older version to go back to"):
        pushing.deployer(deployed.path.parent).rollback()
