"""Trains small models, one scenario after the other, and writes the weights: exact.py FOLDER TARGET NAME...

FOLDER has data-*.tfrecord and scenarios.json; the chief writes FOLDER/TARGET/<name>.npz.
"""

import functools
import json
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
import tf_keras
from tf_keras import layers

from modules.training.cluster import read_cluster
from modules.training.config import TrainingConfig
from modules.training.input import RecordInput, example_parser, placement
from modules.training.loop import NUM_SIGNALS, StepLoop
from modules.training.optimizer import build_optimizer
from modules.training.precision import set_policy
from modules.training.records import find_files
from modules.training.step import TrainStep, per_example_loss
from modules.training.strategy import build_strategy, communication_options, largest_of_all_workers

GLOBAL_BATCH = 48
SPEC = {"x": tf.io.FixedLenFeature([8], tf.float32), "y": tf.io.FixedLenFeature([1], tf.int64)}


def build_model(kind: str) -> tf_keras.Model:
    inputs = tf_keras.Input((8,), name="x")
    hidden = layers.Dense(16, activation="tanh")(inputs)
    if kind == "batch_norm":
        hidden = layers.BatchNormalization(synchronized=True, momentum=0.9)(hidden)
    if kind == "recompute":
        hidden = layers.Dense(16, activation="tanh", name="again")(hidden)
    hidden = layers.Dense(16, activation="tanh", kernel_regularizer=tf_keras.regularizers.L2(1e-3))(hidden)
    return tf_keras.Model({"x": inputs}, layers.Dense(3, dtype="float32")(hidden))


def run(strategy, cluster, files, scenario: dict) -> dict[str, np.ndarray]:
    settings = dict(scenario["config"])
    config = TrainingConfig.from_dict(
        {"batch_size": GLOBAL_BATCH // strategy.num_replicas_in_sync, "shuffle_buffer": 64, **settings}
    )
    tf_keras.utils.set_random_seed(7)
    set_policy(config.precision)
    loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    data = RecordInput(
        files,
        example_parser(SPEC, "y"),
        config,
        placement(strategy, cluster.worker_rank),
        training=True,
        largest=functools.partial(largest_of_all_workers, strategy),
    )
    with strategy.scope():
        model = build_model(scenario.get("model", "plain"))
        optimizer = build_optimizer(config, strategy.num_replicas_in_sync, scenario["steps"])
        signals = tf.Variable(tf.zeros([NUM_SIGNALS]), trainable=False)
        step = TrainStep(
            model, optimizer, per_example_loss(loss), config, signals=signals, options=communication_options(config)
        )
        loop = StepLoop(step, config)
    batches = data.training_batches()
    iterator = iter(strategy.distribute_datasets_from_function(lambda _: batches))
    losses = []
    while (done := int(loop.global_step.numpy())) < scenario["steps"]:
        losses.extend(loop.run(iterator, scenario["steps"] - done).loss)
    weights = {f"w{index}": value for index, value in enumerate(model.get_weights())}
    return {**weights, "losses": np.array(losses)}


def main() -> None:
    folder = Path(sys.argv[1])
    scenarios = json.loads((folder / "scenarios.json").read_text())
    cluster = read_cluster()
    if sys.argv[2] == "mirrored":  # two logical devices in one process, as on a machine with two GPUs
        halves = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], halves)
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    else:
        strategy = build_strategy(TrainingConfig(), cluster)
    files = find_files([str(folder / "data-*.tfrecord")], "training")
    target = folder / sys.argv[2]
    for name in sys.argv[3:]:
        result = run(strategy, cluster, files, scenarios[name])
        if cluster.is_chief:
            target.mkdir(exist_ok=True)
            np.savez(target / f"{name}.npz", **result)
            print("done", name, flush=True)


if __name__ == "__main__":
    main()
