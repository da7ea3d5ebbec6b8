"""The stock Evaluator's work, between a check before and a verdict after."""

import copy
import os
from typing import Any

import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.proto import config_pb2
from tfx import types
from tfx.components.evaluator import constants
from tfx.components.evaluator import executor as stock
from tfx.dsl.io import fileio
from tfx.types import artifact_utils, standard_component_specs
from tfx.utils import path_utils, proto_utils

from components.evaluator import tfma_hooks
from components.evaluator.errors import EvaluationConfigError
from components.evaluator.model_check import check_model
from components.evaluator.page import evaluation_page
from components.evaluator.verdict import Verdict, judge


class Executor(stock.Executor):
    """See components.evaluator.component.Evaluator."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Evaluates, then decides.

        Raises:
          EvaluationConfigError: no threshold is set, or the model lacks a signature or key that the config names.
        """
        eval_config = config_pb2.EvalConfig()
        proto_utils.json_to_proto(exec_properties[standard_component_specs.EVAL_CONFIG_KEY], eval_config)
        if not tfma.metrics.metric_thresholds_from_metrics_specs(eval_config.metrics_specs, eval_config=eval_config):
            raise EvaluationConfigError("evaluate: no threshold is set; a model would be neither blessed nor refused")
        _check_models(input_dict, eval_config)
        super().Do(input_dict, output_dict, _for_groups(exec_properties, eval_config))
        evaluation = artifact_utils.get_single_uri(output_dict[constants.EVALUATION_KEY])
        verdict = judge(evaluation, eval_config)
        _write_blessing(artifact_utils.get_single_instance(output_dict[standard_component_specs.BLESSING_KEY]), verdict)
        verdict.save(evaluation)
        with fileio.open(os.path.join(evaluation, "report.html"), "w") as file:
            file.write(evaluation_page(verdict))


def _for_groups(exec_properties: dict[str, Any], eval_config: config_pb2.EvalConfig) -> dict[str, Any]:
    """What the stock executor is given: TFMA would take groups of rows for rows when it counts a slice, so that the
    minimum size is left to the verdict where rows come in groups."""
    if exec_properties.get(standard_component_specs.MODULE_PATH_KEY) != tfma_hooks.__name__:
        return exec_properties
    without = copy.deepcopy(eval_config)
    without.options.ClearField("min_slice_size")
    return {**exec_properties, standard_component_specs.EVAL_CONFIG_KEY: proto_utils.proto_to_json(without)}


def _check_models(input_dict: dict[str, list[types.Artifact]], eval_config: config_pb2.EvalConfig) -> None:
    for spec in eval_config.model_specs:
        key = standard_component_specs.BASELINE_MODEL_KEY if spec.is_baseline else standard_component_specs.MODEL_KEY
        for model in input_dict.get(key, []):
            check_model(path_utils.serving_model_path(model.uri, path_utils.is_old_model_artifact(model)), spec)


def _write_blessing(blessing: types.Artifact, verdict: Verdict) -> None:
    for name in (constants.BLESSED_FILE_NAME, constants.NOT_BLESSED_FILE_NAME):
        path = os.path.join(blessing.uri, name)
        if fileio.exists(path):
            fileio.remove(path)
    name = constants.BLESSED_FILE_NAME if verdict.blessed else constants.NOT_BLESSED_FILE_NAME
    with fileio.open(os.path.join(blessing.uri, name), "w") as file:
        file.write("")
    blessing.set_int_custom_property(
        constants.ARTIFACT_PROPERTY_BLESSED_KEY,
        constants.BLESSED_VALUE if verdict.blessed else constants.NOT_BLESSED_VALUE,
    )
