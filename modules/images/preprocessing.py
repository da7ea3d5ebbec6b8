"""Classes to numbers; pictures pass through as they are, encoded."""

import tensorflow as tf
import tensorflow_transform as tft

from modules.images.features import CLASS_KEY, ENCODED_KEY, IMAGE_KEY, LABEL_KEY, NUM_OOV_BUCKETS


def preprocessing_fn(inputs: dict) -> dict:
    """The Transform step's function.

    Args:
      inputs: raw columns; the image as bytes, the label as text or a whole number, absent when serving.

    Returns:
      The encoded image, string [batch], and the class, int64 [batch], by how often the training split has it; a class
      that the training split does not have gets the number after the last.
    """
    outputs = {ENCODED_KEY: _dense(inputs[IMAGE_KEY])}
    if LABEL_KEY in inputs:
        label = inputs[LABEL_KEY]
        text = _dense(label) if label.dtype == tf.string else tf.strings.as_string(_dense(label))
        outputs[CLASS_KEY] = tft.compute_and_apply_vocabulary(
            text, num_oov_buckets=NUM_OOV_BUCKETS, vocab_filename=LABEL_KEY
        )
    return outputs


def _dense(column) -> tf.Tensor:
    """One value per row, [batch]."""
    return tf.reshape(column.values if isinstance(column, tf.SparseTensor) else column, [-1])
