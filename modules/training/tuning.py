"""Hyper-parameter search with TFX's Tuner: every trial is a training by this engine.

    def tuner_fn(fn_args):
        return training.tuner_fn_result(fn_args, run_trial, space=..., max_trials=10)

where `run_trial(fn_args, hyperparameters) -> TrainingResult` calls `training.train`. Trials run one after the other, or
in parallel on several machines where keras-tuner's own variables (KERASTUNER_TUNER_ID, KERASTUNER_ORACLE_IP and
KERASTUNER_ORACLE_PORT) are set: then one process only hands out the trials.
"""

import copy
from collections.abc import Callable
from typing import Any

import keras_tuner
from tfx.components.tuner.component import TunerFnResult

from modules.training.train import TrainingResult

TrialFn = Callable[[Any, keras_tuner.HyperParameters], TrainingResult]


class EngineTuner(keras_tuner.engine.base_tuner.BaseTuner):
    """A keras-tuner tuner that trains with the engine instead of model.fit."""

    def __init__(self, fn_args: Any, run_trial: TrialFn, objective: str, **kwargs: Any):
        self._fn_args, self._train, self._metric = fn_args, run_trial, objective
        super().__init__(**kwargs)

    def run_trial(self, trial: Any, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Trains one trial; nothing of it is exported. Returns the metrics of its evaluation.

        Args:
          trial: keras-tuner's trial with its hyperparameters.
          *args: ignored; TFX passes what a model.fit would get.
          **kwargs: ignored.
        """
        fn_args = copy.copy(self._fn_args)
        fn_args.model_run_dir = f"{self.get_trial_dir(trial.trial_id)}/run"
        fn_args.serving_model_dir = None
        return self._train(fn_args, trial.hyperparameters).metrics

    def load_model(self, trial: Any) -> None:
        """There is no model to load: the Trainer step trains the winner again, on all the data it gets."""


def tuner_fn_result(
    fn_args: Any,
    run_trial: TrialFn,
    *,
    space: keras_tuner.HyperParameters,
    objective: str = "loss",
    maximise: bool = False,
    max_trials: int = 10,
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
      algorithm: "bayesian" or "random".
      seed: of the search.
    """
    oracles = keras_tuner.oracles
    oracle_type = {"bayesian": oracles.BayesianOptimizationOracle, "random": oracles.RandomSearchOracle}[algorithm]
    oracle = oracle_type(
        objective=keras_tuner.Objective(objective, "max" if maximise else "min"),
        max_trials=max_trials,
        hyperparameters=space,
        seed=seed,
    )
    tuner = EngineTuner(
        fn_args, run_trial, objective, oracle=oracle, directory=fn_args.working_dir, project_name="trials"
    )
    return TunerFnResult(tuner=tuner, fit_kwargs={})
