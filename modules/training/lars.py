"""LARS: momentum whose step is scaled layer by layer, so that very large batches still train (You et al., 2017)."""

from typing import Any

import tensorflow as tf
import tf_keras

# Below this a norm says nothing.
_SMALL = 1e-9


class LARS(tf_keras.optimizers.Optimizer):
    """Momentum with a learning rate of its own for every matrix and kernel.

    The rate is `learning_rate * trust * |w| / (|g| + weight_decay * |w|)`, so that a step changes each layer by about
    the same share. Vectors (biases, scales and shifts of normalisation) take plain momentum steps, without decay.
    """

    def __init__(
        self,
        learning_rate: Any = 0.1,
        momentum: float = 0.9,
        decay: float = 0.0,
        trust: float = 0.001,
        jit_compile: bool = False,
        name: str = "LARS",
    ):
        """`decay` is added to the gradients, within the trust ratio; it is not the base class's `weight_decay`."""
        super().__init__(name=name, jit_compile=jit_compile)
        self._learning_rate = self._build_learning_rate(learning_rate)
        self.momentum, self.decay, self.trust = momentum, decay, trust

    def build(self, var_list: list[tf.Variable]) -> None:
        """Makes a velocity for every variable."""
        super().build(var_list)
        if not getattr(self, "_built", False):
            self.velocities = [self.add_variable_from_reference(variable, "velocity") for variable in var_list]
            self._built = True

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable) -> None:
        """One update; called by `apply_gradients`."""
        rate = tf.cast(self.learning_rate, variable.dtype)
        velocity = self.velocities[self._index_dict[self._var_key(variable)]]
        gradient = tf.convert_to_tensor(gradient)
        if len(variable.shape) > 1:
            weights, slopes = tf.norm(variable), tf.norm(gradient)
            ratio = self.trust * weights / (slopes + self.decay * weights + _SMALL)
            # A layer that is all zero has no size to go by.
            ratio = tf.where((weights > 0) & (slopes > 0), ratio, tf.ones_like(ratio))
            gradient = ratio * (gradient + self.decay * variable)
        velocity.assign(self.momentum * velocity + rate * gradient)
        variable.assign_sub(velocity)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        rate = self._serialize_hyperparameter(self._learning_rate)
        own = {"learning_rate": rate, "momentum": self.momentum, "decay": self.decay, "trust": self.trust}
        return {key: config[key] for key in ("name", "jit_compile")} | own
