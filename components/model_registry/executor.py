"""Runs ModelRegistrar."""

import hashlib
import json
import math
import os
from typing import Any

from absl import logging
from tfx import types
from tfx.components.util import model_utils
from tfx.dsl.components.base import base_executor
from tfx.dsl.io import fileio
from tfx.types import artifact_utils
from tfx.utils import path_utils

from components.model_registry.entry import Lineage
from components.model_registry.registry import ModelRegistry, resolve

REPORT_NAME = "registration.json"
Inputs = dict[str, list[types.Artifact]]


class Executor(base_executor.BaseExecutor):
    """Registers the model of the inputs, if it is blessed."""

    def Do(self, input_dict: Inputs, output_dict: Inputs, exec_properties: dict[str, Any]) -> None:
        """Registers the model, then moves the alias where the model serves (or where nobody says whether it does)."""
        self._log_startup(input_dict, output_dict, exec_properties)
        registration = artifact_utils.get_single_instance(output_dict["registration"])
        registration.registered = 0
        model = artifact_utils.get_single_instance(input_dict["model"])
        if any(not model_utils.is_model_blessed(blessing) for blessing in input_dict.get("model_blessing") or []):
            _write_report(registration, {"registered": False, "reason": "the model is not blessed"})
            logging.info("Not registered: the model is not blessed")
            return
        registry = ModelRegistry(exec_properties["registry"], exec_properties["name"])
        entry = registry.register(
            path_utils.serving_model_path(model.uri, path_utils.is_old_model_artifact(model)),
            lineage=self._lineage(input_dict, exec_properties, model.uri),
            metrics=overall_metrics(input_dict),
            statistics=next((statistics.uri for statistics in input_dict.get("statistics") or []), None),
        )
        if alias := _alias(input_dict, exec_properties["promote_to"]):
            registry.promote(entry.version, alias)
        registration.registered = 1
        registration.model_version = entry.version
        _write_report(registration, {"registered": True, "aliases": registry.aliases(), **entry.to_dict()})
        logging.info("Registered %s version %d in %s", entry.name, entry.version, exec_properties["registry"])

    def _lineage(self, input_dict: Inputs, exec_properties: dict[str, Any], source: str) -> Lineage:
        stable = resolve(exec_properties["registry"], exec_properties["name"], "stable")
        examples = next(iter(input_dict.get("examples") or []), None)
        context = getattr(self, "_context", None)
        return Lineage(
            data_span=_span(examples),
            data_fingerprint=examples.get_string_custom_property("input_fingerprint") if examples else "",
            schema_fingerprint=_schema_fingerprint(input_dict),
            code_fingerprint=exec_properties["code_fingerprint"],
            run=str(getattr(context, "pipeline_run_id", "") or ""),
            source=source,
            parent=stable.version if stable else None,
        )


def overall_metrics(input_dict: Inputs) -> dict[str, float]:
    """The metrics over all rows that the Evaluator wrote; empty without an `evaluation`."""
    evaluations = input_dict.get("evaluation") or []
    if not evaluations:
        return {}
    from components.evaluator.results import WHOLE, read_numbers  # TFMA takes seconds to import

    folder = artifact_utils.get_single_uri(evaluations)
    # Sluice calls the model `candidate` where there is a baseline to tell it from; TFMA gives a single model no name.
    for name in ("candidate", ""):
        numbers = read_numbers(folder, name).get(WHOLE)
        if numbers:
            return {metric: number.value for metric, number in numbers.items() if math.isfinite(number.value)}
    return {}


def _alias(input_dict: Inputs, promote_to: str) -> str:
    """The alias that the model has earned: none if it was not pushed, `canary` while the Pusher holds it as one."""
    for pushed_model in input_dict.get("pushed_model") or []:
        if not pushed_model.get_int_custom_property("pushed"):
            return ""
        if pushed_model.get_string_custom_property("outcome") == "held as canary":
            return "canary"
    return promote_to


def _span(examples: types.Artifact | None) -> int | None:
    if examples is None:
        return None
    text = examples.get_string_custom_property("span")
    return int(text) if text else examples.get_int_custom_property("span")


def _schema_fingerprint(input_dict: Inputs) -> str:
    digest = hashlib.sha256()
    for schema in input_dict.get("schema") or []:
        for name in sorted(fileio.listdir(schema.uri)):
            with fileio.open(os.path.join(schema.uri, name), "rb") as file:
                digest.update(file.read())
    return digest.hexdigest() if input_dict.get("schema") else ""


def _write_report(registration: types.Artifact, report: dict[str, Any]) -> None:
    fileio.makedirs(registration.uri)
    with fileio.open(os.path.join(registration.uri, REPORT_NAME), "w") as file:
        file.write(json.dumps(report, indent=2, sort_keys=True) + "\n")
