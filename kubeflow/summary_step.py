"""The last step of a run that ended well: one page of Markdown with what the other steps have said."""

import json

from tfx.dsl.components.base import base_node

from kubeflow import plan, step_summary, tasks
from kubeflow.outcome_names import SUMMARY_PORT
from kubeflow.rewriting_context import Context

NAME = "run-summary"


def declare(task: tasks.Task, node: base_node.BaseNode, context: Context) -> bool:
    """Whether the node has something to say; its task then does so in an output parameter."""
    wanted = context.config.summary and not task.condition
    says = wanted and step_summary.says([made.type.TYPE_NAME for made in node.outputs.values()])
    if says:
        task.output_parameters[plan.SUMMARY_PARAMETER] = {"parameterType": tasks.STRING}
    return says


def step_for(made: list[tasks.Task], context: Context) -> list[tasks.Task]:
    """The step, or none: a step that reads from one that a condition may skip would be skipped with it."""
    maybe = _maybe_skipped(made)
    speakers = [task for task in made if plan.SUMMARY_PARAMETER in task.output_parameters and task.name not in maybe]
    if not speakers:
        return []
    cache = all(task.cache for task in speakers)
    summary = tasks.Task(name=NAME, node_id=NAME, step=context.light_step(), cache=cache)
    titles = {}
    for task in speakers:
        titles[task.name] = task.node_id
        summary.parameter_from_task(task.name, task.name, plan.SUMMARY_PARAMETER, tasks.STRING)
    summary.outputs[SUMMARY_PORT] = {"artifactType": {"schemaTitle": "system.Markdown", "schemaVersion": "0.0.1"}}
    arguments = ["--executor-input", "{{$}}", "--title", context.name, "--steps", json.dumps(titles)]
    summary.executor = tasks.container("kubeflow.report_summary", arguments, summary.step, context.config)
    return [summary]


def _maybe_skipped(made: list[tasks.Task]) -> set[str]:
    """Tasks with a condition, and all that comes after them."""
    found = {task.name for task in made if task.condition}
    while True:
        more = {task.name for task in made if task.dependencies & found} - found
        if not more:
            return found
        found |= more
