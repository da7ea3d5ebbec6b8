"""Models and data of the training benchmark, and the engine put together from its plain pieces."""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras
from tf_keras import layers

from modules.training.cluster import ClusterSpec
from modules.training.config import TrainingConfig
from modules.training.input import RecordInput, example_parser, placement
from modules.training.loop import NUM_SIGNALS, StepLoop
from modules.training.optimizer import build_optimizer
from modules.training.precision import set_policy
from modules.training.records import find_files
from modules.training.step import TrainStep, per_example_loss
from modules.training.strategy import communication_options

NUM_CLASSES = 10


@dataclasses.dataclass(frozen=True)
class Workload:
    """A model, the shape of its input and the examples per replica and step."""

    name: str
    shape: tuple[int, ...]
    batch_size: int
    build: Callable[[], tf_keras.Model]

    @property
    def spec(self) -> dict[str, Any]:
        """Feature spec of its tf.Examples; parsing gives float32 [n, *shape]."""
        return {
            "x": tf.io.FixedLenFeature(self.shape, tf.float32),
            "y": tf.io.FixedLenFeature([1], tf.int64),
        }


def _mlp(width: int, depth: int, inputs: int) -> tf_keras.Model:
    x = hidden = tf_keras.Input((inputs,), name="x")
    for _ in range(depth):
        hidden = layers.Dense(width, activation="relu")(hidden)
    return tf_keras.Model({"x": x}, layers.Dense(NUM_CLASSES, dtype="float32")(hidden))


def _conv() -> tf_keras.Model:
    x = hidden = tf_keras.Input((32, 32, 3), name="x")
    for filters in (32, 64, 128):
        hidden = layers.Conv2D(filters, 3, padding="same", activation="relu")(hidden)
        hidden = layers.MaxPool2D()(hidden)
    hidden = layers.GlobalAveragePooling2D()(hidden)
    return tf_keras.Model({"x": x}, layers.Dense(NUM_CLASSES, dtype="float32")(hidden))


WORKLOADS = {
    "mlp": Workload("mlp", (512,), 128, lambda: _mlp(512, 4, 512)),
    "conv": Workload("conv", (32, 32, 3), 64, _conv),
    "wide": Workload("wide", (2048,), 256, lambda: _mlp(2048, 4, 2048)),
    "small": Workload("small", (32,), 256, lambda: _mlp(64, 2, 32)),
}


def write_records(workload: Workload, folder: pathlib.Path, count: int, num_shards: int = 4) -> None:
    """Random examples as uncompressed TFRecords; one block is repeated, so that writing takes no time."""
    generator = np.random.default_rng(1)
    block = []
    for _ in range(min(count, 512)):
        x = generator.standard_normal(int(np.prod(workload.shape))).astype("float32")
        features = {
            "x": tf.train.Feature(float_list=tf.train.FloatList(value=x)),
            "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(generator.integers(NUM_CLASSES))])),
        }
        block.append(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(num_shards):
        with tf.io.TFRecordWriter(str(folder / f"{workload.name}-{shard}.tfrecord")) as writer:
            for number in range(count // num_shards):
                writer.write(block[number % len(block)])


def loss() -> tf_keras.losses.Loss:
    return tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")


class Engine:
    """The engine's loop over TFRecords: what `train` runs between two checkpoints."""

    def __init__(
        self,
        workload: Workload,
        folder: pathlib.Path,
        strategy: tf.distribute.Strategy,
        cluster: ClusterSpec,
        **settings: Any,
    ):
        values = {"batch_size": workload.batch_size, "shuffle_buffer": 1000, "sharding": "data", **settings}
        self.config = TrainingConfig(**values)
        tf_keras.utils.set_random_seed(1)
        set_policy(self.config.precision)
        files = find_files([str(folder / f"{workload.name}-*.tfrecord")], "benchmark")
        self.data = RecordInput(
            files,
            example_parser(workload.spec, "y"),
            self.config,
            placement(strategy, cluster.worker_rank),
            training=True,
        )
        with strategy.scope():
            self.model = workload.build()
            optimizer = build_optimizer(self.config, strategy.num_replicas_in_sync, 1)
            signals = tf.Variable(tf.zeros([NUM_SIGNALS]), trainable=False)
            options = communication_options(self.config)
            step = TrainStep(
                self.model, optimizer, per_example_loss(loss()), self.config, signals=signals, options=options
            )
            self.loop = StepLoop(step, self.config)
        dataset = self.data.training_batches()
        self.iterator = iter(strategy.distribute_datasets_from_function(lambda _: dataset))
        set_policy("float32")

    def run(self, steps: int) -> list:
        """Runs exactly `steps` steps; returns their StepRecords."""
        records = []
        while steps:
            records.append(self.loop.run(self.iterator, steps))
            steps -= records[-1].num_steps
        return records


class BareLoop:
    """What one would write by hand: a compiled tf.function loop over a plain tf.data pipeline, and nothing else."""

    def __init__(self, workload: Workload, folder: pathlib.Path):
        tf_keras.utils.set_random_seed(1)
        self.model = workload.build()
        self.optimizer = tf_keras.optimizers.Adam(1e-3, jit_compile=False)
        self.optimizer.build(self.model.trainable_variables)
        self.iterator = iter(plain_dataset(workload, folder))
        self.run = tf.function(self._run, reduce_retracing=True)
        self._loss = loss()

    def _run(self, steps: tf.Tensor) -> tf.Tensor:
        total = tf.zeros([])
        for _ in tf.range(steps):
            features, labels = next(self.iterator)
            with tf.GradientTape() as tape:
                value = tf.reduce_mean(self._loss(labels, self.model(features, training=True)))
            gradients = tape.gradient(value, self.model.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
            total += value
        return total


def plain_dataset(workload: Workload, folder: pathlib.Path) -> tf.data.Dataset:
    """An ordinary input pipeline over the same files: endless (features, labels)."""
    files = sorted(str(path) for path in folder.glob(f"{workload.name}-*.tfrecord"))

    def parse(serialized: tf.Tensor) -> tuple:
        features = tf.io.parse_example(serialized, workload.spec)
        return features, features.pop("y")

    records = tf.data.Dataset.from_tensor_slices(files).interleave(
        tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE
    )
    batches = records.shuffle(1000).repeat().batch(workload.batch_size, drop_remainder=True)
    return batches.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def has_amx() -> bool:
    """Whether this CPU multiplies bfloat16 matrices in hardware."""
    path = pathlib.Path("/proc/cpuinfo")
    return path.exists() and "amx_bf16" in path.read_text()
