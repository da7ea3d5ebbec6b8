"""Evaluator: the stock component's contract, another executor."""

from typing import Any

from tensorflow_model_analysis.proto import config_pb2
from tfx.components.evaluator import component
from tfx.dsl.components.base import executor_spec

from components.evaluator import tfma_hooks
from components.evaluator.executor import Executor
from components.evaluator.grouped_metrics import grouped_eval_config


class Evaluator(component.Evaluator):
    """TFX's Evaluator, which also writes `verdict.json` and `report.html` beside the metrics.

    Inputs, outputs and parameters are the stock component's. A slice with too few examples is reported and never
    decides; an EvalConfig without any threshold is an error. Where every metric allows it, rows go through TFMA in
    groups instead of one by one (components.evaluator.row_groups), unless a module with extractors is given.
    """

    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)

    def __init__(self, **parameters: Any) -> None:
        config = parameters.get("eval_config")
        own_module = parameters.get("module_file") or parameters.get("module_path")
        if isinstance(config, config_pb2.EvalConfig) and not own_module:
            grouped = grouped_eval_config(config)
            if grouped:
                parameters |= {"eval_config": grouped, "module_path": tfma_hooks.__name__}
        super().__init__(**parameters)
