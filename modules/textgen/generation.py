"""Generation in the graph: a loop of single-token steps over a cache of keys and values.

A token's slot in the cache is its place in its row, so rows of different lengths need no padding on the left: each
writes at its own place and looks at what is at or before it.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras as keras

from modules.textgen.decoder import Block, DecoderConfig, mask_up_to
from modules.textgen.sampling import Sampling
from modules.textgen.tokenizer import END, Tokenizer

Caches = tuple[tf.Tensor, ...]
"""Keys and values of each block in turn, each [batch, kv_heads, slots, head_size]."""


@dataclasses.dataclass(frozen=True)
class Prompts:
    """Prompts as tokens, with room for what is to come.

    Attributes:
      tokens: int32 [batch, longest], filled with END on the right.
      lengths: int32 [batch].
      max_new: int32 [batch], at most what the context has room for.
    """

    tokens: tf.Tensor
    lengths: tf.Tensor
    max_new: tf.Tensor


class Generator:
    """Continues texts with a trained decoder."""

    def __init__(self, model: keras.Model, config: DecoderConfig, tokenizer: Tokenizer):
        self.config, self.tokenizer = config, tokenizer
        self._model = model
        self._embedding = model.get_layer("embedding")
        self._blocks: list[Block] = [model.get_layer(f"block_{number}") for number in range(config.num_layers)]
        self._head = model.get_layer("logits")

    def prompts(self, texts: tf.Tensor, max_new: tf.Tensor) -> Prompts:
        """Tokens of the prompts. One that is too long keeps its end: the context has to hold the new tokens too."""
        context = self.config.context
        max_new = tf.clip_by_value(max_new, 0, context - 1)
        whole = tf.concat([tf.fill([tf.size(texts), 1], END), self.tokenizer.encode(texts)], axis=1)
        all_lengths = tf.cast(whole.row_lengths(), tf.int32)
        lengths = tf.minimum(all_lengths, context - max_new)
        first = all_lengths - lengths
        longest = tf.reduce_max(tf.concat([lengths, [1]], axis=0))
        padded = whole.to_tensor(default_value=END)
        places = first[:, tf.newaxis] + tf.range(longest)[tf.newaxis]
        tokens = tf.gather(padded, tf.minimum(places, tf.shape(padded)[1] - 1), axis=1, batch_dims=1)
        inside = tf.range(longest)[tf.newaxis] < lengths[:, tf.newaxis]
        return Prompts(tf.where(inside, tokens, END), lengths, max_new)

    def generate(
        self, prompts: Prompts, sampling: Sampling, stop_token: tf.Tensor, *, use_cache: bool = True
    ) -> dict[str, tf.Tensor]:
        """Continues each prompt until its `max_new`, its stop token or the end of the document.

        Args:
          prompts: from `prompts`.
          sampling: settings by row.
          stop_token: int32 [batch]; -1 for none.
          use_cache: without it every step computes the whole row again, which gives the same tokens and is there to
            show that, and what the cache saves.

        Returns:
          `tokens`, int32 [batch, longest answer], filled with -1; `num_tokens`, int32 [batch]; `finished`, bool
          [batch], whether a stop token or the end came before `max_new`; `text`, string [batch], UTF-8, in which bytes
          that are not become U+FFFD. The stop token is in none of them.
        """
        slots = tf.reduce_max(tf.concat([prompts.lengths + prompts.max_new, [1]], axis=0))
        if use_cache:
            logits, memory = self.prefill(prompts.tokens, prompts.lengths, slots)
            next_logits: Callable[..., tuple] = functools.partial(self.decode, in_place=True)
        else:
            memory = (tf.pad(prompts.tokens, [[0, 0], [0, slots - tf.shape(prompts.tokens)[1]]]),)
            logits = self._logits_at(memory[0], prompts.lengths - 1)
            next_logits = self._recomputed
        num_steps = tf.reduce_max(tf.concat([prompts.max_new, [1]], axis=0))
        first = sampling.choose(logits, tf.constant(0))
        last = tf.gather(prompts.tokens, prompts.lengths - 1, axis=1, batch_dims=1)

        def is_over(token: tf.Tensor) -> tf.Tensor:
            return (token == END) | (token == stop_token)

        def write(tokens: tf.TensorArray, step: tf.Tensor, token: tf.Tensor, done: tf.Tensor) -> tf.TensorArray:
            return tokens.write(step, tf.where(done | is_over(token) | (step >= prompts.max_new), -1, token))

        def body(step, token, previous, places, done, ended, tokens, *memory) -> tuple:
            logits, memory = next_logits(token, previous, places, memory)
            following = sampling.choose(logits, step)
            tokens = write(tokens, step, following, done)
            ended |= ~done & is_over(following)
            done |= is_over(following) | (step + 1 >= prompts.max_new)
            places = tf.minimum(places + 1, slots - 1)
            return (step + 1, following, token, places, done, ended, tokens, *memory)

        ended = is_over(first) & (prompts.max_new > 0)
        done = is_over(first) | (prompts.max_new <= 1)
        tokens = tf.TensorArray(tf.int32, size=num_steps, element_shape=[None])
        tokens = write(tokens, tf.constant(0), first, tf.zeros_like(done))
        # A row that wants nothing may fill the cache already; what it goes on writing there is not read.
        places = tf.minimum(prompts.lengths, slots - 1)
        state = (tf.constant(1), first, last, places, done, ended, tokens, *memory)
        shapes = (*map(_loose, state[:6]), tf.TensorShape(None), *map(_loose, memory))
        state = tf.while_loop(
            lambda step, _token, _previous, _places, done, *_: (step < num_steps) & ~tf.reduce_all(done),
            body,
            state,
            shape_invariants=shapes,
            parallel_iterations=1,
        )
        return self._answer(state[6].gather(tf.range(state[0])), ended=state[5])

    def _answer(self, by_step: tf.Tensor, ended: tf.Tensor) -> dict:
        tokens = tf.ensure_shape(tf.transpose(by_step), [None, None])
        text = tf.strings.unicode_transcode(self.tokenizer.decode(tokens), "UTF-8", "UTF-8")
        num_tokens = tf.reduce_sum(tf.cast(tokens >= 0, tf.int32), axis=1)
        return {"tokens": tokens, "num_tokens": num_tokens, "finished": ended, "text": text}

    def prefill(self, tokens: tf.Tensor, lengths: tf.Tensor, slots: tf.Tensor) -> tuple[tf.Tensor, Caches]:
        """Reads whole prompts.

        Args:
          tokens: int32 [batch, longest].
          lengths: int32 [batch].
          slots: of the cache, at least the longest prompt.

        Returns:
          Logits of each row's next token, float32 [batch, vocabulary], and the caches.
        """
        previous = tf.concat([tf.zeros_like(tokens[:, :1]) + END, tokens[:, :-1]], axis=1)
        hidden = self._embedding(tokens, previous)
        batch, time = tf.unstack(tf.shape(tokens))
        # One for each row, though all are the same: TensorFlow fuses the product and the addition that follows to an
        # operation that takes a hundred times as long where it has to repeat the mask along the first axis.
        mask = tf.tile(mask_up_to(tf.range(time), time)[tf.newaxis, tf.newaxis], [batch, 1, 1, 1])
        memory: list[tf.Tensor] = []
        for block in self._blocks:
            hidden, *new = block.whole(hidden, mask)
            memory += [tf.pad(part, [[0, 0], [0, 0], [0, slots - time], [0, 0]]) for part in new]
        last = tf.gather(hidden, lengths - 1, axis=1, batch_dims=1)
        return self._head(last[:, tf.newaxis])[:, 0], tuple(memory)

    def decode(
        self, token: tf.Tensor, previous: tf.Tensor, places: tf.Tensor, memory: Caches, in_place: bool = False
    ) -> tuple:
        """Reads one more token of each row.

        Args:
          token, previous: int32 [batch]: the new token and the one before it.
          places: int32 [batch], the new token's slot.
          memory: from `prefill` or the step before.
          in_place: write into `memory` itself. Only for whoever made it and reads it no more: what a client sends may
            be the client's own memory.

        Returns:
          Logits of the token after it, float32 [batch, vocabulary], and the caches.
        """
        hidden = self._embedding(token[:, tf.newaxis], previous[:, tf.newaxis])
        mask = mask_up_to(places, tf.shape(memory[0])[2])[:, tf.newaxis, tf.newaxis]
        new: list[tf.Tensor] = []
        for number, block in enumerate(self._blocks):
            hidden, *written = block.step(hidden, memory[2 * number], memory[2 * number + 1], places, mask, in_place)
            new += written
        return self._head(hidden)[:, 0], tuple(new)

    def _recomputed(self, token: tf.Tensor, previous: tf.Tensor, places: tf.Tensor, memory: tuple) -> tuple:
        """What `decode` gives, from all the row's tokens."""
        del previous
        rows = tf.stack([tf.range(tf.size(places)), places], axis=1)
        tokens = tf.tensor_scatter_nd_update(memory[0], rows, token)
        return self._logits_at(tokens, places), (tokens,)

    def _logits_at(self, tokens: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
        tokens = tokens[:, : tf.reduce_max(places) + 1]
        logits = self._model({"tokens": tokens, "segments": tf.zeros_like(tokens)}, training=False)["logits"]
        return tf.gather(logits, places, axis=1, batch_dims=1)


def _loose(tensor: Any) -> tf.TensorShape:
    return tf.TensorShape([None] * tensor.shape.rank)
