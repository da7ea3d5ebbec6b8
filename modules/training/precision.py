"""Precision policies, the check of a model's outputs, and the dynamic loss scale of float16."""

import contextlib
from collections.abc import Iterator

import tensorflow as tf
import tf_keras

from modules.training.config import TrainingConfig
from modules.training.errors import TrainingConfigError


def set_policy(precision: str) -> None:
    """Makes every layer built from now on compute in `precision`; variables stay float32."""
    tf_keras.mixed_precision.set_global_policy(precision)


@contextlib.contextmanager
def policy(precision: str) -> Iterator[None]:
    """`set_policy` for the duration of the block."""
    previous = tf_keras.mixed_precision.global_policy()
    set_policy(precision)
    try:
        yield
    finally:
        tf_keras.mixed_precision.set_global_policy(previous)


def check_float32_outputs(model: tf_keras.Model) -> None:
    """Refuses a model whose outputs are not float32.

    A softmax or a loss in 16 bits loses most of its digits, and casting afterwards does not bring them back.

    Raises:
      TrainingConfigError: names the output and the layer to change.
    """
    outputs = getattr(model, "outputs", None) or []  # a subclassed model has none until it was called
    for name, output in zip(model.output_names or [], outputs, strict=False):
        if output.dtype.is_floating and output.dtype != tf.float32:
            raise TrainingConfigError(
                f"the model's output {name!r} is {output.dtype.name}; give its last layer dtype='float32' "
                "(in mixed precision the softmax or sigmoid and the loss must be computed in float32)"
            )


class LossScale:
    """The factor that keeps small float16 gradients from vanishing.

    Halves after a step whose gradients were not finite and doubles after `growth_steps` good ones, up to 2**24. In
    float32 and bfloat16 it is the constant 1 and costs nothing.
    """

    def __init__(self, config: TrainingConfig):
        self.dynamic = config.precision == "mixed_float16"
        self._growth_steps = config.loss_scale_growth_steps
        initial = config.initial_loss_scale if self.dynamic else 1.0
        self.value = tf.Variable(initial, trainable=False, dtype=tf.float32, name="loss_scale")
        self.good_steps = tf.Variable(0, trainable=False, dtype=tf.int64, name="loss_scale_good_steps")
        self.skipped_in_a_row = tf.Variable(0, trainable=False, dtype=tf.int64, name="skipped_in_a_row")
        self.skipped = tf.Variable(0, trainable=False, dtype=tf.int64, name="skipped_steps")

    def variables(self) -> dict[str, tf.Variable]:
        """What a checkpoint must hold, by name."""
        return {
            "loss_scale": self.value,
            "loss_scale_good_steps": self.good_steps,
            "skipped_in_a_row": self.skipped_in_a_row,
            "skipped_steps": self.skipped,
        }

    def update(self, finite: tf.Tensor) -> None:
        """Records one step; `finite`, a bool scalar, is equal on all replicas: it comes from reduced gradients."""
        if not self.dynamic:
            return
        good = tf.where(finite, self.good_steps + 1, tf.zeros([], tf.int64))
        grow = good >= self._growth_steps
        bigger = tf.minimum(self.value * 2.0, 2.0**24)
        smaller = tf.maximum(self.value / 2.0, 1.0)
        self.value.assign(tf.where(finite, tf.where(grow, bigger, self.value), smaller))
        self.good_steps.assign(tf.where(grow, tf.zeros([], tf.int64), good))
        self.skipped_in_a_row.assign(tf.where(finite, tf.zeros([], tf.int64), self.skipped_in_a_row + 1))
        self.skipped.assign_add(tf.cast(tf.logical_not(finite), tf.int64))
