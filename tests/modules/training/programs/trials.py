"""Trials for a search in several processes. The first two begin when both are there: they do run at the same time."""

import os
import time
from pathlib import Path

import tf_keras

from modules import training


def build_model():
    miles = tf_keras.Input((1,), name="miles_xf")
    payment = tf_keras.Input((1,), name="payment_xf", dtype="int64")
    both = tf_keras.layers.Concatenate()([miles, tf_keras.layers.Rescaling(1.0)(payment)])
    output = tf_keras.layers.Dense(1, activation="sigmoid", name="probabilities")(both)
    return tf_keras.Model({"miles_xf": miles, "payment_xf": payment}, {"probabilities": output})


def meet(folder):
    (folder / f"here-{os.getpid()}").touch()
    deadline = time.monotonic() + 60
    while len(list(folder.glob("here-*"))) < 2:
        assert time.monotonic() < deadline, "the other trial did not come"
        time.sleep(0.01)


def run_trial(fn_args, hyperparameters):
    config = training.TrainingConfig(batch_size=32, steps=25, learning_rate=hyperparameters["learning_rate"])
    meet(Path(fn_args.custom_config["meeting"]))
    return training.train(
        fn_args,
        build_model,
        label_key="tipped_xf",
        loss="binary_crossentropy",
        metrics={"auc": tf_keras.metrics.AUC},
        config=config,
    )
