"""Evaluator: the stock component's contract, another executor."""

from tfx.components.evaluator import component
from tfx.dsl.components.base import executor_spec

from components.evaluator.executor import Executor


class Evaluator(component.Evaluator):
    """TFX's Evaluator, which also writes `verdict.json` and `report.html` beside the metrics.

    Inputs, outputs and parameters are the stock component's. A slice with too few examples is reported and never
    decides; an EvalConfig without any threshold is an error.
    """

    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)
