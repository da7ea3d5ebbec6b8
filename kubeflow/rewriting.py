"""Rewrites the steps of TFX's representation into steps that open-source Kubeflow runs, one kind of node at a time."""

from typing import Any

from tfx.dsl.component.experimental import executor_specs
from tfx.dsl.components.base import base_node
from tfx.dsl.components.common import importer, resolver
from tfx.orchestration import data_types

from kubeflow import artifact_types, component_steps, gate_steps, model_steps, names, summary_step, tasks
from kubeflow.config import KubeflowConfig
from kubeflow.errors import CompileError
from kubeflow.rewriting_context import Context

_IMPORTED = ("gs://", "s3://", "minio://")
"""What Kubeflow's importer can turn into an artifact that the launcher brings into a pod."""


def rewrite(
    spec: dict[str, Any], nodes: dict[str, base_node.BaseNode], config: KubeflowConfig, name: str
) -> tuple[list[tasks.Task], dict[str, dict]]:
    """All tasks, and the parameters of the pipeline by name.

    Args:
      spec: the PipelineSpec that TFX made, in JSON form, without resolvers.
      nodes: TFX nodes by id.
      config: the cluster's side.
      name: the pipeline's name on the cluster.
    """
    context = Context(spec, nodes, config, name)
    carried = component_steps.carried_by_conditions(context)
    made: list[tasks.Task] = []
    for node in nodes.values():
        if isinstance(node, resolver.Resolver):
            made += model_steps.steps_of(node, context)
        elif isinstance(node, importer.Importer):
            made.append(_importer(node, context))
        elif isinstance(node.executor_spec, executor_specs.TemplatedExecutorContainerSpec):
            made.append(_container(node, context, carried))
        else:
            made += component_steps.steps_of(node, context, carried)
    gate_steps.wait_for_stops(made)
    made += summary_step.step_for(made, context)
    names.check_added([task.name for task in made], context.task_names)
    return made, context.parameters


def _importer(node: importer.Importer, context: Context) -> tasks.Task:
    """Kubeflow's own importer; the URI and the type are rewritten, the rest is TFX's."""
    task = context.task(node)
    task.retry = None  # Kubeflow's importer pods take no retry policy
    [(output, made)] = node.outputs.items()
    schema = artifact_types.schema(made.type)
    task.outputs[output] = {"artifactType": schema}
    uri = node.exec_properties[importer.SOURCE_URI_KEY]
    given = uri.default if isinstance(uri, data_types.RuntimeParameter) else uri
    if given is not None and not str(given).startswith(_IMPORTED):
        raise CompileError(
            f"step {node.id!r}: Kubeflow imports only gs://, s3:// and minio:// artifacts, found {given!r}. "
            "Files of the image are read by components such as ImportSchemaGen."
        )
    if isinstance(uri, data_types.RuntimeParameter):
        context.declare_parameter(uri.name, tasks.STRING, uri.default)
        task.parameter_from_root("uri", uri.name, tasks.STRING)
    else:
        task.parameters["uri"] = {"parameterType": tasks.STRING}
        task.parameter_sources["uri"] = {"runtimeValue": {"constant": uri}}
    theirs = context.ir_executor(node.id)["importer"]
    task.executor = {
        "importer": {
            "artifactUri": {"runtimeParameter": "uri"},
            "typeSchema": schema,
            "reimport": theirs.get("reimport", False),
            "metadata": theirs.get("metadata", {}),
        }
    }
    return task


def _container(node: base_node.BaseNode, context: Context, carried: component_steps.Carried) -> tasks.Task:
    """Somebody's own container: TFX gives it URIs, which only the launcher can read, so it gets paths."""
    if node.id in carried:
        raise CompileError(f"step {node.id!r}: a Cond reads its output, and a container component tells no properties")
    task, _ = component_steps.task_with_ports(node, context)
    component_steps.set_condition(task, node, context, carried)
    theirs = context.ir_executor(node.id)["container"]
    command = [argument.replace("'].uri}}", "'].path}}") for argument in theirs["command"]]
    spec: dict[str, Any] = {"image": theirs["image"], "command": command[:1], "args": command[1:]}
    tasks.add_pod_settings(spec, task.step)
    component_steps.keep_platform_config(spec, theirs, node)
    task.executor = {"container": spec}
    return task
