"""A checkpoint that is damaged, foreign or somebody's copy: named, with what to do, and never half read."""

import json
from pathlib import Path

import pytest
import tensorflow as tf

from modules.training.checkpoint import CheckpointFolder, SavedState
from modules.training.errors import StorageError, TrainingError


def state(step):
    return SavedState(step=step, position=step, global_batch=8, data=[], sharding="data", num_replicas=1)


def folder_of(path, size=1000, **kwargs):
    variable = tf.Variable(tf.random.stateless_uniform([size], [1, 2]))
    return CheckpointFolder(str(path), {"w": variable}, is_chief=True, max_to_keep=2, **kwargs), variable


@pytest.fixture
def saved(tmp_path):
    """A folder with the checkpoints of steps 1 and 2."""
    folder, _ = folder_of(tmp_path / "checkpoints")
    for step in (1, 2):
        folder.save(state(step))
    return Path(folder.folder)


def cut(path):
    path.write_bytes(path.read_bytes()[:50])


def flip(path):
    content = bytearray(path.read_bytes())
    content[2000] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: cut(path / "model.data-00000-of-00001"),
        lambda path: flip(path / "model.data-00000-of-00001"),
        lambda path: (path / "model.data-00000-of-00001").unlink(),
        lambda path: (path / "model.index").unlink(),
        lambda path: (path / "model.index").write_text("garbage"),
        lambda path: (path / "state.json").write_text("garbage"),
        lambda path: (path / "state.json").write_bytes(b"\xff\xfe"),
        lambda path: (path / "state.json").write_text("[]"),
        lambda path: (path / "state.json").write_text('{"step": 2}'),
        lambda path: (path / "state.json").write_text((path / "state.json").read_text().replace(": 2,", ': "2",')),
    ],
)
def test_a_damaged_checkpoint_says_what_to_do_and_that_works(saved, damage):
    damage(saved / "step-000000002")
    folder, variable = folder_of(saved)
    with pytest.raises(
        StorageError, match=r"step-000000002.*; remove that folder, and training goes on from"
    ) as raised:
        folder.restore(folder.latest())
    assert raised.value.keeps_work
    assert "function_node" not in str(raised.value)
    assert "\n" not in str(raised.value)
    folder._remove(folder.latest())
    assert folder.restore(folder.latest()).step == 1
    assert float(variable[0]) > 0


def test_another_model_is_told_from_damage(saved):
    folder, _ = folder_of(saved, size=7)
    with pytest.raises(TrainingError, match=r"does not fit this model and optimizer \(Received incompatible tensor"):
        folder.restore(folder.latest())


def test_what_others_have_put_there_is_neither_read_nor_removed(saved):
    (saved / "step-000000001").rename(saved / "step-000000001.kept")
    (saved / "step-best").mkdir()
    (saved / "step-best" / "state.json").write_text("mine")
    folder, _ = folder_of(saved)
    for step in (3, 1_000_000_000):  # ten digits
        folder.save(state(step))
    assert folder.latest().endswith("step-1000000000")
    names = {"step-000000001.kept", "step-best", "step-000000003", "step-1000000000"}
    assert {path.name for path in saved.iterdir()} == names
    assert json.loads((saved / "step-000000001.kept" / "state.json").read_text())["step"] == 1
