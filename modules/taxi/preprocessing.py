"""From raw taxi columns to what the model reads; the same graph runs in training and inside the served model."""

import tensorflow as tf
import tensorflow_transform as tft

from modules.taxi.features import (
    BIG_TIP_SHARE,
    LABEL_KEY,
    LOG_NUMBERS,
    NUM_OOV_BUCKETS,
    NUMBERS,
    SMALL_INTEGERS,
    VOCABULARIES,
    transformed,
)


def preprocessing_fn(inputs: dict) -> dict:
    """The Transform step's function.

    Args:
      inputs: raw columns as `tf.SparseTensor`s of shape [batch, 1] (a missing value is an absent entry).

    Returns:
      Per column a dense [batch, 1] tensor: float32 numbers of mean 0 and variance 1 and a float32 flag per number
      that says whether it was present; int64 ids; and the int64 label.
    """
    outputs = {}
    for name in LOG_NUMBERS:
        outputs.update(_number(name, inputs[name], lambda value: tf.math.log1p(tf.maximum(value, 0.0))))
    for name in NUMBERS:
        outputs.update(_number(name, inputs[name], tf.identity))
    for name, num_values in SMALL_INTEGERS.items():
        value = _dense(inputs[name], default=num_values - 1)
        outputs[transformed(name)] = tf.clip_by_value(value, 0, num_values - 1)
    for name, top_k in VOCABULARIES.items():
        outputs[transformed(name)] = tft.compute_and_apply_vocabulary(
            _dense(_as_text(inputs[name]), default=""),
            top_k=top_k,
            num_oov_buckets=NUM_OOV_BUCKETS,
            vocab_filename=name,
        )
    if "tips" in inputs:  # absent when serving
        tips = _dense(tf.cast(inputs["tips"], tf.float32), default=0.0)
        fare = _dense(tf.cast(inputs["fare"], tf.float32), default=float("inf"))
        outputs[transformed(LABEL_KEY)] = tf.cast(tips > fare * BIG_TIP_SHARE, tf.int64)
    return outputs


def _number(name: str, column: tf.SparseTensor, change) -> dict:
    """A z-score in which a missing value counts as the mean, and a flag that keeps the two apart."""
    raw = _dense(tf.cast(column, tf.float32), default=float("nan"))
    present = tf.math.is_finite(raw)
    value = tf.where(present, change(tf.where(present, raw, 0.0)), float("nan"))
    score = tft.scale_to_z_score(value)  # TFT leaves NaN out of mean and variance
    return {
        transformed(name): tf.where(present, score, 0.0),
        transformed(f"{name}_present"): tf.cast(present, tf.float32),
    }


def _as_text(column: tf.SparseTensor) -> tf.SparseTensor:
    if column.dtype == tf.string:
        return column
    return tf.SparseTensor(column.indices, tf.strings.as_string(column.values), column.dense_shape)


def _dense(column: tf.SparseTensor, default) -> tf.Tensor:
    """A [batch, 1] tensor with `default` where the value is missing."""
    default = tf.constant(default, column.dtype)
    shape = tf.stack([column.dense_shape[0], tf.constant(1, tf.int64)])
    sparse = tf.SparseTensor(column.indices, column.values, shape)
    dense = tf.sparse.to_dense(sparse, default)
    dense.set_shape([None, 1])
    return dense
