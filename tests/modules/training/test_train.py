"""The whole engine in one process: from transformed TFRecords to a checked serving model."""

import base64
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tf_keras import layers

from modules import training


def build_model(transform_output):
    size = transform_output.vocabulary_size_by_name("payment") + 1
    miles = tf_keras.Input((1,), name="miles_xf")
    payment = tf_keras.Input((1,), name="payment_xf", dtype="int64")
    embedded = layers.Flatten()(layers.Embedding(size, 4)(payment))
    hidden = layers.Dense(16, activation="relu")(layers.Concatenate()([miles, embedded]))
    output = layers.Dense(1, activation="sigmoid", dtype="float32", name="probabilities")(hidden)
    return tf_keras.Model({"miles_xf": miles, "payment_xf": payment}, {"probabilities": output})


def train(fn_args, **kwargs):
    return training.train(
        fn_args,
        build_model,
        label_key="tipped_xf",
        loss="binary_crossentropy",
        metrics={"auc": tf_keras.metrics.AUC},
        **kwargs,
    )


def test_trains_evaluates_and_exports_a_model_that_answers_from_raw_examples(fn_args, trips):
    result = train(fn_args, raw_examples=trips.raw)
    assert result.steps == 40
    assert result.metrics["auc"] > 0.9
    loaded = tf.saved_model.load(fn_args.serving_model_dir)
    assert sorted(loaded.signatures) == ["predict_transformed", "serving_default", "transform_features"]
    golden = json.loads(Path(fn_args.serving_model_dir, "assets.extra/golden_predictions.json").read_text())
    examples = [base64.b64decode(text) for text in golden["examples_b64"]]
    answers = loaded.signatures["serving_default"](examples=tf.constant(examples))
    assert list(answers) == ["probabilities"]
    np.testing.assert_allclose(answers["probabilities"], golden["outputs"]["probabilities"], atol=golden["tolerance"])
    in_memory = result.model(  # the exported numbers are the trained model's own
        {k: v for k, v in loaded.signatures["transform_features"](tf.constant(examples)).items() if k != "tipped_xf"}
    )
    np.testing.assert_allclose(answers["probabilities"], in_memory["probabilities"], atol=1e-6)


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_lower_precision_learns_too_and_serves_float32(fn_args, precision):
    config = training.TrainingConfig(batch_size=32, learning_rate=0.01, precision=precision)
    result = train(fn_args, config=config)
    assert result.metrics["auc"] > 0.9
    assert {layer.compute_dtype for layer in result.model.layers} <= {"float32", "int64"}
