"""What the exported model answers, in signatures of plain tensors that any TensorFlow Serving can load."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from modules.textgen.decoder import DecoderConfig
from modules.textgen.generation import Generator
from modules.textgen.ngram import NGramScorer
from modules.textgen.sampling import Sampling
from modules.textgen.scoring import Scorer
from modules.textgen.tokenizer import Tokenizer

TEXT = "text"
_DEFAULTS: dict[str, tuple[tf.DType, Any]] = {
    "max_new": (tf.int64, 64),
    "temperature": (tf.float32, 0.0),
    "top_k": (tf.int64, 0),
    "top_p": (tf.float32, 1.0),
    "seed": (tf.int64, 0),
    "stop": (tf.string, ""),
}


class TextGenerationModule:
    """A decoder with its tokenizer and baseline as one SavedModel.

    Signatures, of which each row is answered by itself:
      generate: prompt, max_new, temperature, top_k, top_p, seed, stop [batch] to text, tokens, num_tokens and
        finished. `stop` is the text of one token, or empty.
      serving_default: the same from serialized tf.Examples with a feature `text` and, where they are there, one for
        each of the other inputs; without `tokens`, whose length is not the row's own.
      score: from serialized tf.Examples with a feature `text` to `score`, `num_bytes` and `bits_per_byte`.
      count_bytes: from serialized tf.Examples to `num_bytes` [batch, 1], the label of an evaluation.
      prefill, decode: single steps for a client that holds the cache itself.
    """

    def __init__(self, model: keras.Model, config: DecoderConfig, tokenizer: Tokenizer, ngrams: NGramScorer):
        self.config = config
        self._model, self._ngrams = model, ngrams
        self._tokenizer = tokenizer
        self._generator = Generator(model, config, tokenizer)
        self._scorer = Scorer(model, config, tokenizer, ngrams)
        self._generate = tf.function(self._generate_rows, autograph=False)  # traced once for both its signatures

    @property
    def trackable(self) -> tf.Module:
        """The root of the SavedModel: variables and nothing else."""
        root = tf.Module()
        root.model_variables = list(self._model.variables)
        root.ngrams = self._ngrams
        return root

    def signatures(self) -> dict[str, Any]:
        """Concrete functions by name."""
        config = self.config
        rows = {name: tf.TensorSpec([None], dtype, name=name) for name, (dtype, _) in _DEFAULTS.items()}
        prompt = tf.TensorSpec([None], tf.string, name="prompt")
        examples = tf.TensorSpec([None], tf.string, name="examples")
        cache = tf.TensorSpec([None, config.num_layers, config.kv_heads, config.context, config.head_size], tf.float32)
        tokens = {name: tf.TensorSpec([None], tf.int32, name=name) for name in ("token", "previous", "length")}
        functions = {
            "serving_default": (self._generate_from_examples, {"examples": examples}),
            "score": (self._score, {"examples": examples}),
            "count_bytes": (self._count_bytes, {"examples": examples}),
            "prefill": (self._prefill, {"prompt": prompt}),
            "decode": (self._decode, {**tokens, "keys": cache, "values": cache}),
        }
        traced = {"generate": self._generate.get_concrete_function(prompt=prompt, **rows)}
        for name, (fn, specs) in functions.items():
            traced[name] = tf.function(fn, autograph=False).get_concrete_function(**specs)
        return traced

    def _generate_rows(self, prompt: tf.Tensor, max_new: tf.Tensor, stop: tf.Tensor, **sampling: tf.Tensor) -> Mapping:
        prompts = self._generator.prompts(prompt, tf.cast(tf.minimum(max_new, self.config.context), tf.int32))
        chosen = Sampling(
            temperature=sampling["temperature"],
            top_k=tf.cast(tf.minimum(sampling["top_k"], self._tokenizer.size), tf.int32),
            top_p=sampling["top_p"],
            seed=sampling["seed"],
        )
        return self._generator.generate(prompts, chosen, self._stop_token(stop))

    def _stop_token(self, stop: tf.Tensor) -> tf.Tensor:
        """The one token of each text, int32 [batch]; -1 for an empty one."""
        tokens = self._tokenizer.encode(stop)
        single = tf.debugging.assert_less_equal(
            tokens.row_lengths(), tf.constant(1, tf.int64), message="stop must be the text of one token, or empty"
        )
        with tf.control_dependencies([single] if single is not None else []):
            # With a column in any case, so that there is a first one.
            dense = tokens.to_tensor(default_value=-1, shape=[None, 1])
        return dense[:, 0]

    def _generate_from_examples(self, examples: tf.Tensor) -> Mapping:
        spec = {name: tf.io.FixedLenFeature([], dtype, default) for name, (dtype, default) in _DEFAULTS.items()}
        row = tf.io.parse_example(examples, {TEXT: _text_feature(), **spec})
        answer = self._generate(prompt=row.pop(TEXT), **row)
        return {name: answer[name] for name in ("text", "num_tokens", "finished")}

    def _score(self, examples: tf.Tensor) -> Mapping:
        return self._scorer.score(_texts(examples))

    def _count_bytes(self, examples: tf.Tensor) -> Mapping:
        return {"num_bytes": tf.cast(tf.strings.length(_texts(examples)), tf.float32)[:, tf.newaxis]}

    def _prefill(self, prompt: tf.Tensor) -> Mapping:
        prompts = self._generator.prompts(prompt, tf.ones([tf.size(prompt)], tf.int32))
        logits, memory = self._generator.prefill(prompts.tokens, prompts.lengths, tf.constant(self.config.context))
        last = tf.gather(prompts.tokens, prompts.lengths - 1, axis=1, batch_dims=1)
        return {"logits": logits, "token": last, "length": prompts.lengths, **_by_row(memory)}

    def _decode(
        self, token: tf.Tensor, previous: tf.Tensor, length: tf.Tensor, keys: tf.Tensor, values: tf.Tensor
    ) -> Mapping:
        room = tf.debugging.assert_less(
            length, self.config.context, message=f"the cache is full: the context is {self.config.context} tokens"
        )
        with tf.control_dependencies([room] if room is not None else []):
            places = tf.identity(length)
        parts = [tf.unstack(cache, axis=1) for cache in (keys, values)]
        memory = tuple(part for pair in zip(*parts, strict=True) for part in pair)
        logits, memory = self._generator.decode(token, previous, places, memory)
        return {"logits": logits, "token": token, "length": length + 1, **_by_row(memory)}


def _by_row(memory: Sequence[tf.Tensor]) -> dict[str, tf.Tensor]:
    """The caches with rows first: [batch, layers, kv_heads, context, head_size]."""
    return {"keys": tf.stack(memory[::2], axis=1), "values": tf.stack(memory[1::2], axis=1)}


def _text_feature() -> tf.io.FixedLenFeature:
    return tf.io.FixedLenFeature([], tf.string, "")


def _texts(examples: tf.Tensor) -> tf.Tensor:
    return tf.io.parse_example(examples, {TEXT: _text_feature()})[TEXT]
