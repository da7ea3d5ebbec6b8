"""Checkpoints that are whole or not there, and carry the position in the data.

Layout under the training folder:

    checkpoints/step-000001200/model.index, model.data-*   TensorFlow's own format (tf.train.load_checkpoint reads it)
    checkpoints/step-000001200/state.json                  step, batch size, data identity; written last: the seal
    best/step-...                                          the same, of the best evaluation

A folder without its seal is the remains of a crash: it is never read, and removed by the next save.
"""

import dataclasses
import json
import re
import tempfile
import uuid
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from modules.training.errors import StorageError, TrainingError
from modules.training.failures import essence

_NAME = re.compile(r"step-\d+")  # anything else, such as a copy that somebody keeps, is left alone
_SEAL = "state.json"
_IF_DAMAGED = "remove that folder, and training goes on from the checkpoint before it"


@dataclasses.dataclass(frozen=True)
class SavedState:
    """What a checkpoint knows besides variables."""

    step: int
    """Global batches trained on so far."""
    position: int
    """Which global batch of the endless stream of epochs comes next, counted in batches of `global_batch`."""
    global_batch: int
    """Examples in a full global batch."""
    data: list
    """RecordFiles.identity() of the training files."""
    sharding: str
    num_replicas: int
    metrics: dict[str, float] = dataclasses.field(default_factory=dict)
    """Of the latest evaluation."""
    progress: dict[str, Any] = dataclasses.field(default_factory=dict)
    """The loop's own bookkeeping (best metric, evaluations without progress)."""


def check_writable(folder: str) -> None:
    """Finds out before hours of training, not after them.

    Raises:
      StorageError: no file can be made in `folder`.
    """
    probe = f"{folder.rstrip('/')}/.writable-{uuid.uuid4().hex[:8]}"
    try:
        tf.io.gfile.makedirs(folder)
        with tf.io.gfile.GFile(probe, "w") as file:
            file.write("ok")
        tf.io.gfile.remove(probe)
    except (tf.errors.OpError, OSError) as error:
        raise StorageError(f"cannot write to {folder}: {getattr(error, 'message', None) or error}") from None


class CheckpointFolder:
    """Saves and finds checkpoints in one folder, local or remote.

    Every worker must call `save` at the same step (variables that are averaged over workers are reduced on the way);
    only the chief's files stay.
    """

    def __init__(
        self, folder: str, objects: Mapping[str, tf.train.Checkpoint | object], *, is_chief: bool, max_to_keep: int
    ):
        self.folder = folder.rstrip("/")
        self._checkpoint = tf.train.Checkpoint(**objects)
        self._is_chief, self._max_to_keep = is_chief, max_to_keep

    def save(self, state: SavedState) -> str | None:
        """Writes a checkpoint; returns its folder on the chief, None elsewhere.

        Raises:
          StorageError: the folder cannot be written or the disk is full; no half-written checkpoint stays.
        """
        if not self._is_chief:
            with tempfile.TemporaryDirectory(prefix="checkpoint-") as scratch:
                self._checkpoint.write(f"{scratch}/model")
            return None
        final = f"{self.folder}/step-{state.step:09d}"
        try:
            self._remove(final)  # the remains of an interrupted save of this very step
            tf.io.gfile.makedirs(final)
            self._checkpoint.write(f"{final}/model")
            text = json.dumps(dataclasses.asdict(state), indent=1)
            with tf.io.gfile.GFile(f"{final}/{_SEAL}.tmp", "w") as file:
                file.write(text)
            tf.io.gfile.rename(f"{final}/{_SEAL}.tmp", f"{final}/{_SEAL}", overwrite=True)
        except (tf.errors.OpError, OSError) as error:
            self._remove(final)
            message = essence(getattr(error, "message", None) or str(error))
            raise StorageError(f"cannot write the checkpoint {final}: {message}") from error
        self._sweep(keep=final)
        return final

    def latest(self) -> str | None:
        """The folder of the newest whole checkpoint, or None."""
        whole = self._whole()
        return whole[-1] if whole else None

    def read_state(self, path: str) -> SavedState:
        """The state of one checkpoint folder.

        Raises:
          StorageError: the state file is not what this class writes.
        """
        try:
            with tf.io.gfile.GFile(f"{path}/{_SEAL}", "rb") as file:
                state = SavedState(**json.loads(file.read()))
            for name in ("step", "position", "global_batch", "num_replicas"):
                if not isinstance(getattr(state, name), int):
                    raise ValueError(f"{name} is {getattr(state, name)!r}")
        except (ValueError, TypeError, tf.errors.OpError) as error:
            raise StorageError(f"{path}/{_SEAL} is not a checkpoint's state ({error}); {_IF_DAMAGED}") from None
        return state

    def restore(self, path: str) -> SavedState:
        """Reads variables (on every worker) and state.

        Raises:
          TrainingError: the checkpoint belongs to another model or optimizer.
          StorageError: it is damaged.
        """
        state = self.read_state(path)
        try:
            self._checkpoint.read(f"{path}/model").assert_existing_objects_matched().expect_partial()
        except (AssertionError, ValueError) as error:
            raise TrainingError(
                f"the checkpoint {path} does not fit this model and optimizer ({essence(str(error))}); "
                "remove the folder, or set resume to false, to start anew"
            ) from None
        except (tf.errors.OpError, IndexError, RuntimeError, OSError) as error:  # native code raises all of these
            raise StorageError(f"cannot read the checkpoint {path} ({essence(str(error))}); {_IF_DAMAGED}") from None
        return state

    def clear(self) -> None:
        """Removes all checkpoints (chief only)."""
        if self._is_chief:
            self._remove(self.folder)

    def _whole(self) -> list[str]:
        """The folders of whole checkpoints, the newest last."""
        paths = [f"{self.folder}/{name}" for name in sorted(self._names(), key=lambda name: int(name[5:]))]
        return [path for path in paths if tf.io.gfile.exists(f"{path}/{_SEAL}")]

    def _names(self) -> list[str]:
        if not tf.io.gfile.isdir(self.folder):
            return []
        names = (name.rstrip("/") for name in tf.io.gfile.listdir(self.folder))
        return [name for name in names if _NAME.fullmatch(name)]

    def _sweep(self, keep: str) -> None:
        """Removes what is beyond max_to_keep and what a crash left behind."""
        kept = {*self._whole()[-self._max_to_keep :], keep}
        for name in self._names():
            if f"{self.folder}/{name}" not in kept:
                self._remove(f"{self.folder}/{name}")

    def _remove(self, path: str) -> None:
        if tf.io.gfile.exists(path):
            tf.io.gfile.rmtree(path)
