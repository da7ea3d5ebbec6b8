"""How likely documents are to a model: by windows that overlap by half, so that hardly a token lacks its context."""

import tensorflow as tf
import tf_keras as keras

from modules.textgen.decoder import DecoderConfig
from modules.textgen.ngram import NGramScorer
from modules.textgen.tokenizer import END, Tokenizer

_AT_ONCE = 8
"""Windows in one pass through the model: logits of more would take the memory of the model many times over."""


class Scorer:
    """Scores documents with the model and with the baseline."""

    def __init__(self, model: keras.Model, config: DecoderConfig, tokenizer: Tokenizer, ngrams: NGramScorer):
        self._model, self._config, self._tokenizer = model, config, tokenizer
        self.ngrams = ngrams

    def score(self, texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Of each document of a string [batch]:

        `score`: float32 [batch, 3], the natural logarithm of one over its probability, its end included, to the model
        and to the n-gram baseline, and its number of tokens.
        `num_bytes`: float32 [batch].
        `bits_per_byte`: float32 [batch], the model's; 0 for an empty text.
        """
        tokens = self._tokenizer.encode(texts)
        nats = self._nats(tokens)
        num_tokens = tf.cast(tokens.row_lengths() + 1, tf.float32)
        num_bytes = tf.cast(tf.strings.length(texts), tf.float32)
        bits = tf.math.divide_no_nan(nats, num_bytes) / tf.math.log(2.0)
        score = tf.stack([nats, self.ngrams.nats(texts), num_tokens], axis=1)
        return {"score": score, "num_bytes": num_bytes, "bits_per_byte": bits}

    def _nats(self, tokens: tf.RaggedTensor) -> tf.Tensor:
        """float32 [batch], from the tokens of each document without its END."""
        context = self._config.context
        stride = max(1, context // 2)
        lengths = tf.cast(tokens.row_lengths(), tf.int32) + 1  # targets: the tokens and the END after them
        num_windows = 1 + tf.maximum(0, lengths - context + stride - 1) // stride
        rows = tf.repeat(tf.range(tf.size(lengths)), num_windows)
        number = tf.range(tf.size(rows)) - tf.gather(tf.cumsum(num_windows, exclusive=True), rows)
        starts = number * stride
        # A window counts what the one before it did not reach.
        counted_from = tf.where(number == 0, 0, context - stride)
        flat = tf.concat([tokens.flat_values, [END]], axis=0)
        first = tf.cast(tf.gather(tokens.row_starts(), rows), tf.int32)
        places = starts[:, tf.newaxis] + tf.range(context)[tf.newaxis]
        rest = tf.gather(lengths, rows)[:, tf.newaxis]

        def at(place: tf.Tensor) -> tf.Tensor:
            """The documents' tokens at these places; END before the first and after the last."""
            inside = (place >= 0) & (place < rest - 1)
            index = tf.where(inside, first[:, tf.newaxis] + place, tf.size(flat) - 1)
            return tf.gather(flat, index)

        counts = (tf.range(context)[tf.newaxis] >= counted_from[:, tf.newaxis]) & (places < rest)
        losses = self._losses(at(places - 1), at(places), tf.cast(counts, tf.float32))
        return tf.math.unsorted_segment_sum(losses, rows, tf.size(lengths))

    def _losses(self, inputs: tf.Tensor, targets: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
        """Sums over each window, float32 [windows], a few windows at a time."""
        num_windows = tf.shape(inputs)[0]
        parts = tf.TensorArray(
            tf.float32, size=(num_windows + _AT_ONCE - 1) // _AT_ONCE, infer_shape=False, element_shape=[None]
        )

        def some(number: tf.Tensor, parts: tf.TensorArray) -> tuple:
            part = slice(number * _AT_ONCE, (number + 1) * _AT_ONCE)
            features = {"tokens": inputs[part], "segments": tf.zeros_like(inputs[part])}
            logits = self._model(features, training=False)["logits"]
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets[part], logits)
            return number + 1, parts.write(number, tf.reduce_sum(losses * counts[part], axis=1))

        _, parts = tf.while_loop(
            lambda number, _: number < parts.size(), some, (tf.constant(0), parts), parallel_iterations=1
        )
        return parts.concat()
