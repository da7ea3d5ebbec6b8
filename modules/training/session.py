"""One training from the first batch to the last: what happens between the loops, in the same order on every worker."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from modules.training.checkpoint import CheckpointFolder, SavedState
from modules.training.cluster import ClusterSpec
from modules.training.config import TrainingConfig
from modules.training.errors import NonFiniteError, PreemptedError
from modules.training.evaluate import Evaluator
from modules.training.input import RecordInput
from modules.training.loop import NUM_SIGNALS, SAVE, STOP, Every, StepLoop, StepRecords, next_boundary
from modules.training.optimizer import OptimizerFactory, build_optimizer
from modules.training.progress import BestMetric
from modules.training.step import LossFn, TrainStep
from modules.training.strategy import communication_options
from modules.training.telemetry import Reporter, Snapshot, Window, say
from modules.training.tensorboard import Profile
from modules.training.watchdog import Watchdog

_LOG_EVERY_S = 10.0


@dataclasses.dataclass
class Session:
    """Everything a training needs, built. `build` makes one; `run` trains."""

    config: TrainingConfig
    cluster: ClusterSpec
    strategy: tf.distribute.Strategy
    model: tf_keras.Model
    step: TrainStep
    loop: StepLoop
    train_data: RecordInput
    evaluator: Evaluator | None
    total_steps: int
    checkpoints: CheckpointFolder | None
    best_checkpoints: CheckpointFolder | None
    watchdog: Watchdog
    reporters: list[Reporter]
    profile: Profile

    metrics: dict[str, float] = dataclasses.field(default_factory=dict)
    stopped_early: bool = False
    resumed_at: int = 0
    position: int = 0
    """Number of the next global batch; differs from global_step once the data or the batch size has changed."""
    last_snapshot: Snapshot | None = None

    def __post_init__(self) -> None:
        self.best = BestMetric(self.config, self.evaluator.names if self.evaluator else None)

    @property
    def global_step(self) -> int:
        return int(self.loop.global_step.numpy())

    def request_stop(self) -> None:
        """Asks all workers to save and stop after the current step; callable from any thread."""
        self.loop.signal(STOP)

    def resume(self) -> None:
        """Goes on from the newest whole checkpoint, if there is one."""
        path = self.checkpoints.latest() if self.checkpoints and self.config.resume else None
        if path is None:
            return
        assert self.checkpoints is not None
        state = self.checkpoints.restore(path)
        self.metrics = dict(state.metrics)
        self.best.load(state.progress)
        self.stopped_early = self.best.exhausted
        self.resumed_at = state.step
        self.position, remark = resumed_position(state, self.train_data, self.strategy.num_replicas_in_sync)
        if state.step >= self.total_steps:
            remark += f"; nothing is left to train, for {self.total_steps} steps are asked for"
        self._say(f"resuming at step {state.step} from {path}{remark}")

    def run(self) -> None:
        """Trains up to total_steps, evaluating and saving on the way.

        Raises:
          PreemptedError: some worker was asked to stop; the work is saved.
          NonFiniteError: see StepLoop.run.
        """
        config = self.config
        start = self.global_step
        events = [Every(config.eval_every if self.evaluator else 0), Every(config.checkpoint_every_steps)]
        if config.log_every:
            events.append(Every(config.log_every))
        window = Window(self.train_data.global_batch, self.total_steps)
        iterator = iter(self._distributed(self.position)) if start < self.total_steps else None
        saved_at, saved_time = start, time.monotonic()
        self.watchdog.enter("the first step", config.startup_timeout_s)
        step = start
        self.profile.after(step)
        while step < self.total_steps and not self.stopped_early:
            if self._save_is_due(saved_time):
                self.loop.signal(SAVE)
            boundary = next_boundary(step, self.total_steps, [*events, *self.profile.boundaries()])
            records = self.loop.run(iterator, boundary - step)
            self.watchdog.enter("training", config.stall_timeout_s)
            step += records.num_steps
            window.add(records)
            self._log(window, records, step)
            self.profile.after(step)
            if records.stop:
                self._save(step)
                raise PreemptedError(f"asked to stop; saved at step {step} of {self.total_steps}")
            if events[0].due(step) and step < self.total_steps:
                self._evaluate(step)
            if records.save or events[1].due(step):
                self._save(step)
                saved_at, saved_time = step, time.monotonic()
        if step != start or not self.metrics:
            self._log(window, None, step)
            if self.evaluator and not self.stopped_early:
                self._evaluate(step)
            if saved_at != step:
                self._save(step)

    def explain(self, error: NonFiniteError) -> NonFiniteError:
        """Adds to the error where in the data the batch is."""
        number = self.position + error.batch - self.resumed_at
        epoch, index = divmod(number, self.train_data.num_batches())
        where = f"batch {index} of epoch {epoch} (both from 0)"
        return NonFiniteError(
            f"{error}, {where}: look at the examples of that batch, or lower the learning rate", error.batch
        )

    def _distributed(self, start: int) -> Any:
        dataset = self.train_data.training_batches(start)
        return self.strategy.distribute_datasets_from_function(lambda _: dataset)

    def _save_is_due(self, saved_time: float) -> bool:
        minutes = self.config.checkpoint_every_minutes
        return bool(self.cluster.is_chief and minutes and time.monotonic() - saved_time > minutes * 60)

    def _log(self, window: Window, records: StepRecords | None, step: int) -> None:
        by_step = self.config.log_every and Every(self.config.log_every).due(step)
        by_time = not self.config.log_every and window.age_s > _LOG_EVERY_S
        if records is not None and not by_step and not by_time and step < self.total_steps:
            return
        scale = self.step.loss_scale
        snapshot = window.close(
            learning_rate=float(self.step.optimizer.learning_rate.numpy()),
            loss_scale=float(scale.value.numpy()),
            skipped_steps=int(scale.skipped.numpy()),
        )
        if snapshot is None:
            return
        self.last_snapshot = snapshot
        self._say(snapshot.line())
        for reporter in self.reporters:
            reporter.training(snapshot)

    def _evaluate(self, step: int) -> None:
        assert self.evaluator is not None
        self.watchdog.enter("evaluation", self.config.startup_timeout_s)
        self.metrics = self.evaluator()
        self._say(f"evaluation at step {step}: " + "  ".join(f"{k} {v:.4f}" for k, v in self.metrics.items()))
        for reporter in self.reporters:
            reporter.evaluation(step, self.metrics)
        better = self.best.update(self.metrics, step)
        if better and self.best_checkpoints is not None:
            self.best_checkpoints.save(self._state(step))
        if self.best.exhausted:
            self.stopped_early = True
            self._say(f"stopping early: {self.best.describe()}")
        self.watchdog.enter("training", self.config.startup_timeout_s)

    def restore_best(self) -> None:
        """Puts back the weights of the best evaluation, if they are kept."""
        path = self.best_checkpoints.latest() if self.best_checkpoints is not None else None
        if path is not None:
            assert self.best_checkpoints is not None
            state = self.best_checkpoints.restore(path)
            self.metrics = dict(state.metrics)
            self._say(f"using the weights of step {state.step}: {self.best.describe()}")

    def _save(self, step: int) -> None:
        self.loop.signal(SAVE, 0.0)  # only this one: a STOP that has just come in must stay
        if self.checkpoints is None:
            return
        self.watchdog.enter("saving a checkpoint", self.config.startup_timeout_s)
        path = self.checkpoints.save(self._state(step))
        if path:
            self._say(f"saved {path}")
        self.watchdog.enter("training", self.config.startup_timeout_s)

    def _state(self, step: int) -> SavedState:
        return SavedState(
            step=step,
            position=self.position + step - self.resumed_at,
            global_batch=self.train_data.global_batch,
            data=self.train_data.identity(),
            sharding=self.train_data.sharding,
            num_replicas=self.strategy.num_replicas_in_sync,
            metrics=self.metrics,
            progress=self.best.state(),
        )

    def _say(self, text: str) -> None:
        if self.cluster.is_chief:
            say(text)


def resumed_position(state: SavedState, data: RecordInput, num_replicas: int) -> tuple[int, str]:
    """Where in the data a resumed training goes on: (global batch number, what to tell about it)."""
    if state.data != data.identity():
        epoch = -(-state.position * state.global_batch // data.global_batch // data.num_batches())
        return epoch * data.num_batches(), "; the training files have changed, so a new epoch begins"
    if state.sharding != data.sharding or (data.sharding == "file" and state.num_replicas != num_replicas):
        epoch = state.position // data.num_batches() + 1
        return epoch * data.num_batches(), "; the files are dealt out differently now, so a new epoch begins"
    if state.global_batch == data.global_batch:
        return state.position, ""
    epoch, batches = divmod(state.position, -(-data.count() // state.global_batch))
    position = epoch * data.num_batches() + batches * state.global_batch // data.global_batch
    return position, f"; the global batch was {state.global_batch} and is {data.global_batch} now"


def build_session(
    *,
    config: TrainingConfig,
    cluster: ClusterSpec,
    strategy: tf.distribute.Strategy,
    build_model: Callable[[], tf_keras.Model],
    loss: LossFn,
    eval_loss: LossFn,
    metrics: Callable[[], list[tf_keras.metrics.Metric]],
    optimizer: OptimizerFactory | None,
    train_data: RecordInput,
    eval_data: RecordInput | None,
    eval_steps: int | None,
    total_steps: int,
    folder: str | None,
    watchdog: Watchdog,
    reporters: list[Reporter],
    profile: Profile,
) -> Session:
    """Builds model, optimizer, step, loop and evaluator under the strategy's scope."""
    with strategy.scope():
        model = build_model()
        signals = tf.Variable(tf.zeros([NUM_SIGNALS]), trainable=False, name="signals")
        built = build_optimizer(config, strategy.num_replicas_in_sync, total_steps, optimizer)
        step = TrainStep(model, built, loss, config, signals=signals, options=communication_options(config))
        loop = StepLoop(step, config)
        evaluator = Evaluator(model, eval_loss, metrics(), eval_data, eval_steps) if eval_data is not None else None
    watchdog.progress = lambda: int(loop.global_step.numpy())
    saved = {"model": model, "optimizer": built, "global_step": loop.global_step, **step.loss_scale.variables()}
    folders = {}
    for name, keep in (("checkpoints", config.max_to_keep), ("best", 1)):
        wanted = folder is not None and (name == "checkpoints" or config.keep_best)
        folders[name] = (
            CheckpointFolder(f"{folder}/{name}", saved, is_chief=cluster.is_chief, max_to_keep=keep) if wanted else None
        )
    return Session(
        config=config,
        cluster=cluster,
        strategy=strategy,
        model=model,
        step=step,
        loop=loop,
        train_data=train_data,
        evaluator=evaluator,
        total_steps=total_steps,
        checkpoints=folders["checkpoints"],
        best_checkpoints=folders["best"],
        watchdog=watchdog,
        reporters=reporters,
        profile=profile,
    )


def weights_of(model: tf_keras.Model) -> list[np.ndarray]:
    """The model's variables as arrays; variables kept per worker are averaged, so every worker must call this."""
    return [np.asarray(value) for value in model.get_weights()]
