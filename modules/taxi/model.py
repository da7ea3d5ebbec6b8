"""The taxi model: embeddings of the categories and the scaled numbers into a small multilayer perceptron."""

import tf_keras as keras

from modules import training
from modules.taxi.features import (
    LABEL_KEY,
    LOG_NUMBERS,
    NUM_OOV_BUCKETS,
    NUMBERS,
    SMALL_INTEGERS,
    VOCABULARIES,
    transformed,
)

HIDDEN_UNITS = (128, 64)
EMBEDDING_WIDTH = 12


def build_model(num_categories: dict[str, int]) -> keras.Model:
    """An uncompiled model.

    Args:
      num_categories: for every categorical column (raw name) how many ids there are, the unseen ones' bucket included.

    Returns:
      A model from a dict of [batch, 1] transformed features (float32 numbers, int64 ids) to `{"probabilities":
      [batch, 1]}`, float32 whatever the precision policy: the probability of a big tip.
    """
    inputs, parts = {}, []
    for name in LOG_NUMBERS + NUMBERS:
        for key in (transformed(name), transformed(f"{name}_present")):
            inputs[key] = keras.Input((1,), name=key, dtype="float32")
            parts.append(inputs[key])
    for name, size in num_categories.items():
        key = transformed(name)
        inputs[key] = keras.Input((1,), name=key, dtype="int64")
        width = min(EMBEDDING_WIDTH, (size + 1) // 2)
        parts.append(keras.layers.Flatten()(keras.layers.Embedding(size, width, name=f"{name}_embedding")(inputs[key])))
    hidden = keras.layers.Concatenate()([keras.layers.Activation("linear")(part) for part in parts])
    for units in HIDDEN_UNITS:
        hidden = keras.layers.Dense(units, activation="relu")(hidden)
    probabilities = keras.layers.Dense(1, activation="sigmoid", dtype="float32", name="probabilities")(hidden)
    return keras.Model(inputs, {"probabilities": probabilities})


def num_categories(transform_output) -> dict[str, int]:
    """How many ids each categorical column has, from the vocabularies that Transform computed."""
    sizes = dict(SMALL_INTEGERS)
    for name in VOCABULARIES:
        sizes[name] = transform_output.vocabulary_size_by_name(name) + NUM_OOV_BUCKETS
    return sizes


def run_fn(fn_args) -> None:
    """The Trainer step's function."""
    training.train(
        fn_args,
        lambda transform_output: build_model(num_categories(transform_output)),
        label_key=transformed(LABEL_KEY),
        loss=keras.losses.BinaryCrossentropy(reduction="none"),
        metrics={"auc": keras.metrics.AUC, "accuracy": keras.metrics.BinaryAccuracy},
    )
