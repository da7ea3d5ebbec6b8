"""Byte-level byte-pair encoding in plain TensorFlow operations, so that a served model takes and gives text.

No custom operation and no lookup table: any TensorFlow Serving loads it, and there is nothing to initialise. Training
and serving run this same code (docs/adr/0850-tokenizer-in-the-graph.md).
"""

import json
from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from modules.textgen.words import word_starts

END = 0
"""The token between documents: a document begins after one and ends with the next."""
FIRST_BYTE = 1
NUM_BASIC = FIRST_BYTE + 256
_FORMAT = "byte-pair encoding, version 1"
_NEVER = np.iinfo(np.int32).max


class TokenizerError(ValueError):
    """A tokenizer file that cannot be read, or texts that no tokenizer can be trained on."""

    exit_code = 3


class Tokenizer:
    """Text to tokens and back.

    Args:
      merges: pairs of tokens in the order in which they are merged. A pair makes the next token, 257 and so on, or the
        one that has the same text already.
    """

    def __init__(self, merges: Sequence[tuple[int, int]]):
        self.merges = [(int(left), int(right)) for left, right in merges]
        self.pieces = [b"", *(bytes([code]) for code in range(256))]
        ids = {piece: token for token, piece in enumerate(self.pieces)}
        made = []
        for left, right in self.merges:
            if not 0 < min(left, right) <= max(left, right) < len(self.pieces):
                raise TokenizerError(f"merge {left}, {right}: both must be earlier tokens, 1 to {len(self.pieces) - 1}")
            piece = self.pieces[left] + self.pieces[right]
            if piece not in ids:
                ids[piece] = len(self.pieces)
                self.pieces.append(piece)
            made.append(ids[piece])
        keys = np.array([left * self.size + right for left, right in self.merges], np.int64)
        order = np.argsort(keys)
        # A sentinel, so that a tokenizer without merges needs no code of its own.
        self._keys = np.concatenate([keys[order], [self.size * self.size]])
        self._ranks = np.concatenate([order, [_NEVER]]).astype(np.int32)
        self._made = np.concatenate([np.array(made, np.int64)[order], [END]]).astype(np.int32)

    @property
    def size(self) -> int:
        """How many tokens there are."""
        return len(self.pieces)

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Tokens of each text, int32 [batch, (tokens)]; any bytes will do. Concatenated, their pieces are the text."""
        lengths = tf.strings.length(texts)
        codes = tf.cast(tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8), tf.int32)
        rows = tf.repeat(tf.range(tf.size(texts)), lengths)
        row_starts = tf.concat([[True], rows[1:] != rows[:-1]], axis=0)[: tf.size(codes)]
        words = tf.cumsum(tf.cast(word_starts(codes, row_starts), tf.int32)) - 1
        tokens, _, rows = self._merged(codes + FIRST_BYTE, words, rows)
        return tf.RaggedTensor.from_value_rowids(tokens, tf.cast(rows, tf.int64), tf.size(texts, tf.int64))

    def decode(self, tokens: tf.Tensor) -> tf.Tensor:
        """The text of each row, string [batch]; a negative token in int32 [batch, time] stands for nothing."""
        pieces = tf.gather(tf.constant(self.pieces), tf.maximum(tokens, END))
        return tf.strings.reduce_join(tf.where(tokens < 0, "", pieces), axis=-1)

    def _merged(self, tokens: tf.Tensor, words: tf.Tensor, rows: tf.Tensor) -> tuple:
        """Applies to every word its merges, those of lowest rank first."""
        num_words = tf.reduce_max(tf.concat([words, [-1]], axis=0)) + 1
        flat = tf.TensorShape([None])

        def once(_: tf.Tensor, tokens: tf.Tensor, words: tf.Tensor, rows: tf.Tensor) -> tuple:
            return self._merge_once(tokens, words, rows, num_words)

        _, *merged = tf.while_loop(
            lambda go_on, *_: go_on,
            once,
            (tf.size(tokens) > 1, tokens, words, rows),
            shape_invariants=(tf.TensorShape([]), flat, flat, flat),
        )
        return tuple(merged)

    def _merge_once(self, tokens: tf.Tensor, words: tf.Tensor, rows: tf.Tensor, num_words: tf.Tensor) -> tuple:
        """One merge in every word that has one left: all places of the word's pair of lowest rank."""
        wide = tf.cast(tokens, tf.int64)
        pairs = wide[:-1] * self.size + wide[1:]
        found = tf.searchsorted(tf.constant(self._keys), pairs)
        known = (tf.gather(tf.constant(self._keys), found) == pairs) & (words[:-1] == words[1:])
        ranks = tf.where(known, tf.gather(tf.constant(self._ranks), found), _NEVER)
        lowest = tf.math.unsorted_segment_min(ranks, words[:-1], num_words)
        chosen = known & (ranks == tf.gather(lowest, words[:-1]))
        chosen = _every_second_of_a_run(chosen)
        made = tf.gather(tf.constant(self._made), found)
        merged = tf.where(tf.concat([chosen, [False]], axis=0), tf.concat([made, [END]], axis=0), tokens)
        kept = ~tf.concat([[False], chosen], axis=0)
        state = [tf.boolean_mask(values, kept) for values in (merged, words, rows)]
        return tf.reduce_any(chosen) & (tf.size(state[0]) > 1), *state

    def to_json(self) -> str:
        """What `from_json` takes back."""
        return json.dumps({"format": _FORMAT, "end": END, "first_byte": FIRST_BYTE, "merges": self.merges})

    @classmethod
    def from_json(cls, text: str) -> "Tokenizer":
        """The tokenizer of a file that `to_json` wrote.

        Raises:
          TokenizerError: it is something else.
        """
        try:
            content = json.loads(text)
            if content["format"] != _FORMAT:
                raise TokenizerError(f"the tokenizer file's format is {content['format']!r}; expected {_FORMAT!r}")
            return cls(content["merges"])
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise TokenizerError(f"not a tokenizer file: {error!r}") from None


def _every_second_of_a_run(chosen: tf.Tensor) -> tf.Tensor:
    """Of places that follow each other directly the first, third, ...: "aaa" holds the pair "aa" once, not twice."""
    everywhere = tf.range(tf.size(chosen))
    gaps = tf.concat([[0], tf.cast(tf.where(~chosen)[:, 0], tf.int32) + 1], axis=0)
    number = tf.cumsum(tf.cast(~chosen, tf.int32), exclusive=True)
    return chosen & ((everywhere - tf.gather(gaps, number)) % 2 == 0)


def train_tokenizer(texts: Iterable[bytes], size: int) -> Tokenizer:
    """Learns the merges from texts.

    Args:
      texts: any bytes.
      size: tokens, of which 257 are there in any case; fewer come out where no pair is left that occurs twice.

    Raises:
      TokenizerError: no room for a single merge, or no text.
    """
    from tokenizers import Tokenizer as Trained
    from tokenizers import models, trainers

    if size < NUM_BASIC:
        raise TokenizerError(f"a tokenizer of {size} tokens: there are 256 bytes and the end of a document already")
    alphabet = [chr(code) for code in range(256)]  # a byte is the character of its number
    trainer = trainers.BpeTrainer(vocab_size=size - 1, initial_alphabet=alphabet, min_frequency=2, show_progress=False)
    trained = Trained(models.BPE())
    trained.train_from_iterator((word.decode("latin-1") for text in texts for word in split_words(text)), trainer)
    pairs = json.loads(trained.to_str())["model"]["merges"]
    ids = {character: number + FIRST_BYTE for number, character in enumerate(alphabet)}
    merges: list[tuple[int, int]] = []
    for left, right in pairs:
        merges.append((ids[left], ids[right]))
        ids.setdefault(left + right, len(ids) + FIRST_BYTE)
    return Tokenizer(merges)


def split_words(text: bytes) -> list[bytes]:
    """The words of one text, in order."""
    if not text:
        return []
    codes = np.frombuffer(text, np.uint8).astype(np.int32)
    starts = np.flatnonzero(word_starts(tf.constant(codes), tf.range(len(codes)) == 0).numpy())
    return [text[begin:end] for begin, end in zip(starts, [*starts[1:], len(text)], strict=True)]
