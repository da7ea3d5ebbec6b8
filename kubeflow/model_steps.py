"""Rewrites resolvers of blessed models into steps that ask the model registry, and lets blessed models get there."""

from tfx.dsl.components.base import base_node
from tfx.dsl.components.common import resolver
from tfx.types import standard_artifacts, standard_component_specs

from components.model_registry.component import ModelRegistrar
from kubeflow import artifact_types, plan, tasks
from kubeflow.rewriting_context import PROBE_SUFFIX, Context

_CANDIDATE = "candidate"


def steps_of(node: resolver.Resolver, context: Context) -> list[tasks.Task]:
    """A probe without cache that finds the version, and a step, cached by it, that copies the model."""
    declare_registry(context)
    probe = context.probe(node)
    probe.parameter_from_root(plan.REGISTRY_PARAMETER, plan.REGISTRY_PARAMETER, tasks.STRING)
    probe.output_parameters = {key: {"parameterType": tasks.STRING} for key in ("resolved", "version")}
    candidate = node.raw_inputs.get(_CANDIDATE)
    if candidate is not None:  # the strategy wants to know what its model will be compared with
        producer = context.task_names[candidate.producer_component_id]
        probe.artifact_from_task(_CANDIDATE, producer, candidate.output_key, artifact_types.schema(candidate.type))
    name = ["--executor-input", "{{$}}", "--name", _model_name(context)]
    probe.executor = tasks.container("kubeflow.blessed_model", ["probe", *name], probe.step, context.config)

    copy = context.task(node, cache=True)
    copy.parameter_from_root(plan.REGISTRY_PARAMETER, plan.REGISTRY_PARAMETER, tasks.STRING)
    copy.parameter_from_task("version", probe.name, "version", tasks.STRING)
    arguments = ["copy", *name]
    for port, made in node.outputs.items():
        if port != _CANDIDATE:
            copy.outputs[port] = {"artifactType": artifact_types.schema(made.type)}
            arguments += ["--model-port" if made.type is standard_artifacts.Model else "--blessing-port", port]
    copy.executor = tasks.container("kubeflow.blessed_model", arguments, copy.step, context.config)
    return [probe, copy]


def declare_resolved(task: tasks.Task, node: base_node.BaseNode, context: Context) -> dict[str, str]:
    """Declares, for each input that a resolver makes, the parameter that says whether there is anything in it."""
    resolved = {}
    for port, source in node.inputs.items():
        producer = source.producer_component_id
        if isinstance(context.nodes.get(producer), resolver.Resolver):
            name = resolved[port] = f"{port}--resolved"
            task.parameter_from_task(name, context.task_names[producer] + PROBE_SUFFIX, "resolved", tasks.STRING)
    return resolved


def declare_publication(task: tasks.Task, node: base_node.BaseNode, context: Context) -> dict[str, str]:
    """Lets the step that blesses a model register it, unless the pipeline has a ModelRegistrar that does."""
    asked = any(isinstance(other, resolver.Resolver) for other in context.nodes.values())
    blessings = [port for port, made in node.outputs.items() if made.type is standard_artifacts.ModelBlessing]
    if not asked or not blessings or standard_component_specs.MODEL_KEY not in node.inputs or _registrar(context):
        return {}
    declare_registry(context)
    task.parameter_from_root(plan.REGISTRY_PARAMETER, plan.REGISTRY_PARAMETER, tasks.STRING)
    return {"model": standard_component_specs.MODEL_KEY, "blessing": blessings[0], "name": _model_name(context)}


def declare_registry(context: Context) -> None:
    """Declares the pipeline's parameter that says where the model registry is."""
    registrar = _registrar(context)
    default = context.config.model_registry
    if not default and registrar is not None:
        default = registrar.exec_properties["registry"]
    default = default or f"{context.config.storage}/registry/{context.name}"
    context.declare_parameter(plan.REGISTRY_PARAMETER, tasks.STRING, default)


def _registrar(context: Context) -> ModelRegistrar | None:
    return next((node for node in context.nodes.values() if isinstance(node, ModelRegistrar)), None)


def _model_name(context: Context) -> str:
    """The model's name in the registry."""
    registrar = _registrar(context)
    return registrar.exec_properties["name"] if registrar is not None else context.name
