"""Writes the serving model: on the chief only, checked before it appears under its final name.

The weights are copied into a fresh float32 model outside the strategy. So what is served does not depend on how it
was trained: no mirrored variables, no 16-bit layers that a server's CPU would have to emulate.
"""

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
import tf_keras

from modules.training import golden
from modules.training.errors import StorageError, TrainingError


def unreplicated(build: Callable[[], tf_keras.Model], weights: list[np.ndarray]) -> tf_keras.Model:
    """A model outside any strategy with the given weights; set the float32 policy before.

    Raises:
      TrainingError: `build` made a model with other variables than before.
    """
    tf_keras.backend.reset_uids()  # the same variable names as in training
    fresh = build()
    expected, actual = [tuple(w.shape) for w in weights], [tuple(w.shape) for w in fresh.variables]
    if expected != actual:
        raise TrainingError(f"build_model must build the same model every time; it had {expected}, now {actual}")
    for variable, value in zip(fresh.variables, weights, strict=True):
        variable.assign(value)
    return fresh


class Exportable(Protocol):
    """What `export` saves: ServingModule, or something of a workload's own."""

    @property
    def trackable(self) -> tf.Module:
        """The root of the SavedModel, which holds all variables."""

    def signatures(self) -> dict[str, Any]:
        """Concrete functions by signature name."""


def export(
    module: Exportable,
    folder: str,
    examples: Sequence[bytes],
    extra: Mapping[str, Any] | None = None,
    golden_signature: str = golden.SIGNATURE,
) -> dict[str, list]:
    """Saves `module`, loads it again, calls it, writes golden predictions and only then moves it to `folder`.

    Args:
      module: the model with its signatures.
      folder: the final place (fn_args.serving_model_dir); nothing is there unless all of it is.
      examples: serialized raw tf.Examples for the golden predictions.
      extra: written to assets.extra/training.json.
      golden_signature: the one to take golden predictions of; its input is `examples`.

    Returns:
      The golden outputs by name.

    Raises:
      StorageError: the folder cannot be written.
      TrainingError: the reloaded model fails or answers differently.
    """
    folder = folder.rstrip("/")
    scratch = f"{folder}.writing-{uuid.uuid4().hex[:8]}"
    try:
        for left_behind in tf.io.gfile.glob(f"{folder}.writing-*"):  # by an export that was killed
            tf.io.gfile.rmtree(left_behind)
        tf.saved_model.save(module.trackable, scratch, signatures=module.signatures())
        loaded = tf.saved_model.load(scratch)
        outputs = golden.predict(loaded, examples, golden_signature)
        golden.write(scratch, examples, outputs, golden_signature)
        with tf.io.gfile.GFile(f"{scratch}/assets.extra/training.json", "w") as file:
            file.write(json.dumps(dict(extra or {}), indent=1))
        if tf.io.gfile.exists(folder):
            tf.io.gfile.rmtree(folder)
        tf.io.gfile.makedirs(folder.rpartition("/")[0])
        tf.io.gfile.rename(scratch, folder)
    except (tf.errors.OpError, OSError) as error:
        message = getattr(error, "message", None) or str(error)
        raise StorageError(f"cannot export the model to {folder}: {message}") from error
    finally:
        if tf.io.gfile.exists(scratch):
            tf.io.gfile.rmtree(scratch)
    return outputs
