"""One worker of a whole training: trip.py SETTINGS.json; ends with the error's exit code.

`trouble` in the settings makes one worker misbehave at one moment; the engine itself is never changed.
"""

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

import tensorflow as tf
import tf_keras
from tf_keras import layers
from tfx.components.trainer.fn_args_utils import FnArgs

from modules import training
from modules.training.cluster import read_cluster


def wait_for_ever(marker: str) -> None:
    Path(marker).touch()
    while True:
        time.sleep(1)


def after(function, condition, marker: str):
    """`function`, followed by a wait for ever where `condition(*arguments)` holds."""

    def call(*args, **kwargs):
        result = function(*args, **kwargs)
        if condition(*args):
            wait_for_ever(marker)
        return result

    return call


def install(trouble: dict) -> None:
    """Stops this process at a moment of its life; the test then kills it there."""
    if read_cluster().worker_rank != trouble["worker"]:
        return
    kind, marker = trouble["kind"], trouble["marker"]
    rename, save, load = tf.io.gfile.rename, tf.saved_model.save, tf.saved_model.load
    if kind == "at_start":
        wait_for_ever(marker)
    elif kind == "in_cluster":  # has met the others, and does nothing more
        strategy = tf.distribute.MultiWorkerMirroredStrategy
        tf.distribute.MultiWorkerMirroredStrategy = after(strategy, lambda *_: True, marker)
    elif kind == "at_seal":  # the variables are written, the seal is not

        def stop_before_seal(source, target, *args, **kwargs):
            if str(target).endswith("state.json"):
                wait_for_ever(marker)
            return rename(source, target, *args, **kwargs)

        tf.io.gfile.rename = stop_before_seal
    elif kind == "after_seal":
        tf.io.gfile.rename = after(rename, lambda _, target: target.endswith("state.json"), marker)
    elif kind == "in_checkpoint":
        tf.train.Checkpoint.write = after(tf.train.Checkpoint.write, lambda *_: True, marker)
    elif kind == "in_export":
        tf.saved_model.save = after(save, lambda *_: True, marker)
    elif kind == "in_reload":
        tf.saved_model.load = after(load, lambda path, *_: ".writing-" in path, marker)
    elif kind == "file_limit":
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (trouble["bytes"], trouble["bytes"]))


class Troubled(layers.Layer):
    """Identity that hangs, or makes the gradient infinite, in one worker: while it is compiled, or at some calls."""

    def __init__(self, trouble: dict, **kwargs):
        super().__init__(**kwargs)
        self.trouble = trouble
        self.mine = read_cluster().worker_rank == trouble.get("worker")
        self.calls = 0
        self.is_trained = False

    def call(self, inputs, training=None):
        kind = self.trouble.get("kind")
        self.is_trained = self.is_trained or bool(training)
        moment = "in_compile" if training else "in_evaluation" if self.is_trained else "in_construction"
        if self.mine and kind == moment:
            wait_for_ever(self.trouble["marker"])
        if not self.mine or kind not in ("hang", "infinite", "nan"):
            return inputs
        factor = tf.numpy_function(self.factor, [], tf.float32, stateful=True)
        return inputs * tf.cast(tf.reshape(factor, []), inputs.dtype)

    def factor(self):
        import numpy as np

        self.calls += 1
        if self.calls in self.trouble["calls"]:
            if self.trouble["kind"] == "hang":
                wait_for_ever(self.trouble["marker"])
            return np.float32(np.inf if self.trouble["kind"] == "infinite" else np.nan)
        return np.float32(1)


def main() -> None:
    settings = json.loads(Path(sys.argv[1]).read_text())
    trouble = settings.get("trouble", {})
    if trouble:
        install(trouble)

    def build_model():
        miles = tf_keras.Input((1,), name="miles_xf")
        payment = tf_keras.Input((1,), name="payment_xf", dtype="int64")
        embedded = layers.Flatten()(layers.Embedding(4, 4)(payment))
        hidden = layers.Dense(256, activation="relu")(layers.Concatenate()([miles, embedded]))
        if trouble:
            hidden = Troubled(trouble)(hidden)
        output = layers.Dense(1, activation="sigmoid", dtype="float32", name="probabilities")(hidden)
        return tf_keras.Model({"miles_xf": miles, "payment_xf": payment}, {"probabilities": output})

    fn_args = FnArgs(**settings["fn_args"])
    if read_cluster().worker_rank == trouble.get("worker"):
        fn_args.custom_config["training"].update(trouble.get("config", {}))
    try:
        result = training.train(fn_args, build_model, label_key="tipped_xf", loss="binary_crossentropy")
    except Exception as error:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(getattr(error, "exit_code", 1))
    if trouble.get("kind") == "at_end" and read_cluster().worker_rank == trouble["worker"]:
        wait_for_ever(trouble["marker"])
    if read_cluster().is_chief:
        values = {"steps": result.steps, "resumed_at": result.resumed_at, "skipped": result.skipped_steps}
        values["weights"] = [weight.tolist() for weight in result.model.get_weights()]
        Path(settings["result"]).write_text(json.dumps(values))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
