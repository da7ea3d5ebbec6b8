"""Gradient checkpointing: less memory for one more forward pass of the chosen layers."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras
from tf_keras.src.mixed_precision import autocast_variable

from modules.training.errors import TrainingConfigError


def recompute(model: tf_keras.Model, layer_names: Sequence[str]) -> None:
    """Makes the named layers compute their activations again in the backward pass instead of keeping them.

    Layers with random or stateful calls (dropout, batch normalization) would not compute the same twice.

    Raises:
      TrainingConfigError: no such layer, or one that cannot be computed twice.
    """
    layers = {layer.name: layer for layer in model.layers}
    for name in layer_names:
        if name not in layers:
            raise TrainingConfigError(f"recompute_layers: no layer {name!r}; there are {', '.join(layers)}")
        layer = layers[name]
        inner = layer._flatten_layers() if hasattr(layer, "_flatten_layers") else [layer]
        for part in inner:
            if isinstance(part, tf_keras.layers.Dropout | tf_keras.layers.BatchNormalization):
                raise TrainingConfigError(
                    f"recompute_layers: {name!r} contains {part.name!r}, which computes something else the second time"
                )
        layer.call = _recomputed(layer, layer.call)


def _recomputed(layer: tf_keras.layers.Layer, call: Callable[..., Any]) -> Callable[..., Any]:
    """`call` under tf.recompute_grad, which takes no keyword arguments in a graph; Keras passes `training` as one.

    The second time is outside of the scope in which Keras reads variables in 16 bits, so it is entered again.
    """

    def recomputed(*tensors: Any, **settings: Any) -> Any:
        def compute(*again: Any) -> Any:
            with autocast_variable.enable_auto_cast_variables(layer._compute_dtype_object):
                return call(*again, **settings)

        return tf.recompute_grad(compute)(*tensors)

    return recomputed
