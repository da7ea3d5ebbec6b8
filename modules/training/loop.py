"""The training loop: many steps inside one tf.function, decisions between them.

All workers run the same steps in the same calls: two calls that overlap differently wait for each other for ever. What
only one of them can know (its clock, its SIGTERM) goes into `signals`, which is summed with the gradients, so that all
leave the loop after the same step and act together.
"""

import dataclasses
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from modules.training.config import TrainingConfig
from modules.training.errors import NonFiniteError
from modules.training.step import TrainStep

STOP, SAVE, CHUNK = 0, 1, 2
NUM_SIGNALS = 3

_COLUMNS = ("loss", "grad_norm", "finite", "step_s", "wait_s", "reduce_s")
_MAX_STEPS_PER_LOOP = 5_000


@dataclasses.dataclass(frozen=True)
class StepRecords:
    """What the steps of one loop reported; arrays [num_steps], times in seconds."""

    first_step: int
    loss: np.ndarray
    grad_norm: np.ndarray
    finite: np.ndarray
    step_s: np.ndarray
    wait_s: np.ndarray
    reduce_s: np.ndarray
    stop: bool
    """Some worker was asked to stop."""
    save: bool
    """The chief wants a checkpoint."""

    @property
    def num_steps(self) -> int:
        return len(self.loss)


class StepLoop:
    """Runs steps on an endless distributed iterator; create it under the strategy's scope."""

    def __init__(self, step: TrainStep, config: TrainingConfig):
        self._step, self._config = step, config
        self.global_step = tf.Variable(0, trainable=False, dtype=tf.int64, name="global_step")
        self._stop_when_not_finite = config.nan_guard and not step.loss_scale.dynamic
        self._run = tf.function(self._steps, reduce_retracing=True, autograph=False)
        self._chunk = config.steps_per_loop or 1
        self._compiled = False
        strategy = tf.distribute.get_strategy()
        self._num_workers = getattr(strategy.extended, "_num_workers", 1)
        # A distributed variable has no scatter_nd_update: requests go into this process's first replica's part.
        self._own_signals = strategy.experimental_local_results(step.signals)[0]
        # Several devices of one process have their next batches on them already; carried through a loop of TensorFlow's
        # they would all come to the first device.
        self._fetches_ahead = strategy.num_replicas_in_sync == self._num_workers

    def signal(self, which: int, value: float = 1.0) -> None:
        """Tells all workers something with the next step; callable from any thread, also during a call."""
        self._own_signals.scatter_nd_update([[which]], [value])

    def run(self, iterator: Any, max_steps: int) -> StepRecords:
        """Runs up to `max_steps` steps, as many as fit into one call.

        Raises:
          NonFiniteError: a loss or gradient is NaN or infinite; the weights are those of the step before.
        """
        first = int(self.global_step.numpy())
        started = time.monotonic()
        table, signals = self._run(iterator, tf.constant(min(self._chunk, max_steps), tf.int64))
        rows = table.numpy()
        stop, save, wishes = signals.numpy()
        self._adapt(time.monotonic() - started, len(rows), wishes / self._num_workers)
        columns = dict(zip(_COLUMNS, rows.T, strict=True))
        records = StepRecords(first_step=first, stop=bool(stop > 0), save=bool(save > 0), **columns)
        self._check_finite(records)
        return records

    def _adapt(self, elapsed_s: float, num_steps: int, agreed: float) -> None:
        """Aims at calls of about a second: long enough to cost nothing, short enough to react.

        Workers measure different times; `agreed` is the mean of their wishes in the call before, equal on all.
        """
        if self._config.steps_per_loop:
            return
        wish = num_steps / max(elapsed_s, 1e-6)
        if not self._compiled:  # the first call's time is tracing and compiling
            self._compiled, self._chunk, wish = True, 5, 5
        elif agreed > 0:
            self._chunk = int(np.clip(agreed, 1, min(_MAX_STEPS_PER_LOOP, self._chunk * 8)))
        self.signal(CHUNK, float(np.clip(wish, 1, _MAX_STEPS_PER_LOOP)))

    def _check_finite(self, records: StepRecords) -> None:
        if self._stop_when_not_finite and not records.finite.all():
            at = int(np.argmin(records.finite))
            what = "the loss" if not np.isfinite(records.loss[at]) else "a gradient"
            raise NonFiniteError(f"{what} is not finite in step {records.first_step + at + 1}", records.first_step + at)
        scale = self._step.loss_scale
        if scale.dynamic and int(scale.skipped_in_a_row.numpy()) >= self._config.max_skipped_steps:
            raise NonFiniteError(
                f"{self._config.max_skipped_steps} float16 steps in a row had gradients that are not finite, the loss "
                f"scale is down to {float(scale.value.numpy()):g}; lower the learning rate or use mixed_bfloat16",
                records.first_step + records.num_steps - 1,
            )

    def _steps(self, iterator: Any, num_steps: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Fetches each step's batch while the step before it computes.

        Not beyond the last step: that batch would be lost to the next call. If a step before it turns out to be the
        last one, a batch is lost, but then the training is over.
        """
        started = tf.timestamp()
        first, arrived = _next_batch(iterator, started) if self._fetches_ahead else (None, started)

        def one(
            rows: tf.TensorArray,
            signals: tf.Tensor,
            done: tf.Tensor,
            go_on: tf.Tensor,
            previous: tf.Tensor,
            waited: tf.Tensor,
            *fetched: tf.Tensor,
        ) -> tuple:
            del signals, go_on
            more = done + 1 < num_steps
            if self._fetches_ahead:
                batch = tf.nest.pack_sequence_as(first, fetched, expand_composites=True)
                following, arrived = tf.cond(more, lambda: _flat_batch(iterator), lambda: (list(fetched), previous))
            else:
                batch, arrived = _next_batch(iterator, previous)
                following, waited = [], arrived - previous
            result = self._step(batch)
            step_number = self.global_step.assign_add(1)
            with tf.control_dependencies([step_number, result.updates]):
                finished = tf.timestamp()
            numbers = (result.loss, result.grad_norm, tf.cast(result.finite, tf.float32))
            times = (finished - previous, waited, result.reduce_s)
            row = tf.stack([*(tf.cast(number, tf.float64) for number in numbers), *times])
            go_on = more & (result.signals[STOP] <= 0)
            if self._stop_when_not_finite:
                go_on = go_on & result.finite
            waited = tf.maximum(arrived - finished, 0.0)
            rows = rows.write(tf.cast(done, tf.int32), row)
            return rows, result.signals, done + 1, go_on, finished, waited, *following

        rows = tf.TensorArray(tf.float64, size=0, dynamic_size=True, element_shape=[len(_COLUMNS)])
        counters = (tf.zeros([NUM_SIGNALS]), tf.zeros([], tf.int64), tf.constant(True), started, arrived - started)
        rows, signals, *_ = tf.while_loop(
            lambda rows, signals, done, go_on, *_: go_on, one, (rows, *counters, *_tensors(first))
        )
        return rows.stack(), signals


def _next_batch(iterator: Any, after: tf.Tensor | None = None) -> tuple[Any, tf.Tensor]:
    """The next batch, asked for when `after` is there, and the time of its arrival."""
    with tf.control_dependencies([] if after is None else [after]):
        batch = next(iterator)
    with tf.control_dependencies(_tensors(batch)):
        return batch, tf.timestamp()


def _flat_batch(iterator: Any) -> tuple[list[tf.Tensor], tf.Tensor]:
    batch, arrived = _next_batch(iterator)
    return _tensors(batch), arrived


def _tensors(batch: object) -> list[tf.Tensor]:
    """The plain tensors that a batch is made of."""
    return [] if batch is None else tf.nest.flatten(batch, expand_composites=True)


class Every:
    """True when a step count has passed a multiple of `steps`."""

    def __init__(self, steps: int):
        self.steps = steps

    def after(self, step: int) -> int | None:
        """The next step after `step` at which it is due."""
        return None if not self.steps else (step // self.steps + 1) * self.steps

    def due(self, step: int) -> bool:
        return bool(self.steps) and step % self.steps == 0


class At:
    """Like Every, but once."""

    def __init__(self, step: int):
        self.step = step

    def after(self, step: int) -> int | None:
        return self.step if self.step > step else None


def next_boundary(step: int, total: int, events: Iterable[Every | At]) -> int:
    """The first step after `step` at which something has to happen, at most `total`."""
    return min([total, *(due for event in events if (due := event.after(step)) is not None)])
