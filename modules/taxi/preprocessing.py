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
    outputs = _numbers({name: inputs[name] for name in (*LOG_NUMBERS, *NUMBERS)})
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


def _numbers(columns: dict[str, tf.SparseTensor]) -> dict:
    """Z-scores in which a missing value counts as the mean, and flags that keep the two apart.

    All columns go through one analyzer: each has a fixed cost in Beam, whatever the amount of data.
    """
    raw = {name: _dense(tf.cast(column, tf.float32), default=float("nan")) for name, column in columns.items()}
    changed = [_log(value) if name in LOG_NUMBERS else value for name, value in raw.items()]
    scores = tft.scale_to_z_score(tf.concat(changed, axis=1), elementwise=True)  # leaves NaN out of mean and variance
    outputs = {}
    for name, value, score in zip(raw, raw.values(), tf.split(scores, len(raw), axis=1), strict=True):
        present = tf.math.is_finite(value)
        outputs[transformed(name)] = tf.where(present, score, 0.0)
        outputs[transformed(f"{name}_present")] = tf.cast(present, tf.float32)
    return outputs


def _log(value: tf.Tensor) -> tf.Tensor:
    return tf.where(tf.math.is_nan(value), value, tf.math.log1p(tf.maximum(value, 0.0)))


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
