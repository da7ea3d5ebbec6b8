"""Runs the Pusher component: checks the blessings, deploys, and marks the artifact with what really happened."""

import json
import os
from typing import Any

from absl import logging
from tfx import types
from tfx.components.util import model_utils
from tfx.dsl.components.base import base_executor
from tfx.dsl.io import fileio
from tfx.types import artifact_utils
from tfx.utils import path_utils

from components.pusher.config import PushTarget
from components.pusher.deployer import Deployer, PushResult
from components.pusher.targets import make_deployer

REPORT_NAME = "push.json"


class Executor(base_executor.BaseExecutor):
    """Pushes the model when every blessing given says so."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Deploys the model of `input_dict`, or marks it not pushed.

        Raises:
          PushError: blessed, but not deployed (exit code 5); `pushed` is then 0.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        pushed_model = artifact_utils.get_single_instance(output_dict["pushed_model"])
        pushed_model.set_int_custom_property("pushed", 0)
        if refusal := why_not_blessed(input_dict):
            logging.info("Not pushed: %s", refusal)
            _write_report(pushed_model, {"pushed": False, "reason": refusal})
            return
        model = artifact_utils.get_single_instance(input_dict["model"])
        model_path = path_utils.serving_model_path(model.uri, path_utils.is_old_model_artifact(model))
        deployer: Deployer = make_deployer(PushTarget.from_json(exec_properties["target"]))
        result = deployer.push(model_path)
        _mark_pushed(pushed_model, result)
        _write_report(pushed_model, {"pushed": True, **result.to_dict()})
        logging.info("Model %s as version %d: %s", result.outcome, result.version, result.destination)


def why_not_blessed(input_dict: dict[str, list[types.Artifact]]) -> str:
    """The reason not to push, or an empty string."""
    blessings = {"model_blessing": model_utils.is_model_blessed, "infra_blessing": model_utils.is_infra_validated}
    for key, is_blessed in blessings.items():
        for artifact in input_dict.get(key) or []:
            if not is_blessed(artifact):
                return f"the model is not blessed ({key} at {artifact.uri})"
    if not any(input_dict.get(key) for key in blessings):
        logging.warning("Pushing a model that nothing has evaluated: wire `model_blessing` to the Evaluator.")
    return ""


def _mark_pushed(pushed_model: types.Artifact, result: PushResult) -> None:
    pushed_model.set_int_custom_property("pushed", 1)
    pushed_model.set_string_custom_property("pushed_destination", result.destination)
    pushed_model.set_string_custom_property("pushed_version", str(result.version))
    pushed_model.set_string_custom_property("pushed_digest", result.digest)
    pushed_model.set_int_custom_property("observed", int(result.observed))
    pushed_model.set_string_custom_property("outcome", result.outcome)


def _write_report(pushed_model: types.Artifact, report: dict[str, Any]) -> None:
    fileio.makedirs(pushed_model.uri)
    with fileio.open(os.path.join(pushed_model.uri, REPORT_NAME), "w") as file:
        file.write(json.dumps(report, indent=2) + "\n")
