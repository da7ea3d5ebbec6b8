"""Hyper-parameter search with TFX's Tuner: every trial is a training by this engine.

    def tuner_fn(fn_args):
        return tuning.tuner_fn_result(fn_args, run_trial, space=..., max_trials=10)

where `run_trial(fn_args, hyperparameters) -> TrainingResult` calls `training.train`. Trials run one after the other in
the Tuner's process; with `parallel_trials` so many at a time, each in a process of its own on this machine; or on
several machines where keras-tuner's own variables (KERASTUNER_TUNER_ID, KERASTUNER_ORACLE_IP and
KERASTUNER_ORACLE_PORT) are set: then one process only hands out the trials.
"""

import copy
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import keras_tuner
import tensorflow as tf
from keras_tuner.engine.trial import TrialStatus
from tfx.components.tuner.component import TunerFnResult

from modules.training.errors import TrainingConfigError
from modules.training.telemetry import say
from modules.training.train import TrainingResult
from modules.training.trial_process import run_in_process

_IDLE_S = 0.2  # how long the oracle is left alone that waits for other trials' results

TrialFn = Callable[[Any, keras_tuner.HyperParameters], TrainingResult]


class EngineTuner(keras_tuner.engine.base_tuner.BaseTuner):
    """A keras-tuner tuner that trains with the engine instead of model.fit."""

    def __init__(self, fn_args: Any, run_trial: TrialFn, parallel_trials: int = 1, **kwargs: Any):
        self._fn_args, self._train, self._parallel = fn_args, run_trial, parallel_trials
        self._stopping = False
        self._saving = threading.Lock()
        super().__init__(**kwargs)

    def search(self, *args: Any, **kwargs: Any) -> None:
        """Runs all trials, `parallel_trials` at a time; arguments as for keras-tuner's own.

        A trial that fails counts as a failed trial. Raises what keras-tuner raises when too many have.
        """
        if self._parallel == 1:
            super().search(*args, **kwargs)
            return
        self.on_search_begin()
        with ThreadPoolExecutor(self._parallel) as pool:
            searches = [pool.submit(self._run_trials, f"process-{number}") for number in range(self._parallel)]
            try:
                for search in searches:
                    search.result()
            finally:  # after Ctrl-C, which the trials get too, no new ones
                self._stopping = True
        self.on_search_end()

    def _run_trials(self, tuner_id: str) -> None:
        """One trial after the other, until there are no more; all threads ask the same oracle."""
        gpu = _gpu_of(int(tuner_id.rpartition("-")[2]), self._parallel)
        while not self._stopping and (trial := self.oracle.create_trial(tuner_id)).status != TrialStatus.STOPPED:
            if trial.status == TrialStatus.IDLE:
                time.sleep(_IDLE_S)
                continue
            self._try_run_and_update_trial(trial, gpu=gpu)
            self.on_trial_end(trial)

    def on_trial_end(self, trial: Any) -> None:
        """Writes down how a trial ended, and says so if it failed, which keras-tuner does not."""
        if trial.message:
            say(f"trial {trial.trial_id} failed: {trial.message.strip().splitlines()[-1]}")
        with self._saving:
            super().on_trial_end(trial)

    def run_trial(self, trial: Any, *args: Any, gpu: str | None = None, **kwargs: Any) -> dict[str, float]:
        """Trains one trial; nothing of it is exported. Returns the metrics of its evaluation.

        Args:
          trial: keras-tuner's trial with its hyperparameters.
          *args: ignored; TFX passes what a model.fit would get.
          gpu: of a trial in a process of its own, the GPU that is its.
          **kwargs: ignored.
        """
        fn_args = copy.copy(self._fn_args)
        fn_args.model_run_dir = f"{self.get_trial_dir(trial.trial_id)}/run"
        fn_args.serving_model_dir = None
        if self._parallel > 1:
            return run_in_process(self._train, fn_args, trial.hyperparameters.get_config(), gpu)
        return self._train(fn_args, trial.hyperparameters).metrics

    def load_model(self, trial: Any) -> None:
        """There is no model to load: the Trainer step trains the winner again, on all the data it gets."""


def _gpu_of(number: int, parallel_trials: int) -> str | None:
    """The GPU of one of the processes, where there is one for each."""
    count = len(tf.config.list_physical_devices("GPU"))
    return str(number) if count >= parallel_trials else None


def tuner_fn_result(
    fn_args: Any,
    run_trial: TrialFn,
    *,
    space: keras_tuner.HyperParameters,
    objective: str = "loss",
    maximise: bool = False,
    max_trials: int = 10,
    parallel_trials: int = 1,
    algorithm: str = "bayesian",
    seed: int = 0,
) -> TunerFnResult:
    """What a TFX `tuner_fn` returns.

    Args:
      fn_args: the Tuner step's FnArgs; trials are kept under fn_args.working_dir.
      run_trial: trains with the given hyperparameters and returns the engine's result.
      space: the hyperparameters with their ranges.
      objective: a metric of the evaluation, "loss" or one of the run's own.
      maximise: whether more of it is better.
      max_trials: trainings in all.
      parallel_trials: trainings at a time; above 1 each is a process, and run_trial a function of an importable module.
      algorithm: "bayesian" or "random".
      seed: of the search.

    Raises:
      TrainingConfigError: a number of trials is less than 1, or the algorithm is unknown.
    """
    for name, number in (("max_trials", max_trials), ("parallel_trials", parallel_trials)):
        if not isinstance(number, int) or number < 1:
            raise TrainingConfigError(f"{name} is {number!r}; expected a whole number above 0")
    oracles = {
        "bayesian": keras_tuner.oracles.BayesianOptimizationOracle,
        "random": keras_tuner.oracles.RandomSearchOracle,
    }
    if algorithm not in oracles:
        raise TrainingConfigError(f"algorithm is {algorithm!r}; expected {' or '.join(oracles)}")
    oracle = oracles[algorithm](
        objective=keras_tuner.Objective(objective, "max" if maximise else "min"),
        max_trials=max_trials,
        hyperparameters=space,
        seed=seed,
    )
    tuner = EngineTuner(
        fn_args, run_trial, parallel_trials, oracle=oracle, directory=fn_args.working_dir, project_name="trials"
    )
    return TunerFnResult(tuner=tuner, fit_kwargs={})
