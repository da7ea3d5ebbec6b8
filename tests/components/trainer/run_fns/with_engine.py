"""A run_fn on the training engine: a line through numbers, slow enough to be interrupted."""

import os
import pathlib

import tf_keras

from modules import training


def build_model():
    inputs = tf_keras.Input((4,), name="x")
    outputs = tf_keras.layers.Dense(1, dtype="float32")(tf_keras.layers.Dense(32, activation="relu")(inputs))
    return tf_keras.Model({"x": inputs}, {"sum": outputs})


def run_fn(fn_args):
    marks = pathlib.Path(fn_args.model_run_dir, "pids")
    marks.mkdir(parents=True, exist_ok=True)
    (marks / str(os.getpid())).touch()
    result = training.train(fn_args, build_model, label_key="y", loss=tf_keras.losses.MeanSquaredError())
    print(f"resumed at {result.resumed_at}, {result.steps} steps on {result.num_replicas} replicas")
