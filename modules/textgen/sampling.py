"""The next token of each row from its logits: greedy, or drawn with temperature, top-k and top-p.

Every row has settings and a seed of its own, and its draws depend on nothing else: a prompt gives the same text alone
as in a batch with others.
"""

import dataclasses

import tensorflow as tf

_MULTIPLIERS = (-49064778989728563, -4265267296055464877)  # of a 64-bit finalizer, as signed integers


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Settings by row.

    Attributes:
      temperature: float32 [batch]; 0 takes the likeliest token.
      top_k: int32 [batch]; only so many of the likeliest tokens, 0 for all.
      top_p: float32 [batch]; only the likeliest tokens that together have this probability, 1 for all.
      seed: int64 [batch].
    """

    temperature: tf.Tensor
    top_k: tf.Tensor
    top_p: tf.Tensor
    seed: tf.Tensor

    def choose(self, logits: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """Token number `step` of each row: int32 [batch] from float32 [batch, vocabulary]."""
        greedy = tf.argmax(logits, axis=-1, output_type=tf.int32)
        drawn = tf.cond(tf.reduce_any(self.temperature > 0), lambda: self._drawn(logits, step), lambda: greedy)
        return tf.where(self.temperature > 0, drawn, greedy)

    def _drawn(self, logits: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        warm = tf.where(self.temperature > 0, self.temperature, 1.0)[:, tf.newaxis]
        ranked, tokens = tf.math.top_k(logits / warm, k=logits.shape[-1])
        probabilities = tf.nn.softmax(ranked)
        ranks = tf.range(logits.shape[-1])[tf.newaxis]
        before = tf.cumsum(probabilities, axis=-1, exclusive=True)
        allowed = (self.top_k[:, tf.newaxis] <= 0) | (ranks < self.top_k[:, tf.newaxis])
        allowed &= (before < self.top_p[:, tf.newaxis]) | (ranks == 0)
        cumulative = tf.cumsum(tf.where(allowed, probabilities, 0.0), axis=-1)
        wanted = uniform(self.seed, step)[:, tf.newaxis] * cumulative[:, -1:]
        place = tf.reduce_sum(tf.cast(cumulative <= wanted, tf.int32), axis=-1)
        last = tf.reduce_sum(tf.cast(allowed, tf.int32), axis=-1) - 1
        return tf.gather(tokens, tf.minimum(place, last), axis=1, batch_dims=1)


def uniform(seeds: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
    """A number in [0, 1) for each seed and step, float32 [batch].

    TensorFlow's stateless generators take one seed for a whole tensor, so that a row's draws would depend on its place.
    """
    bits = _mixed(_mixed(seeds) + tf.cast(step, tf.int64))
    return tf.cast(_shifted(bits, 40), tf.float32) / float(1 << 24)


def _mixed(bits: tf.Tensor) -> tf.Tensor:
    """A bijection of 64-bit integers in which every bit of the input reaches every bit of the output."""
    bits += 7046029254386353131
    for multiplier in _MULTIPLIERS:
        bits = tf.bitwise.bitwise_xor(bits, _shifted(bits, 33)) * multiplier
    return tf.bitwise.bitwise_xor(bits, _shifted(bits, 33))


def _shifted(bits: tf.Tensor, places: int) -> tf.Tensor:
    """An int64 shifted to the right with zeros coming in."""
    unsigned = tf.bitcast(bits, tf.uint64)
    return tf.bitcast(tf.bitwise.right_shift(unsigned, tf.constant(places, tf.uint64)), tf.int64)
