"""Which evaluation was the best one, and whether waiting for a better one is over."""

from collections.abc import Collection
from typing import Any

from modules.training.config import TrainingConfig
from modules.training.errors import TrainingConfigError


class BestMetric:
    """Follows `best_metric`; its decisions are equal on all workers because the metrics are."""

    def __init__(self, config: TrainingConfig, evaluated: Collection[str] | None):
        """`evaluated` has the names of what is evaluated; None where nothing is.

        Raises:
          TrainingConfigError: best_metric is not among them, or is to decide something and nothing is evaluated.
        """
        if evaluated is None:
            for name in ("eval_every", "keep_best", "early_stopping_evals"):
                if getattr(config, name):
                    raise TrainingConfigError(f"{name} needs evaluation data, and there is none; leave it out")
        elif config.best_metric not in evaluated:
            raise TrainingConfigError(
                f"best_metric {config.best_metric!r} is not evaluated; there are {', '.join(evaluated)}"
            )
        self._name, self._maximise = config.best_metric, config.maximise
        self._patience, self._min_delta = config.early_stopping_evals, config.early_stopping_min_delta
        self.value: float | None = None
        self.step = 0
        self.evaluations_since = 0

    def update(self, metrics: dict[str, float], step: int) -> bool:
        """Takes an evaluation in; True if it is the best so far."""
        value = metrics[self._name]
        sign = 1.0 if self._maximise else -1.0
        if self.value is None or sign * (value - self.value) > self._min_delta:
            self.value, self.step, self.evaluations_since = value, step, 0
            return True
        self.evaluations_since += 1
        return False

    @property
    def exhausted(self) -> bool:
        """Whether early stopping says stop."""
        return bool(self._patience) and self.evaluations_since >= self._patience

    def describe(self) -> str:
        return f"{self._name} was best at step {self.step} with {self.value:.5g}"

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"best_value": self.value, "best_step": self.step, "evaluations_since": self.evaluations_since}

    def load(self, state: dict[str, Any]) -> None:
        """From a checkpoint."""
        if state:
            self.value, self.step = state["best_value"], state["best_step"]
            self.evaluations_since = state["evaluations_since"]
