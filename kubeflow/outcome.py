"""The step that runs when everything else has ended, however it ended, and tells somebody."""

import dataclasses
import json
from typing import Any

from kubeflow import tasks
from kubeflow.config import KubeflowConfig, SecretConfig, StepConfig
from kubeflow.outcome_names import SUMMARY_PORT, WEBHOOK_VARIABLE

_PIPELINE_TASK = "pipeline"
_OUTCOME_TASK = "report-outcome"
_JOB_NAME, _JOB_ID = "{{$.pipeline_job_name}}", "{{$.pipeline_job_uuid}}"  # filled in by Kubeflow's driver


def wrap(
    root: dict[str, Any], components: dict[str, dict], executors: dict[str, dict], config: KubeflowConfig
) -> dict[str, Any]:
    """Moves the tasks of `root` into a component of their own and returns a new root that runs the outcome after it."""
    parameters = root["inputDefinitions"]["parameters"]
    components[f"comp-{_PIPELINE_TASK}"] = {
        "dag": root["dag"],
        "inputDefinitions": {
            "parameters": {name: {"parameterType": value["parameterType"]} for name, value in parameters.items()}
        },
    }
    pipeline = {
        "taskInfo": {"name": _PIPELINE_TASK},
        "componentRef": {"name": f"comp-{_PIPELINE_TASK}"},
        "inputs": {"parameters": {name: {"componentInputParameter": name} for name in parameters}},
    }
    task = _outcome_task(config)
    components[f"comp-{task.name}"] = task.component()
    executors[f"exec-{task.name}"] = task.executor
    spec = task.task()
    spec["triggerPolicy"] = {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"}
    return {
        "dag": {"tasks": {_PIPELINE_TASK: pipeline, task.name: spec}},
        "inputDefinitions": {"parameters": parameters},
    }


def step(config: KubeflowConfig) -> StepConfig:
    """What holds for every step, with the webhook's address."""
    if not config.outcome.webhook_secret:
        return config.default
    secret = SecretConfig(name=config.outcome.webhook_secret, env={"url": WEBHOOK_VARIABLE})
    return dataclasses.replace(config.default, secrets=(*config.default.secrets, secret))


def _outcome_task(config: KubeflowConfig) -> tasks.Task:
    task = tasks.Task(name=_OUTCOME_TASK, node_id=_OUTCOME_TASK, dependencies={_PIPELINE_TASK})
    task.parameters["status"] = {"parameterType": "TASK_FINAL_STATUS", "isOptional": True}
    task.parameter_sources["status"] = {"taskFinalStatus": {"producerTask": _PIPELINE_TASK}}
    for name, value in (("run_name", _JOB_NAME), ("run_id", _JOB_ID)):
        task.parameters[name] = {"parameterType": tasks.STRING}
        task.parameter_sources[name] = {"runtimeValue": {"constant": value}}
    task.outputs[SUMMARY_PORT] = {"artifactType": {"schemaTitle": "system.Markdown", "schemaVersion": "0.0.1"}}
    arguments = ["--executor-input", "{{$}}", "--command", json.dumps(list(config.outcome.command))]
    task.executor = tasks.container("kubeflow.report_outcome", arguments, config.default, config)
    return task
