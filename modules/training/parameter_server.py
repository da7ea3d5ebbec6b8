"""Asynchronous training with parameter servers: for embeddings that no worker can hold, or workers that come and go.

The chief hands out work, the workers compute gradients and send them to the variables' servers as they go. There is no
global batch, so results differ from run to run; a worker that dies is simply given no more work. Gradients are not
accumulated, compressed or loss-scaled here; such settings are refused.

Servers and workers never end by themselves; whoever started them ends them with the chief. An evaluator follows the
checkpoints in the training folder and ends with the last one.
"""

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
import tf_keras

from modules.training.checkpoint import CheckpointFolder, SavedState
from modules.training.cluster import ClusterSpec, own_port, wait_for_peers
from modules.training.config import TrainingConfig
from modules.training.errors import PreemptedError, TrainingConfigError
from modules.training.evaluate import Evaluator
from modules.training.input import FeaturesFn, ParseFn
from modules.training.optimizer import OptimizerFactory, build_optimizer
from modules.training.preemption import on_terminate
from modules.training.records import RecordFiles
from modules.training.step import LossFn
from modules.training.telemetry import say

_CHUNK = 10  # steps that a worker does per piece of work


def check_settings(config: TrainingConfig) -> None:
    """Refuses what asynchronous training cannot do.

    Raises:
      TrainingConfigError: names the setting.
    """
    defaults = TrainingConfig(batch_size=config.batch_size)
    for name in ("accumulate", "compress", "class_weights", "teacher", "keep_best", "early_stopping_evals"):
        if getattr(config, name) != getattr(defaults, name):
            raise TrainingConfigError(
                f"{name} does not work with parameter servers; leave it out or train synchronously"
            )
    if config.precision == "mixed_float16":
        raise TrainingConfigError("precision mixed_float16 does not work with parameter servers; use mixed_bfloat16")


def serve(cluster: ClusterSpec) -> None:
    """Runs this task's server, a worker's or a parameter server's, until the process is ended from outside."""
    with own_port(cluster):
        pass  # it is free
    server = tf.distribute.Server(
        tf.train.ClusterSpec({role: list(addresses) for role, addresses in cluster.tasks.items()}),
        job_name=cluster.role,
        task_index=cluster.index,
        protocol="grpc",
    )
    server.join()


@dataclasses.dataclass(frozen=True)
class AsynchronousResult:
    """What the chief has at the end."""

    steps: int
    resumed_at: int
    weights: list
    examples_per_s: float


class Chief:
    """Builds the model on the parameter servers and hands out the steps."""

    def __init__(
        self,
        config: TrainingConfig,
        cluster: ClusterSpec,
        build_model: Callable[[], tf_keras.Model],
        loss: LossFn,
        optimizer: OptimizerFactory | None,
        total_steps: int,
        folder: str | None,
    ):
        check_settings(config)
        with own_port(cluster):
            wait_for_peers(cluster, config.startup_timeout_s)
        self._config, self._loss, self._total_steps = config, loss, total_steps
        self._strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(self._strategy)
        with self._strategy.scope():
            self._model = build_model()
            self._optimizer = build_optimizer(config, 1, total_steps, optimizer)
            self._optimizer.build(self._model.trainable_variables)
        objects = {"model": self._model, "optimizer": self._optimizer}
        self._checkpoints: CheckpointFolder | None = None
        if folder:
            place = f"{folder}/checkpoints"
            self._checkpoints = CheckpointFolder(place, objects, is_chief=True, max_to_keep=config.max_to_keep)
        self._work = tf.function(self._steps)
        self._asked_to_stop = False

    def train(self, files: RecordFiles, parse: ParseFn, features_fn: FeaturesFn | None = None) -> AsynchronousResult:
        """Trains from the newest checkpoint to total_steps.

        Raises:
          PreemptedError: SIGTERM came; the work is saved.
        """
        resumed_at = self._resume()
        batches = self._coordinator.create_per_worker_dataset(
            lambda: endless_batches(files, parse, self._config, features_fn)
        )
        iterator = iter(batches)
        started, step = time.monotonic(), resumed_at
        with on_terminate(self._stop):
            for boundary in self._boundaries(resumed_at):
                losses = [
                    self._coordinator.schedule(self._work, args=(iterator, tf.constant(count)))
                    for count in _pieces(boundary - step)
                ]
                self._coordinator.join()
                step = boundary
                mean = float(tf.reduce_mean([self._coordinator.fetch(value) for value in losses]))
                rate = (step - resumed_at) * self._config.batch_size / (time.monotonic() - started)
                say(f"step {step}/{self._total_steps}  loss {mean:.4f}  {rate:,.0f} examples/s")
                self._save(step)
                if self._asked_to_stop and step < self._total_steps:
                    raise PreemptedError(f"asked to stop; saved at step {step} of {self._total_steps}")
        rate = (step - resumed_at) * self._config.batch_size / max(time.monotonic() - started, 1e-9)
        return AsynchronousResult(step, resumed_at, self._model.get_weights(), rate)

    def _stop(self) -> None:
        self._asked_to_stop = True

    def _boundaries(self, start: int) -> Iterator[int]:
        """Steps at which all work is awaited, to save and to look around."""
        every = self._config.checkpoint_every_steps or max(_CHUNK, self._total_steps // 10)
        yield from range(start + every - start % every, self._total_steps, every)
        if start < self._total_steps:
            yield self._total_steps

    def _steps(self, iterator: Any, count: tf.Tensor) -> tf.Tensor:
        """A worker's piece of work: `count` steps; returns their mean loss."""
        total = tf.zeros([])
        for _ in tf.range(count):
            total += self._strategy.run(self._step, args=next(iterator))
        return total / tf.cast(count, tf.float32)

    def _step(self, features: Any, labels: Any) -> tf.Tensor:
        variables = self._model.trainable_variables
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(self._loss(labels, self._model(features, training=True)))
            if self._model.losses:
                value += tf.add_n(self._model.losses)
        gradients = tape.gradient(value, variables)
        if self._config.clip_norm is not None:
            gradients, _ = tf.clip_by_global_norm(gradients, self._config.clip_norm)
        self._optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return value

    def _resume(self) -> int:
        path = self._checkpoints.latest() if self._checkpoints and self._config.resume else None
        if not path or not self._checkpoints:
            return 0
        step = self._checkpoints.restore(path).step
        say(f"resuming at step {step} from {path}")
        return step

    def _save(self, step: int) -> None:
        if self._checkpoints:
            self._checkpoints.save(asynchronous_state(step, self._config))


def _pieces(steps: int) -> list[int]:
    return [_CHUNK] * (steps // _CHUNK) + ([steps % _CHUNK] if steps % _CHUNK else [])


def asynchronous_state(step: int, config: TrainingConfig) -> SavedState:
    """A checkpoint's state without a data position: every worker has its own random order."""
    return SavedState(
        step=step, position=step, global_batch=config.batch_size, data=[], sharding="none", num_replicas=1
    )


def endless_batches(
    files: RecordFiles, parse: ParseFn, config: TrainingConfig, features_fn: FeaturesFn | None = None
) -> tf.data.Dataset:
    """(features, labels) in an order that differs from worker to worker, for ever."""
    paths = tf.data.Dataset.from_tensor_slices(list(files.paths)).shuffle(len(files.paths))
    records = paths.interleave(
        lambda path: tf.data.TFRecordDataset(path, files.compression),
        cycle_length=min(config.parallel_files, len(files.paths)),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=False,
    )
    batches = records.shuffle(max(1, config.shuffle_buffer)).repeat().batch(config.batch_size, drop_remainder=True)

    def read(serialized: tf.Tensor) -> tuple:
        features, labels = parse(serialized)[:2]
        if features_fn is not None:  # no two asynchronous trainings are alike, so any seeds will do
            features = features_fn(features, tf.random.uniform([tf.size(serialized), 2], maxval=2**62, dtype=tf.int64))
        return features, labels

    parsed = batches.map(read, num_parallel_calls=tf.data.AUTOTUNE)
    return parsed.prefetch(tf.data.AUTOTUNE)


def follow(
    folder: str,
    model: tf_keras.Model,
    evaluator: Evaluator,
    total_steps: int,
    report: Callable[[int, dict[str, float]], None],
    poll_s: float = 1.0,
) -> None:
    """The evaluator's work: evaluates every checkpoint that appears, until the one of the last step."""
    checkpoints = CheckpointFolder(f"{folder}/checkpoints", {"model": model}, is_chief=False, max_to_keep=1)
    seen = ""
    while True:
        path = checkpoints.latest()
        if path is None or path == seen:
            time.sleep(poll_s)
            continue
        seen = path
        step = checkpoints.restore(path).step
        metrics = evaluator()
        say(f"evaluation at step {step}: " + "  ".join(f"{name} {value:.4f}" for name, value in metrics.items()))
        report(step, metrics)
        if step >= total_steps:
            return
