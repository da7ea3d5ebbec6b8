"""AutoGraph, which turns Python's `if` and `while` into graphs: for what users write, and not for the engine itself.

Rewriting a function takes AutoGraph some 50 ms of CPU time, in every worker and at every start. The engine's own code
has nothing that needs it; for loss functions, parsing and the like one cannot know.
"""

from collections.abc import Callable
from typing import TypeVar

import tensorflow as tf

_F = TypeVar("_F", bound=Callable)

as_it_is = tf.autograph.experimental.do_not_convert
"""Decorator: AutoGraph leaves the function alone, and all that it calls unless that is `rewritten`."""


def rewritten(fn: _F) -> _F:
    """`fn` as AutoGraph converts it, also when code that is left as it is calls it. To be made outside of such code.

    Methods of Keras objects convert what is a user's by themselves, and only have to be told that they may.
    """
    outside = tf.__internal__.autograph.control_status_ctx()
    if not isinstance(getattr(fn, "__self__", None), tf.Module):
        return tf.__internal__.autograph.tf_convert(fn, outside)

    def call(*args: object, **kwargs: object) -> object:
        with outside:
            return fn(*args, **kwargs)

    return call  # type: ignore[return-value]
