"""How a language model is judged: sums over documents, so that a slice's value is that of its text as a whole.

The label is a document's number of bytes; the prediction is the `score` of modules.textgen.scoring: [nats, nats of the
n-gram baseline, tokens].
"""

import math
from typing import Any

import tensorflow as tf
import tf_keras as keras

NATS, BASELINE_NATS, TOKENS, BYTES = range(4)


class _Totals(keras.metrics.Metric):
    """Sums that all parts of the evaluation add to."""

    NAME = "totals"

    def __init__(self, name: str | None = None, **kwargs: Any):
        super().__init__(name=name or type(self).NAME, **kwargs)
        # One by one: Keras resets a metric's state with scalars.
        names = ("nats", "baseline_nats", "tokens", "bytes")
        self.totals = [self.add_weight(name=part, initializer="zeros", dtype="float64") for part in names]

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Adds documents: bytes [n], scores [n, 3]; weights [n] count a document more than once."""
        num_bytes = tf.reshape(tf.cast(y_true, tf.float64), [-1, 1])
        rows = tf.concat([tf.reshape(tf.cast(y_pred, tf.float64), [-1, 3]), num_bytes], axis=1)
        if sample_weight is not None:
            rows *= tf.reshape(tf.cast(sample_weight, tf.float64), [-1, 1])
        for total, more in zip(self.totals, tf.unstack(tf.reduce_sum(rows, axis=0)), strict=True):
            total.assign_add(more)

    def _bits_per_byte(self, which: int) -> tf.Tensor:
        return tf.math.divide_no_nan(self.totals[which], self.totals[BYTES]) / math.log(2)


class BitsPerByte(_Totals):
    """What the model needs to code a byte of text, whatever its tokens are."""

    NAME = "bits_per_byte"

    def result(self) -> tf.Tensor:
        return self._bits_per_byte(NATS)


class BaselineBitsPerByte(_Totals):
    """The same of the 5-gram model of the training text."""

    NAME = "baseline_bits_per_byte"

    def result(self) -> tf.Tensor:
        return self._bits_per_byte(BASELINE_NATS)


class BitsPerByteSaved(_Totals):
    """How much less the model needs than the 5-gram model: at most 0 means that counting would have done as well."""

    NAME = "bits_per_byte_saved"

    def result(self) -> tf.Tensor:
        return self._bits_per_byte(BASELINE_NATS) - self._bits_per_byte(NATS)


class Perplexity(_Totals):
    """Between how many tokens the model is in doubt; only models with the same tokenizer can be compared by it."""

    NAME = "perplexity"

    def result(self) -> tf.Tensor:
        return tf.exp(tf.math.divide_no_nan(self.totals[NATS], self.totals[TOKENS]))
