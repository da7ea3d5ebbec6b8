"""Where words begin, the same in training the tokenizer and in the served graph.

A byte-pair merge never crosses a word's beginning. A word is a run of bytes of one class (letters, digits, blanks,
line ends, the rest), with the one blank before it if there is one, and at most MAX_WORD bytes long. Bytes above 127
count as letters, so that text that is not UTF-8 has words too.
"""

import numpy as np
import tensorflow as tf

MAX_WORD = 24
_SPACE = 32
_LETTER, _DIGIT, _BLANK, _CONTROL, _OTHER = range(5)


def _classes() -> np.ndarray:
    classes = np.full(256, _OTHER, np.int32)
    classes[:_SPACE] = _CONTROL
    classes[_SPACE] = _BLANK
    classes[48:58] = _DIGIT
    classes[65:91] = classes[97:123] = classes[ord("_")] = classes[128:] = _LETTER
    return classes


_CLASSES = _classes()


def word_starts(codes: tf.Tensor, row_starts: tf.Tensor) -> tf.Tensor:
    """Whether a word begins at each byte.

    Args:
      codes: int32 [n], the bytes of all rows, one row after the other.
      row_starts: bool [n], where rows begin.

    Returns:
      bool [n].
    """
    classes = tf.gather(tf.constant(_CLASSES), codes)
    before = tf.concat([[-1], classes[:-1]], axis=0)
    row_ends = tf.concat([row_starts[1:], [True]], axis=0)[: tf.size(codes)]
    after = tf.where(row_ends, _CONTROL, tf.concat([classes[1:], [_CONTROL]], axis=0)[: tf.size(codes)])
    changes = row_starts | (classes != before)
    # The last blank of a run belongs to the word after it.
    leads = (classes == _BLANK) & (after != _BLANK) & (after != _CONTROL)
    led = (before == _BLANK) & (classes != _CONTROL) & ~row_starts & (classes != _BLANK)
    starts = (changes & ~led) | leads
    # Cut what is too long.
    place = _places_in_runs(starts)
    return starts | (place % MAX_WORD == 0)


def _places_in_runs(starts: tf.Tensor) -> tf.Tensor:
    """For each place how far it is from the last start at or before it, int32 [n]; the first place is a start."""
    everywhere = tf.range(tf.size(starts))
    number = tf.cumsum(tf.cast(starts, tf.int32)) - 1
    return everywhere - tf.gather(tf.boolean_mask(everywhere, starts), number)
