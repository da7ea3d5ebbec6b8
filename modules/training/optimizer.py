"""The optimizer and its learning rate, from the config and the size of the cluster."""

import math
from collections.abc import Callable

import tensorflow as tf
import tf_keras

from modules.training.config import TrainingConfig
from modules.training.lars import LARS

OptimizerFactory = Callable[[tf_keras.optimizers.schedules.LearningRateSchedule], tf_keras.optimizers.Optimizer]

_NOT_DECAYED = ("bias", "gamma", "beta")  # decaying these shifts or mutes activations and regularises nothing


class WarmupSchedule(tf_keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up from zero, then constant, cosine or linear decay to zero at `total_steps`."""

    def __init__(self, peak: float, warmup_steps: int, total_steps: int, shape: str):
        self.peak, self.warmup_steps, self.total_steps, self.shape = peak, warmup_steps, total_steps, shape

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """The learning rate, a float32 scalar, of the update number `step` (0-based)."""
        done = tf.cast(step, tf.float32)
        rate = tf.constant(self.peak, tf.float32)
        if self.shape != "constant":
            span = max(1, self.total_steps - self.warmup_steps)
            progress = tf.clip_by_value((done - self.warmup_steps) / span, 0.0, 1.0)
            rate *= 0.5 * (1 + tf.cos(math.pi * progress)) if self.shape == "cosine" else 1.0 - progress
        if self.warmup_steps:
            rate *= tf.minimum(1.0, (done + 1.0) / self.warmup_steps)
        return rate

    def get_config(self) -> dict[str, object]:
        return {
            "peak": self.peak,
            "warmup_steps": self.warmup_steps,
            "total_steps": self.total_steps,
            "shape": self.shape,
        }


def scaled_learning_rate(config: TrainingConfig, num_replicas: int) -> float:
    """The peak learning rate for a global batch of `batch_size * num_replicas`."""
    ratio = config.batch_size * num_replicas / (config.base_batch_size or config.batch_size)
    if config.lr_scaling == "linear":
        return config.learning_rate * ratio
    if config.lr_scaling == "sqrt":
        return config.learning_rate * math.sqrt(ratio)
    return config.learning_rate


def build_optimizer(
    config: TrainingConfig, num_replicas: int, total_steps: int, factory: OptimizerFactory | None = None
) -> tf_keras.optimizers.Optimizer:
    """Builds the configured optimizer, or the user's through `factory(schedule)`; call under the strategy's scope.

    Clipping and gradient reduction are the step's work, so the optimizer gets neither.
    """
    schedule = WarmupSchedule(
        scaled_learning_rate(config, num_replicas), config.warmup_steps, total_steps, config.lr_schedule
    )
    if factory is not None:
        return factory(schedule)
    kinds = tf_keras.optimizers
    builders: dict[str, Callable[..., tf_keras.optimizers.Optimizer]] = {
        "sgd": kinds.SGD,
        "momentum": lambda learning_rate, **kwargs: kinds.SGD(learning_rate, momentum=0.9, **kwargs),
        "adam": kinds.Adam,
        "adamw": kinds.AdamW,
        "rmsprop": kinds.RMSprop,
        "adagrad": kinds.Adagrad,
    }
    arguments: dict[str, object] = {"jit_compile": config.jit_compile}
    if config.optimizer == "lars":  # its decay belongs inside the trust ratio
        return LARS(schedule, decay=config.weight_decay, trust=config.lars_trust, **arguments)  # type: ignore[arg-type]
    if config.weight_decay or config.optimizer == "adamw":
        arguments["weight_decay"] = config.weight_decay
    optimizer = builders[config.optimizer](schedule, **arguments)
    if config.weight_decay:
        optimizer.exclude_from_weight_decay(var_names=list(_NOT_DECAYED))
    return optimizer
