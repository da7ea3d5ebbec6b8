"""The baseline that a model must beat: a 5-gram model of bytes with interpolated Kneser-Ney smoothing.

It is counted in NumPy in a second and scores in plain TensorFlow operations, so that the Evaluator asks it about the
very same documents, and slices, as the model.
"""

import dataclasses

import numpy as np
import tensorflow as tf

ORDER = 5
DISCOUNT = 0.75
_SYMBOLS = 257
_EDGE = 256
"""Before a document's first byte and after its last."""


@dataclasses.dataclass(frozen=True)
class NGrams:
    """Of every order 1 to ORDER, sorted: n-grams with their log probabilities, contexts with their back-off weights.

    An n-gram s1 ... sn is the number with these digits in base 257.
    """

    keys: tuple[np.ndarray, ...]
    """int64."""
    log_probabilities: tuple[np.ndarray, ...]
    """float32, natural."""
    contexts: tuple[np.ndarray, ...]
    """int64: all but the last symbol of those n-grams."""
    log_weights: tuple[np.ndarray, ...]
    """float32: what is left for symbols that never followed the context."""


def count_ngrams(texts: list[bytes]) -> NGrams:
    """The n-gram model of the documents, each ending with an end symbol."""
    symbols = np.concatenate([_padded(text) for text in texts])
    real = np.concatenate([np.arange(len(text) + ORDER) >= ORDER - 1 for text in texts])
    grams = [_grams(symbols, order)[real] for order in range(1, ORDER + 1)]
    keys, counts = np.unique(grams[-1], return_counts=True)
    levels = [(keys, counts)]
    for _ in range(ORDER - 1):  # a shorter n-gram counts the different symbols that came before it
        shorter = levels[0][0] % _SYMBOLS ** (ORDER - len(levels))
        levels.insert(0, np.unique(shorter, return_counts=True))
    return _smoothed(levels)


def _padded(text: bytes) -> np.ndarray:
    edge = [_EDGE] * (ORDER - 1)
    return np.concatenate([edge, np.frombuffer(text, np.uint8), [_EDGE]]).astype(np.int64)


def _grams(symbols: np.ndarray, order: int) -> np.ndarray:
    """The n-gram that ends at each symbol; at the very first ones it lacks its beginning and is not used."""
    grams = np.zeros(len(symbols), np.int64)
    for back in range(order):
        grams[back:] += symbols[: len(symbols) - back] * _SYMBOLS**back
    return grams


def _smoothed(levels: list[tuple[np.ndarray, np.ndarray]]) -> NGrams:
    parts: dict[str, list[np.ndarray]] = {"keys": [], "log_probabilities": [], "contexts": [], "log_weights": []}
    for order, (keys, counts) in enumerate(levels, start=1):
        contexts, place = np.unique(keys // _SYMBOLS, return_inverse=True)
        totals = np.bincount(place, counts)
        weights = DISCOUNT * np.bincount(place) / totals
        lower = 1.0 / _SYMBOLS if order == 1 else _of_lower(parts, keys % _SYMBOLS ** (order - 1))
        probabilities = np.maximum(counts - DISCOUNT, 0) / totals[place] + weights[place] * lower
        parts["keys"].append(keys)
        parts["log_probabilities"].append(np.log(probabilities).astype(np.float32))
        parts["contexts"].append(contexts)
        parts["log_weights"].append(np.log(weights).astype(np.float32))
    return NGrams(**{name: tuple(values) for name, values in parts.items()})


def _of_lower(parts: dict[str, list[np.ndarray]], keys: np.ndarray) -> np.ndarray:
    """Probabilities of n-grams one shorter: all are known, because the longer ones are."""
    return np.exp(parts["log_probabilities"][-1][np.searchsorted(parts["keys"][-1], keys)].astype(np.float64))


class NGramScorer(tf.Module):
    """Scores documents in a graph."""

    def __init__(self, ngrams: NGrams):
        super().__init__(name="ngrams")
        # Variables, because constants would make the graph file as large as the tables.
        self.tables = [
            [tf.Variable(values, trainable=False) for values in level]
            for level in zip(ngrams.keys, ngrams.log_probabilities, ngrams.contexts, ngrams.log_weights, strict=True)
        ]

    def nats(self, texts: tf.Tensor) -> tf.Tensor:
        """Minus the natural logarithm of each document's probability, end included; float32 [batch]."""
        lengths = tf.strings.length(texts)
        padded = tf.strings.length(texts) + ORDER
        rows = tf.repeat(tf.range(tf.size(texts)), padded)
        places = tf.range(tf.size(rows)) - tf.gather(tf.cumsum(padded, exclusive=True), rows)
        codes = tf.cast(tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8), tf.int64)
        inside = (places >= ORDER - 1) & (places < ORDER - 1 + tf.gather(lengths, rows))
        slots = tf.cast(tf.where(inside)[:, 0], tf.int64)
        symbols = tf.tensor_scatter_nd_update(
            tf.fill([tf.size(rows)], tf.constant(_EDGE, tf.int64)), slots[:, tf.newaxis], codes
        )
        scores = tf.fill([tf.size(rows)], -float(np.log(_SYMBOLS)))
        grams = tf.zeros_like(symbols)
        for back, table in enumerate(self.tables):
            earlier = tf.concat([tf.zeros([back], tf.int64), symbols], axis=0)[: tf.size(rows)]
            grams += earlier * _SYMBOLS**back
            scores = _better(scores, grams, table)
        scored = tf.where(places >= ORDER - 1, scores, 0.0)
        return -tf.math.unsorted_segment_sum(scored, rows, tf.size(texts))


def _better(lower: tf.Tensor, grams: tf.Tensor, table: list) -> tf.Tensor:
    """Log probabilities by one more symbol of context."""
    keys, log_probabilities, contexts, log_weights = (tf.convert_to_tensor(values) for values in table)
    known, value = _looked_up(keys, log_probabilities, grams)
    seen, weight = _looked_up(contexts, log_weights, grams // _SYMBOLS)
    return tf.where(known, value, lower + tf.where(seen, weight, 0.0))


def _looked_up(keys: tf.Tensor, values: tf.Tensor, wanted: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    place = tf.minimum(tf.searchsorted(keys, wanted), tf.size(keys) - 1)
    return tf.gather(keys, place) == wanted, tf.gather(values, place)
