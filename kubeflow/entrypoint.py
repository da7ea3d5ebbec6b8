"""Runs one TFX executor inside the container that Kubeflow starts for a step: `python -m kubeflow.entrypoint`.

The executor is not changed and knows nothing of Kubeflow: it finds its inputs in local folders, leaves its outputs in
local folders, and sets properties. What Kubeflow wants to be told afterwards is told here.
"""

import json
import logging
import os
import tempfile
from collections.abc import Callable
from typing import Any

from kubeflow import launcher_paths, plan, portable, step_process, step_summary
from kubeflow.errors import RejectedError
from kubeflow.executor_input import ExecutorInput, without_templates

LOG = logging.getLogger("sluice")


def main(argv: list[str] | None = None) -> int:
    """Runs the step; returns the exit code of the container."""
    return step_process.run_step(_run, argv)


def _run(step: plan.StepPlan, request: ExecutorInput) -> None:
    from tfx.types import value_artifact  # seconds, so that a wrong command line is told at once
    from tfx.utils import import_utils

    from kubeflow import artifact_codec

    inputs = _inputs(step, request)
    exec_properties = exec_properties_of(step, request.parameters)
    outputs = {}
    for port, class_path in step.outputs.items():
        made = artifact_codec.to_tfx(request.outputs[port], class_path)
        folder = os.path.dirname(made.uri) if isinstance(made, value_artifact.ValueArtifact) else made.uri
        os.makedirs(folder, exist_ok=True)
        outputs[port] = [made]
    if step.probed:
        _take_probe(request.parameters[plan.RESOLVED_EXEC_PROPERTIES], exec_properties, outputs)
    executor = _executor(import_utils.import_class_by_path(step.executor), step)
    LOG.info("%s starts", step.executor)
    rejection = _judged(step, lambda: executor.Do(inputs, outputs, exec_properties))
    _report(step, request, outputs, rejection)


def _judged(step: plan.StepPlan, do: Callable[[], None]) -> str:
    """Runs the executor, and returns why it rejects the data, or nothing.

    A rejection is a result here: the step after this one ends the run with it, once the page has been uploaded.
    """
    try:
        do()
    except Exception as error:
        if not step.judges or getattr(error, "exit_code", None) != RejectedError.exit_code:
            raise
        LOG.warning("%s", error)
        return str(error)
    return ""


def exec_properties_of(step: plan.StepPlan, parameters: dict[str, Any]) -> dict[str, Any]:
    """Exec properties with the types that the component declared: Kubeflow has one type for all numbers."""
    types = {"int": int, "float": float, "str": portable.from_image}
    return {
        key: types[kind](parameters[key])  # type: ignore[operator]
        for key, kind in step.exec_properties.items()
        if key in parameters
    }


def _inputs(step: plan.StepPlan, request: ExecutorInput) -> dict[str, list]:
    """Artifacts by port, without those for which a resolver found no model."""
    from kubeflow import artifact_codec

    inputs = {}
    for port, class_path in step.inputs.items():
        flag = step.resolved.get(port)
        if flag and request.parameters[flag] != "true":
            LOG.info("there is no %s yet: the step runs without", port)
            continue
        inputs[port] = [artifact_codec.to_tfx(item, class_path) for item in request.inputs.get(port, [])]
    return inputs


def _take_probe(found: str, exec_properties: dict[str, Any], outputs: dict[str, list]) -> None:
    """Adds what the data probe found, as the component's driver would have."""
    from tfx.components.example_gen import driver
    from tfx.types import standard_artifacts

    exec_properties.update(json.loads(found))
    for [made] in outputs.values():
        if isinstance(made, standard_artifacts.Examples):
            driver.update_output_artifact(exec_properties, made.mlmd_artifact)


def _executor(executor_class: Any, step: plan.StepPlan) -> Any:
    from tfx.dsl.components.base import base_beam_executor, base_executor

    scratch = tempfile.mkdtemp(prefix="tfx-")
    common: dict[str, Any] = {
        "tmp_dir": scratch,
        "unique_id": "1",
        "stateful_working_dir": os.path.join(scratch, "state"),
    }
    if issubclass(executor_class, base_beam_executor.BaseBeamExecutor):
        from pipeline import beam_options

        beam_options.check_job_service(step.step, step.beam_args)
        beam_context = base_beam_executor.BaseBeamExecutor.Context
        return executor_class(beam_context(beam_pipeline_args=list(step.beam_args), **common))
    return executor_class(base_executor.BaseExecutor.Context(extra_flags=list(step.beam_args), **common))


def _report(step: plan.StepPlan, request: ExecutorInput, outputs: dict[str, list], rejection: str) -> None:
    """Registers a blessed model, makes the page, and tells Kubeflow about properties and parameters."""
    from kubeflow import artifact_codec, pages

    made_by_port = {port: made for port, [made] in outputs.items()}
    uris = request.uris()
    if step.publishes:
        _publish(step, request, outputs)
    if step.page:
        pages.write(request.outputs[plan.PAGE_PORT].path, step.step, made_by_port, uris)
    found = {port: artifact_codec.metadata(made) for port, [made] in outputs.items()}
    parameters: dict[str, Any] = {}
    for name, condition in step.conditions.items():
        value = found[condition.output].get(condition.key)
        parameters[name] = float(value or 0) if condition.numeric else str(value or "")
    for name in step.values:
        parameters[name] = outputs[name][0].read()
    if step.judges:
        address = request.outputs[plan.PAGE_PORT].uri
        parameters[plan.REJECTION_PARAMETER] = without_templates(pages.with_address(rejection, address))
    if step.says:
        parameters[plan.SUMMARY_PARAMETER] = without_templates(step_summary.lines(made_by_port))
    request.write_output(found, {name: launcher_paths.with_uris(value, uris) for name, value in parameters.items()})


def _publish(step: plan.StepPlan, request: ExecutorInput, outputs: dict[str, list]) -> None:
    from tfx.components.util import model_utils
    from tfx.utils import path_utils

    from components.model_registry.registry import ModelRegistry

    [blessing] = outputs[step.publishes["blessing"]]
    if not model_utils.is_model_blessed(blessing):
        LOG.info("the model is not blessed, and not registered")
        return
    [model] = request.inputs[step.publishes["model"]]
    registry = ModelRegistry(request.parameters[plan.REGISTRY_PARAMETER], step.publishes["name"])
    entry = registry.register(path_utils.serving_model_path(model.path))
    registry.promote(entry.version, "stable")
    LOG.info("registered as version %d in %s", entry.version, request.parameters[plan.REGISTRY_PARAMETER])


if __name__ == "__main__":
    raise SystemExit(main())
