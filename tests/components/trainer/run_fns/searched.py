"""A tuner_fn and a run_fn on the training engine, as docs/training.md shows them."""

import keras_tuner
import tf_keras

from modules import training
from modules.training import tuning


def build_model():
    inputs = tf_keras.Input((4,), name="x")
    return tf_keras.Model({"x": inputs}, {"sum": tf_keras.layers.Dense(1, dtype="float32")(inputs)})


def train(fn_args, hyperparameters):
    config = training.TrainingConfig(batch_size=32, learning_rate=hyperparameters["rate"])
    return training.train(fn_args, build_model, label_key="y", loss=tf_keras.losses.MeanSquaredError(), config=config)


def tuner_fn(fn_args):
    space = keras_tuner.HyperParameters()
    space.Choice("rate", [1e-6, 0.1])
    return tuning.tuner_fn_result(fn_args, train, space=space, max_trials=2, algorithm="random")


def run_fn(fn_args):
    result = train(fn_args, keras_tuner.HyperParameters.from_config(fn_args.hyperparameters))
    print(f"learned to a loss of {result.metrics['loss']:.5f}")
