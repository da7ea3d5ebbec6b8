"""The Trainer step: the stock Trainer's contract, plus the cluster that it runs on."""

from typing import Any

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.proto import trainer_pb2
from tfx.types import component_spec, standard_artifacts, standard_component_specs
from tfx.utils import json_utils

from components.trainer.cluster_config import ClusterConfig
from components.trainer.errors import TrainingConfigError
from components.trainer.executor import CLUSTER_KEY, CODE_FINGERPRINT_KEY, Executor


class TrainerSpec(component_spec.ComponentSpec):
    """Everything the stock TrainerSpec has, and two execution properties."""

    PARAMETERS = standard_component_specs.TrainerSpec.PARAMETERS | {
        CLUSTER_KEY: component_spec.ExecutionParameter(type=str),
        CODE_FINGERPRINT_KEY: component_spec.ExecutionParameter(type=str),
    }
    INPUTS = standard_component_specs.TrainerSpec.INPUTS
    OUTPUTS = standard_component_specs.TrainerSpec.OUTPUTS
    TYPE_ANNOTATION = standard_component_specs.TrainerSpec.TYPE_ANNOTATION


class Trainer(base_component.BaseComponent):
    """Trains a model with `run_fn`, in one process or in many.

    Outputs `model` and `model_run`, as the stock Trainer does. Any `run_fn(fn_args)` that the stock Trainer runs is
    run unchanged; in a cluster of several workers each has TF_CONFIG, and only the chief's export is kept.
    """

    SPEC_CLASS = TrainerSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    def __init__(
        self,
        run_fn: str,
        examples: types.BaseChannel,
        transform_graph: types.BaseChannel | None = None,
        schema: types.BaseChannel | None = None,
        base_model: types.BaseChannel | None = None,
        hyperparameters: types.BaseChannel | None = None,
        statistics: types.BaseChannel | None = None,
        train_args: trainer_pb2.TrainArgs | None = None,
        eval_args: trainer_pb2.EvalArgs | None = None,
        custom_config: dict[str, Any] | None = None,
        cluster: ClusterConfig | None = None,
        code_fingerprint: str = "",
    ):
        """Declares the step.

        Args:
          run_fn: dotted path of the function to run, such as "modules.taxi.model.run_fn".
          examples: Examples, raw or transformed.
          transform_graph: TransformGraph, read by run_fn.
          schema: Schema, read by run_fn.
          base_model: Model to start from.
          hyperparameters: HyperParameters that the Tuner found.
          statistics: ExampleStatistics; run_fn then finds `fn_args.num_examples`.
          train_args: splits and number of steps; split `train` unless it names others.
          eval_args: the same for evaluation; split `eval` unless it names others.
          custom_config: passed to run_fn as `fn_args.custom_config`.
          cluster: how many processes train, and where. One local process unless given.
          code_fingerprint: changes with the code that run_fn calls. TFX caches on the dotted path alone, and would
            otherwise serve the model of yesterday's code.

        Raises:
          TrainingConfigError: run_fn is not a dotted path.
        """
        if not all(part.isidentifier() for part in run_fn.split(".")) or "." not in run_fn:
            raise TrainingConfigError(
                f'Trainer: run_fn is "{run_fn}"; expected a dotted path, such as my_package.model.run_fn'
            )
        spec = TrainerSpec(
            run_fn=run_fn,
            examples=examples,
            transform_graph=transform_graph,
            schema=schema,
            base_model=base_model,
            hyperparameters=hyperparameters,
            statistics=statistics,
            train_args=train_args or trainer_pb2.TrainArgs(),
            eval_args=eval_args or trainer_pb2.EvalArgs(),
            custom_config=json_utils.dumps(custom_config),
            cluster=(cluster or ClusterConfig()).to_json(),
            code_fingerprint=code_fingerprint,
            model=types.Channel(type=standard_artifacts.Model),
            model_run=types.Channel(type=standard_artifacts.ModelRun),
        )
        super().__init__(spec=spec)
