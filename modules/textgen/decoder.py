"""A causal decoder: pre-norm blocks, rotary positions, grouped queries, tied embeddings.

Every layer has two ways through it that share their arithmetic: `call` over whole sequences, for training and scoring,
and `step` over one new token per row with the keys and values of the tokens before it, for generation.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

_NORM_EPSILON = 1e-6
_MASKED = -1e9


class DecoderConfigError(ValueError):
    """Sizes that do not fit together."""

    exit_code = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """Sizes of the decoder; `train.model` of workload.yaml, but for `vocab_size`, which the tokenizer decides."""

    vocab_size: int
    width: int = 192
    num_layers: int = 4
    num_heads: int = 6
    num_kv_heads: int = 0
    """Heads of keys and values, each shared by several query heads; 0: as many as there are query heads."""
    mlp_width: int = 0
    """0: four times the width."""
    context: int = 256
    """Tokens that a prediction can look back on; the length of a packed training sequence."""
    dropout: float = 0.0
    rope_base: float = 10_000.0

    def __post_init__(self) -> None:
        for name in ("vocab_size", "width", "num_layers", "num_heads", "context"):
            if getattr(self, name) < 1:
                raise DecoderConfigError(f"train.model: {name} is {getattr(self, name)}, expected at least 1")
        if self.width % self.num_heads or self.head_size % 2:
            raise DecoderConfigError(
                f"train.model: width {self.width} must be an even multiple of num_heads {self.num_heads}"
            )
        if self.num_heads % self.kv_heads:
            raise DecoderConfigError(
                f"train.model: num_kv_heads {self.num_kv_heads} must divide num_heads {self.num_heads}"
            )
        if not 0 <= self.dropout < 1:
            raise DecoderConfigError(f"train.model: dropout is {self.dropout}, expected 0 or more and less than 1")

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any], vocab_size: int) -> "DecoderConfig":
        """The config that workload.yaml's `train.model` says.

        Raises:
          DecoderConfigError: an unknown key, or sizes that do not fit.
        """
        allowed = [field.name for field in dataclasses.fields(cls) if field.name != "vocab_size"]
        for key in mapping:
            if key not in allowed:
                raise DecoderConfigError(f"train.model: unknown key {key!r}; allowed: {', '.join(allowed)}")
        return cls(vocab_size=vocab_size, **mapping)

    @property
    def head_size(self) -> int:
        return self.width // self.num_heads

    @property
    def kv_heads(self) -> int:
        return self.num_kv_heads or self.num_heads

    @property
    def feed_forward(self) -> int:
        return self.mlp_width or 4 * self.width


def build_decoder(config: DecoderConfig) -> keras.Model:
    """An uncompiled model.

    Returns:
      A model from `{"tokens": int64 [batch, time], "segments": int64 [batch, time]}` to `{"logits": float32 [batch,
      time, vocabulary]}`. A token sees those at or before its own place that are of its segment, which is a document.
    """
    tokens = keras.Input((None,), name="tokens", dtype="int64")
    segments = keras.Input((None,), name="segments", dtype="int64")
    embedding = TokenEmbedding(config, name="embedding")
    hidden, mask = embedding(tokens, _previous_tokens(tokens, segments)), DocumentMask(name="mask")(segments)
    for number in range(config.num_layers):
        hidden = Block(config, name=f"block_{number}")(hidden, mask)
    logits = OutputHead(embedding, name="logits", dtype="float32")(hidden)
    return keras.Model({"tokens": tokens, "segments": segments}, {"logits": logits})


class TokenEmbedding(keras.layers.Layer):
    """int64 [...] to [..., width]; the same table turns hidden states back into logits."""

    def __init__(self, config: DecoderConfig, **kwargs: Any):
        super().__init__(**kwargs)
        self.config = config
        self.dropout = keras.layers.Dropout(config.dropout) if config.dropout else None

    def build(self, input_shape: Any) -> None:
        shape = (self.config.vocab_size, self.config.width)
        self.table = self.add_weight(
            name="table", shape=shape, initializer=keras.initializers.RandomNormal(stddev=0.02)
        )
        self.before = self.add_weight(
            name="before", shape=shape, initializer=keras.initializers.RandomNormal(stddev=0.01)
        )
        super().build(input_shape)

    def call(self, tokens: tf.Tensor, previous: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        hidden = tf.gather(self.table, tokens)
        hidden += tf.gather(self.before, previous)
        hidden = tf.cast(hidden, self.compute_dtype)
        return self.dropout(hidden, training=training) if self.dropout else hidden


class DocumentMask(keras.layers.Layer):
    """Segments int64 [batch, time] to what may be looked at: 0 or a large negative number [batch, 1, time, time]."""

    def call(self, segments: tf.Tensor) -> tf.Tensor:
        same = tf.equal(segments[:, :, tf.newaxis], segments[:, tf.newaxis, :])
        places = tf.range(tf.shape(segments)[1])
        causal = places[:, tf.newaxis] >= places[tf.newaxis, :]
        return tf.where(same & causal, 0.0, _MASKED)[:, tf.newaxis]


class Block(keras.layers.Layer):
    """Attention and a feed-forward layer, each on a normalised copy and added to what came in."""

    def __init__(self, config: DecoderConfig, **kwargs: Any):
        super().__init__(**kwargs)
        self.config = config
        self.dropout = keras.layers.Dropout(config.dropout) if config.dropout else None
        self.sin, self.cos = _rotations(config)

    def build(self, input_shape: Any) -> None:
        config = self.config
        head = config.head_size
        residual = 1.0 / (2 * config.num_layers)
        self.attention_gamma = self._scale("attention_gamma")
        self.qkv = self._matrix("qkv", config.width, (config.num_heads + 2 * config.kv_heads) * head)
        self.attention_out = self._matrix("attention_out", config.num_heads * head, config.width, residual)
        self.mlp_gamma = self._scale("mlp_gamma")
        self.mlp_in = self._matrix("mlp_in", config.width, config.feed_forward)
        self.mlp_out = self._matrix("mlp_out", config.feed_forward, config.width, residual)
        super().build(input_shape)

    def _scale(self, name: str) -> tf.Variable:
        return self.add_weight(name=name, shape=(self.config.width,), initializer="ones")

    def _matrix(self, name: str, rows: int, columns: int, gain: float = 1.0) -> tf.Variable:
        initializer = keras.initializers.VarianceScaling(gain, "fan_in", "untruncated_normal")
        return self.add_weight(name=name, shape=(rows, columns), initializer=initializer)

    def call(self, hidden: tf.Tensor, mask: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """[batch, time, width] to the same, under a mask from DocumentMask."""
        return self.whole(hidden, mask, training)[0]

    def whole(self, hidden: tf.Tensor, mask: tf.Tensor, training: bool | None = None) -> tuple:
        """Like `call`, with the keys and values [batch, kv_heads, time, head_size] that a cache starts from."""
        time = tf.shape(hidden)[1]
        queries, keys, values = self._heads(hidden, tf.constant(self.sin)[:time], tf.constant(self.cos)[:time])
        hidden += self._drop(self._project(self._attend(queries, keys, values, mask)), training)
        return self._feed_forward(hidden, training), keys, values

    def step(
        self,
        hidden: tf.Tensor,
        keys: tf.Tensor,
        values: tf.Tensor,
        places: tf.Tensor,
        mask: tf.Tensor,
        in_place: bool = False,
    ) -> tuple:
        """One new token per row.

        Args:
          hidden: [batch, 1, width].
          keys, values: the cache, [batch, kv_heads, slots, head_size]; a token's slot is its place in its row.
          places: int32 [batch], where the new tokens go.
          mask: 0 or a large negative number, [batch, 1, 1, slots].
          in_place: write into the memory of `keys` and `values`, which nobody else may be using.

        Returns:
          The hidden state after this block and the cache with the new token in it.
        """
        sin, cos = (
            tf.gather(tf.constant(table), places)[:, tf.newaxis, tf.newaxis, :] for table in (self.sin, self.cos)
        )
        queries, new_keys, new_values = self._heads(hidden, sin, cos)
        keys, values = _written(keys, new_keys, places, in_place), _written(values, new_values, places, in_place)
        hidden += self._project(self._attend(queries, keys, values, mask))
        return self._feed_forward(hidden, False), keys, values

    def _heads(self, hidden: tf.Tensor, sin: tf.Tensor, cos: tf.Tensor) -> tuple:
        """Rotated queries and keys and plain values, each [batch, heads, time, head_size]."""
        config = self.config
        mixed = _linear(normalised(hidden, self.attention_gamma), self.qkv)
        shape = tf.concat([tf.shape(mixed)[:2], [config.num_heads + 2 * config.kv_heads, config.head_size]], axis=0)
        mixed = tf.transpose(tf.reshape(mixed, shape), [0, 2, 1, 3])
        rotated = config.num_heads + config.kv_heads
        turned = _rotate(mixed[:, :rotated], sin, cos)
        return turned[:, : config.num_heads], turned[:, config.num_heads :], mixed[:, rotated:]

    def _attend(self, queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """[batch, time, heads * head_size]; the softmax is float32 whatever the layer computes in."""
        config = self.config
        shape = tf.shape(queries)
        group = config.num_heads // config.kv_heads
        if group > 1:  # the queries that share a key become rows of one matrix
            queries = tf.reshape(queries, [shape[0], config.kv_heads, group * shape[2], config.head_size])
            mask = tf.tile(mask, [1, 1, group, 1])
        scores = tf.matmul(queries, keys, transpose_b=True)
        weights = tf.nn.softmax(tf.cast(scores, tf.float32) * config.head_size**-0.5 + tf.cast(mask, tf.float32))
        mixed = tf.matmul(tf.cast(weights, values.dtype), values)
        mixed = tf.reshape(mixed, [shape[0], config.num_heads, shape[2], config.head_size])
        return tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [shape[0], shape[2], config.num_heads * config.head_size])

    def _project(self, mixed: tf.Tensor) -> tf.Tensor:
        return _linear(mixed, self.attention_out)

    def _feed_forward(self, hidden: tf.Tensor, training: bool | None) -> tf.Tensor:
        inner = tf.square(tf.nn.relu(_linear(normalised(hidden, self.mlp_gamma), self.mlp_in)))
        return hidden + self._drop(_linear(inner, self.mlp_out), training)

    def _drop(self, hidden: tf.Tensor, training: bool | None) -> tf.Tensor:
        return self.dropout(hidden, training=training) if self.dropout else hidden


class OutputHead(keras.layers.Layer):
    """A last normalisation, and the embedding's own table as the output matrix: [..., width] to [..., vocabulary]."""

    def __init__(self, embedding: TokenEmbedding, **kwargs: Any):
        super().__init__(**kwargs)
        self.embedding = embedding

    def build(self, input_shape: Any) -> None:
        self.gamma = self.add_weight(name="gamma", shape=(input_shape[-1],), initializer="ones")
        super().build(input_shape)

    def call(self, hidden: tf.Tensor) -> tf.Tensor:
        hidden = normalised(hidden, self.gamma)
        return _linear(hidden, tf.cast(self.embedding.table, hidden.dtype), transpose=True)


def _linear(vectors: tf.Tensor, matrix: tf.Variable, transpose: bool = False) -> tf.Tensor:
    """[batch, time, rows] times a matrix, as one product of two matrices: a batched one is several times slower."""
    shape = tf.shape(vectors)
    matrix = tf.convert_to_tensor(matrix)
    product = tf.matmul(tf.reshape(vectors, [-1, vectors.shape[-1]]), matrix, transpose_b=transpose)
    return tf.reshape(product, tf.concat([shape[:-1], [matrix.shape[0 if transpose else 1]]], axis=0))


def normalised(hidden: tf.Tensor, gamma: tf.Variable) -> tf.Tensor:
    """`hidden` scaled to a root mean square of `gamma` along the last axis; the mean is taken in float32."""
    wide = tf.cast(hidden, tf.float32)
    scale = tf.math.rsqrt(tf.reduce_mean(tf.square(wide), axis=-1, keepdims=True) + _NORM_EPSILON)
    return hidden * tf.cast(scale, hidden.dtype) * tf.cast(gamma, hidden.dtype)


def _rotations(config: DecoderConfig) -> tuple[tf.Tensor, tf.Tensor]:
    """Sines and cosines [context, head_size / 2] of the angle by which each pair turns at each place."""
    half = config.head_size // 2
    rates = config.rope_base ** (-np.arange(half) / half)
    angles = np.arange(config.context)[:, np.newaxis] * rates
    return np.sin(angles).astype(np.float32), np.cos(angles).astype(np.float32)


def _rotate(vectors: tf.Tensor, sin: tf.Tensor, cos: tf.Tensor) -> tf.Tensor:
    first, second = tf.split(vectors, 2, axis=-1)
    sin, cos = tf.cast(sin, vectors.dtype), tf.cast(cos, vectors.dtype)
    return tf.concat([first * cos - second * sin, second * cos + first * sin], axis=-1)


def _written(cache: tf.Tensor, new: tf.Tensor, places: tf.Tensor, in_place: bool) -> tf.Tensor:
    """The cache [batch, heads, slots, size] with `new` [batch, heads, 1, size] at each row's own slot."""
    shape = tf.shape(cache)
    heads = tf.range(shape[0] * shape[1])
    rows = heads * shape[2] + tf.repeat(places, shape[1])
    updates = tf.reshape(new, [shape[0] * shape[1], shape[3]])
    flat = tf.reshape(cache, [-1, shape[3]])
    if in_place:  # the other one copies the whole cache, at every token of every block
        flat = tf.raw_ops.InplaceUpdate(x=flat, i=rows, v=updates)
    else:
        flat = tf.tensor_scatter_nd_update(flat, rows[:, tf.newaxis], updates)
    return tf.reshape(flat, shape)


def mask_up_to(places: tf.Tensor, slots: tf.Tensor) -> tf.Tensor:
    """For a query at each place 0 for the slots at or before it and a large negative number after, [places, slots]."""
    return tf.where(tf.range(slots)[tf.newaxis] <= places[:, tf.newaxis], 0.0, _MASKED)


def _previous_tokens(tokens: tf.Tensor, segments: tf.Tensor) -> tf.Tensor:
    """The token before each one, 0 where a segment begins."""
    shifted = tf.concat([tf.zeros_like(tokens[:, :1]), tokens[:, :-1]], axis=1)
    same = tf.equal(segments, tf.concat([segments[:, :1] - 1, segments[:, :-1]], axis=1))
    return tf.where(same, shifted, tf.zeros_like(tokens))
