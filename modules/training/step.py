"""One optimizer step, equal to the step of a single process on the same global batch.

Order of work: forward and backward over the micro-batches; ONE all-reduce of the summed gradients together with the
loss, the number of examples and the control signals; unscale; finite check; clip; apply. Everything that decides
something (is it finite, how far to clip, shall we stop) happens after the reduce, so all replicas decide the same.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras

from modules.training.config import TrainingConfig
from modules.training.errors import TrainingConfigError
from modules.training.graph_code import rewritten
from modules.training.precision import LossScale

_FUSE_FROM = 500_000  # trainable numbers

LossFn = Callable[[object, object], tf.Tensor]
"""(labels, outputs) to a loss per example: float32 [n]."""


class StepResult(NamedTuple):
    """What a step tells the loop; scalars, equal on every replica."""

    loss: tf.Tensor
    """float32: mean over the global batch."""
    grad_norm: tf.Tensor
    """float32: global norm before clipping."""
    finite: tf.Tensor
    """bool."""
    signals: tf.Tensor
    """float32 [num_signals]: sum of all replicas' requests."""
    reduce_s: tf.Tensor
    """float64: seconds from this replica's last gradient to the sums, waiting for slower peers included."""
    updates: tf.Tensor
    """int64: updates applied so far; ready when this step's is."""


def per_example_loss(loss: object) -> LossFn:
    """Makes a loss function per example out of a Keras loss (name or object) or a callable.

    A callable must return one float per example; a mean would make uneven batches count wrongly.
    """
    if isinstance(loss, str):
        loss = tf_keras.losses.get(loss)
    call = loss.call if isinstance(loss, tf_keras.losses.Loss) else loss
    if not callable(call):
        raise TrainingConfigError(f"loss is {loss!r}; expected a Keras loss or a callable (labels, outputs) -> [n]")

    call = rewritten(call)

    def compute(labels: object, outputs: object) -> tf.Tensor:
        outputs = only_output(outputs)
        if isinstance(labels, tf.Tensor) and isinstance(outputs, tf.Tensor):
            labels = align_labels(labels, outputs)
        values = tf.cast(call(labels, outputs), tf.float32)
        if values.shape.rank == 0:
            raise TrainingConfigError(
                "the loss returned one number for the whole batch; it must return one per example"
            )
        return tf.reduce_mean(tf.reshape(values, [tf.shape(values)[0], -1]), axis=1)

    return compute


def only_output(outputs: object) -> object:
    """Unwraps a dict with a single output; several outputs are the loss function's own business."""
    if isinstance(outputs, Mapping) and len(outputs) == 1:
        return next(iter(outputs.values()))
    return outputs


def align_labels(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """Gives binary and regression labels [n] the shape of outputs [n, 1]; without it they would broadcast to [n, n]."""
    if labels.shape.rank == 1 and outputs.shape.rank == 2 and outputs.shape[-1] == 1:
        return labels[:, tf.newaxis]
    return labels


class TrainStep:
    """Builds the distributed step; create it under the strategy's scope, after model and optimizer."""

    def __init__(
        self,
        model: tf_keras.Model,
        optimizer: tf_keras.optimizers.Optimizer,
        loss: LossFn,
        config: TrainingConfig,
        *,
        signals: tf.Variable | None = None,
        options: tf.distribute.experimental.CommunicationOptions | None = None,
    ):
        self.model, self.optimizer, self.loss, self.config = model, optimizer, loss, config
        self.loss_scale = LossScale(config)
        self.signals = signals if signals is not None else tf.Variable(tf.zeros([1]), trainable=False)
        self._options = options
        self._micro_batch = config.batch_size // config.accumulate
        strategy = tf.distribute.get_strategy()
        self._strategy = strategy
        self._nominal = float(config.batch_size * strategy.num_replicas_in_sync)
        self._distributed = getattr(strategy.extended, "_num_workers", 1) > 1
        self._reduces = strategy.num_replicas_in_sync > 1
        self._divides_at_once = config.accumulate == 1 and not self._reduces
        self._guarded = self.loss_scale.dynamic or config.nan_guard
        self._variables = model.trainable_variables
        self._call_model = rewritten(model.__call__)
        if not self._variables:
            raise TrainingConfigError("the model has no trainable variables")
        optimizer.build(self._variables)
        self._update = self._fused_update()
        self._forward_backward = (
            tf.function(self._gradients, jit_compile=True, reduce_retracing=True, autograph=False)
            if config.jit_compile
            else self._gradients
        )

    def _fused_update(self) -> Callable[..., Any]:
        """What applies gradients: by XLA, which makes one pass over the memory out of a dozen, where that pays.

        TF-Keras does so on GPUs only, but on CPUs it paid as well (a step of a 4x512 MLP took 8 % less CPU time). For a
        small model the compiling takes longer than it saves.
        """
        size = sum(int(np.prod(variable.shape)) for variable in self._variables)
        if size < _FUSE_FROM:
            return self._update_weights
        if not self._reduces:  # a strategy with several replicas updates each variable by itself
            self.optimizer.jit_compile = False
            return tf.function(self._update_weights, jit_compile=True, reduce_retracing=True, autograph=False)
        self.optimizer.jit_compile = True
        return self._update_weights

    def _update_weights(self, *gradients: tf.Tensor) -> None:
        pairs = list(zip(gradients, self._variables, strict=True))
        self.optimizer.apply_gradients(pairs, skip_gradients_aggregation=True)

    def __call__(self, batch: tuple) -> StepResult:
        """Runs one step on a distributed batch; inside a tf.function, in cross-replica context."""
        results = self._strategy.run(self._compute, args=batch)
        gradients, loss, norm, signals, reduce_s = results
        loss, norm, signals, reduce_s = (self._local(value) for value in (loss, norm, signals, reduce_s))
        finite = tf.math.is_finite(norm) & tf.math.is_finite(loss)
        if self._guarded:  # in cross-replica context, because optimizers must not update inside a replica's tf.cond
            updates = tf.cond(finite, lambda: self._apply(gradients), lambda: tf.identity(self.optimizer.iterations))
            self.loss_scale.update(finite)
        else:
            updates = self._apply(gradients)
        return StepResult(loss, norm, finite, signals, reduce_s, updates)

    def _local(self, value: object) -> tf.Tensor:
        return self._strategy.experimental_local_results(value)[0]

    def _apply(self, gradients: list) -> tf.Tensor:
        self._strategy.run(self._update, args=tuple(gradients))
        return tf.identity(self.optimizer.iterations)

    def _compute(self, features: object, labels: object, weights: tf.Tensor, mask: tf.Tensor) -> tuple:
        """The replica's part: gradients of the global batch, reduced, unscaled and clipped."""
        gradients, loss, count = self._accumulated(features, labels, weights, mask)
        totals = tf.concat([tf.stack([loss, count]), tf.cast(self.signals, tf.float32)], axis=0)
        gradients, totals, reduce_s = self._reduce(gradients, totals)
        count = tf.maximum(totals[1], 1.0)
        gradients, norm = self._scaled_and_clipped(gradients, self._left_to_scale(count))
        return gradients, totals[0] / count, norm, totals[2:], reduce_s

    def _left_to_scale(self, count: tf.Tensor) -> list[tf.Tensor]:
        """What gradients of sum(loss) * loss scale / divisor are still to be multiplied by, `count` examples known."""
        factors = [] if self._divides_at_once else [self._nominal / count]
        return [*factors, 1.0 / self.loss_scale.value] if self.loss_scale.dynamic else factors

    def _scaled_and_clipped(self, gradients: list, factors: list[tf.Tensor]) -> tuple[list, tf.Tensor]:
        """Gradients times `factors`, clipped, and their global norm before clipping."""
        norm = tf.zeros([])
        if self._guarded or self.config.clip_norm is not None:
            norm = math.prod(factors, start=tf.linalg.global_norm(gradients))
            if self.config.clip_norm is not None:
                factors = [*factors, tf.minimum(1.0, self.config.clip_norm / tf.maximum(norm, 1e-12))]
        if not factors:  # a pass over all gradients that can be left out
            return gradients, norm
        factor = math.prod(factors[1:], start=factors[0])
        return [gradient * factor for gradient in gradients], norm

    def _gradients(self, features: object, labels: object, weights: tf.Tensor, mask: tf.Tensor) -> tuple:
        """(gradients of the scaled loss over the divisor, loss sum, number of examples) of one micro-batch.

        The divisor is the number of examples, or where others hold some of them too, what a full batch has.
        """
        with tf.GradientTape() as tape:
            outputs = self._call_model(features, training=True)
            count = tf.reduce_sum(mask)
            total = tf.reduce_sum(self.loss(labels, outputs) * weights)
            if self.model.losses:
                total += tf.add_n([tf.cast(value, tf.float32) for value in self.model.losses]) * count
            scaled = total / (tf.maximum(count, 1.0) if self._divides_at_once else self._nominal)
            if self.loss_scale.dynamic:
                scaled *= self.loss_scale.value
        gradients = tape.gradient(scaled, self._variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return (
            [tf.cast(tf.convert_to_tensor(g), v.dtype) for g, v in zip(gradients, self._variables, strict=True)],
            total,
            count,
        )

    def _accumulated(self, features: object, labels: object, weights: tf.Tensor, mask: tf.Tensor) -> tuple:
        """`_gradients` summed over the micro-batches; every replica has equally many, whatever the tail's length."""
        if self.config.accumulate == 1:
            return self._forward_backward(features, labels, weights, mask)
        size = self._micro_batch
        rounds = (tf.shape(mask)[0] + size - 1) // size

        def add(index: tf.Tensor, gradients: list, total: tf.Tensor, count: tf.Tensor) -> tuple:
            part = tf.nest.map_structure(
                lambda tensor: _rows(tensor, index * size, size), (features, labels, weights, mask)
            )
            more, part_total, part_count = self._forward_backward(*part)
            summed = [a + b for a, b in zip(gradients, more, strict=True)]
            return index + 1, summed, total + part_total, count + part_count

        zeros = [tf.zeros_like(variable) for variable in self._variables]
        start = (tf.constant(0), zeros, tf.zeros([]), tf.zeros([]))
        return tf.while_loop(lambda index, *_: index < rounds, add, start, parallel_iterations=1)[1:]

    def _reduce(self, gradients: list, totals: tf.Tensor) -> tuple:
        """Sums gradients and totals over all replicas, gradients in fewer bits if configured."""
        if not self._reduces:
            return gradients, totals, tf.zeros([], tf.float64)
        context = tf.distribute.get_replica_context()
        # The clock must not hold the gradients up: packs of those that are ready travel while the others are computed.
        with tf.control_dependencies([*gradients, totals]):
            computed = tf.timestamp()
        if self.config.compress == "none":
            *gradients, totals = self._all_reduce(context, [*gradients, totals])
        else:
            small = tf.as_dtype(self.config.compress)
            totals = self._all_reduce(context, [totals])[0]
            reduced = self._all_reduce(context, [tf.cast(gradient, small) for gradient in gradients])
            gradients = [tf.cast(g, v.dtype) for g, v in zip(reduced, self._variables, strict=True)]
        with tf.control_dependencies([*gradients, totals]):
            return gradients, totals, tf.timestamp() - computed

    def _all_reduce(self, context: tf.distribute.ReplicaContext, tensors: list) -> list:
        return list(context.all_reduce(tf.distribute.ReduceOp.SUM, tensors, options=self._options))


def _rows(tensor: Any, start: tf.Tensor, size: int) -> object:
    """Rows [start, start + size) of a dense, ragged or sparse tensor."""
    if isinstance(tensor, tf.SparseTensor):
        shape = tensor.dense_shape
        begin = tf.concat([[tf.cast(start, tf.int64)], tf.zeros_like(shape[1:])], axis=0)
        return tf.sparse.slice(tensor, begin, tf.concat([[size], shape[1:]], axis=0))
    return tensor[start : start + size]
