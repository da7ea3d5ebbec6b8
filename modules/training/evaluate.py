"""Evaluation on all workers: the same number of batches everywhere, metrics reduced once at the end."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from modules.training.graph_code import rewritten
from modules.training.input import RecordInput
from modules.training.step import LossFn, align_labels, only_output


class Evaluator:
    """Runs a model over the evaluation files; create it under the strategy's scope."""

    def __init__(
        self,
        model: tf_keras.Model,
        loss: LossFn,
        metrics: Sequence[tf_keras.metrics.Metric],
        data: RecordInput,
        steps: int | None,
    ):
        self._model, self._loss, self._data = rewritten(model.__call__), loss, data
        self._metrics = list(metrics)
        self._updates = [rewritten(metric.update_state) for metric in self._metrics]
        self._mean_loss = tf_keras.metrics.Mean(name="loss")
        self._steps = steps
        self._strategy = tf.distribute.get_strategy()
        self._run = tf.function(self._loop, reduce_retracing=True, autograph=False)

    @property
    def names(self) -> list[str]:
        """Of the numbers that an evaluation gives."""
        return [self._mean_loss.name, *(metric.name for metric in self._metrics)]

    def __call__(self) -> dict[str, float]:
        """Evaluates; every worker gets the same numbers: "loss" and each metric by name."""
        num_batches = self._data.num_batches()
        if self._steps:
            num_batches = min(num_batches, self._steps)
        everything = [self._mean_loss, *self._metrics]
        for metric in everything:
            metric.reset_state()
        dataset = self._strategy.distribute_datasets_from_function(lambda _: self._data.evaluation_batches())
        self._run(iter(dataset), tf.constant(num_batches, tf.int64))
        return {metric.name: float(metric.result()) for metric in everything}

    def _loop(self, iterator: Any, num_batches: tf.Tensor) -> None:
        def one(done: tf.Tensor) -> tuple:
            self._strategy.run(self._update, args=next(iterator))
            return (done + 1,)

        tf.while_loop(lambda done: done < num_batches, one, (tf.zeros([], tf.int64),))

    def _update(self, features: object, labels: object, weights: tf.Tensor, mask: tf.Tensor) -> None:
        del weights  # evaluation counts every example once; class weights are a matter of training
        outputs = self._model(features, training=False)
        self._mean_loss.update_state(self._loss(labels, outputs), sample_weight=mask)
        for metric, update in zip(self._metrics, self._updates, strict=True):
            target, prediction = _of_metric(metric, labels, outputs)
            update(align_labels(target, prediction), prediction, sample_weight=mask)


def _of_metric(metric: tf_keras.metrics.Metric, labels: object, outputs: object) -> tuple:
    """For a model with several outputs, the label and output that the metric's name begins with ("price/mae")."""
    outputs = only_output(outputs)
    if not isinstance(outputs, Mapping):
        return labels, outputs
    head = metric.name.split("/")[0]
    key = head if head in outputs else next(iter(outputs))
    return (labels[key] if isinstance(labels, Mapping) else labels), outputs[key]
