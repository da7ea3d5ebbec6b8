"""Rewrites ordinary TFX components: one step that runs the executor, and a probe before it where there is a driver."""

from typing import Any

from google.protobuf import json_format
from tfx.components.example_gen import driver as example_gen_driver
from tfx.components.example_gen import utils as example_gen_utils
from tfx.dsl.components.base import base_driver, base_node, executor_spec
from tfx.orchestration import data_types
from tfx.types import standard_component_specs

from components.data_gate.component import DataGate
from components.model_registry.component import ModelRegistrar
from kubeflow import artifact_types, conditions, gate_steps, model_steps, plan, portable, summary_step, tasks
from kubeflow.errors import CompileError
from kubeflow.rewriting_context import Context

_WITH_PAGE = ("ExampleStatistics", "ExampleAnomalies", "ModelEvaluation", "DataVerdict", "IngestionReport")
_NUM_TFX_ARGUMENTS = 6
"""TFX's own arguments of a container (three names and values); Beam's follow."""
Carried = dict[str, dict[str, plan.ConditionOutput]]
"""Node id to the output parameters that other nodes' conditions read."""


def carried_by_conditions(context: Context) -> Carried:
    """Finds what conditions anywhere in the pipeline want to know of each node's outputs."""
    found: Carried = {}
    for node_id, task in context.ir_tasks.items():
        expression = task.get("triggerPolicy", {}).get("condition", "")
        for port, key in conditions.references(expression):
            producer, output = context.source(node_id, port)
            numeric = conditions.is_numeric(expression, port, key)
            carried = conditions.carried(output, key, numeric)
            name = conditions.output_parameter(output, key)
            if found.setdefault(producer, {}).setdefault(name, carried) != carried:
                raise CompileError(f"step {producer!r}: {output}.{key} is compared with numbers and with text")
    return found


def steps_of(node: base_node.BaseNode, context: Context, carried: Carried) -> list[tasks.Task]:
    """The step of a component, after its probe, and before the step that ends the run where it rejects the data."""
    task, exec_types = task_with_ports(node, context)
    container = context.ir_executor(node.id)["container"]
    values: dict[str, Any] = {
        "step": node.id,
        "executor": artifact_types.class_path(_executor_class(node)),
        "inputs": {port: artifact_types.class_path(source.type) for port, source in node.inputs.items()},
        "outputs": {port: artifact_types.class_path(made.type) for port, made in node.outputs.items()},
        "exec_properties": exec_types,
        "beam_args": container["args"][_NUM_TFX_ARGUMENTS:],
        "values": sorted(task.output_parameters),
        "conditions": carried.get(node.id, {}),
        "page": _declare_page(task, node),
        "resolved": model_steps.declare_resolved(task, node, context),
        "publishes": model_steps.declare_publication(task, node, context),
    }
    for name, output in values["conditions"].items():
        task.output_parameters[name] = {"parameterType": tasks.DOUBLE if output.numeric else tasks.STRING}
    set_condition(task, node, context, carried)
    values["judges"] = gate_steps.declare(task, node)
    values["says"] = summary_step.declare(task, node, context)
    steps = [task]
    if node.driver_class is not base_driver.BaseDriver:
        values["probed"] = True
        steps.insert(0, _probe(task, node, context, exec_types))
    step_plan = plan.StepPlan(**values)
    task.executor = tasks.entrypoint("kubeflow.entrypoint", step_plan, task.step, context.config)
    keep_platform_config(task.executor["container"], container, node)
    if step_plan.judges:
        steps.append(gate_steps.stop_after(task, node, context))
    return steps


def task_with_ports(node: base_node.BaseNode, context: Context) -> tuple[tasks.Task, dict[str, str]]:
    """A task with the node's artifacts and exec properties, and the Python types of the latter."""
    ir_task, component = context.ir_tasks[node.id], context.ir_component(node.id)
    task = context.task(node)
    for port, wanted in node.inputs.items():
        producer, output = context.source(node.id, port)
        task.artifact_from_task(port, context.task_names[producer], output, artifact_types.schema(wanted.type))
    for port, made in node.outputs.items():
        task.outputs[port] = {"artifactType": artifact_types.schema(made.type)}
    for key, value in component.get("outputDefinitions", {}).get("parameters", {}).items():
        task.output_parameters[key] = {"parameterType": value["parameterType"]}
    declared = component.get("inputDefinitions", {}).get("parameters", {})
    for key, source in ir_task.get("inputs", {}).get("parameters", {}).items():
        _exec_property(task, node, context, key, source, declared[key]["parameterType"])
    task.dependencies |= {context.task_names[dependency] for dependency in ir_task.get("dependentTasks", [])}
    return task, {key: tasks.PYTHON_TYPES[value["parameterType"]] for key, value in declared.items()}


def _exec_property(
    task: tasks.Task, node: base_node.BaseNode, context: Context, key: str, source: dict, parameter_type: str
) -> None:
    if "componentInputParameter" in source:
        value = node.exec_properties[key]
        default = value.default if isinstance(value, data_types.RuntimeParameter) else None
        context.declare_parameter(source["componentInputParameter"], parameter_type, default)
        task.parameter_from_root(key, source["componentInputParameter"], parameter_type)
    elif "taskOutputParameter" in source:
        # TFX names the producer `X_task`, which is the name of no task
        producer = source["taskOutputParameter"]["producerTask"].removesuffix("_task")
        output = source["taskOutputParameter"]["outputParameterKey"]
        task.parameter_from_task(key, context.task_names[producer], output, parameter_type)
    else:
        constant = source["runtimeValue"]["constant"]
        if isinstance(constant, str):
            constant = portable.to_image(constant, node.id, key, context.shared_folders(node))
        _constant(task, node, context, key, constant, parameter_type)


def _constant(
    task: tasks.Task, node: base_node.BaseNode, context: Context, key: str, constant: Any, parameter_type: str
) -> None:
    """A constant; the folder of the data and that of the registry become parameters, so that a run can change them."""
    if key == "registry" and constant and isinstance(node, ModelRegistrar | DataGate):
        model_steps.declare_registry(context)
        task.parameter_from_root(key, plan.REGISTRY_PARAMETER, parameter_type)
    elif key == standard_component_specs.INPUT_BASE_KEY and _is_example_gen(node):
        name = "data" if "data" not in context.parameters else f"{task.name}-data"
        context.declare_parameter(name, parameter_type, constant)
        task.parameter_from_root(key, name, parameter_type)
    else:
        task.parameters[key] = {"parameterType": parameter_type}
        task.parameter_sources[key] = {"runtimeValue": {"constant": constant}}


def _declare_page(task: tasks.Task, node: base_node.BaseNode) -> bool:
    shown = any(made.type.__name__ in _WITH_PAGE for made in node.outputs.values())
    if shown:
        task.outputs[plan.PAGE_PORT] = {"artifactType": {"schemaTitle": "system.HTML", "schemaVersion": "0.0.1"}}
    return shown


def _probe(task: tasks.Task, node: base_node.BaseNode, context: Context, exec_types: dict[str, str]) -> tasks.Task:
    """A step without cache that does what the component's driver does: find span, version and fingerprint.

    They reach the component as parameters, so that its cache key follows the data.
    """
    probe = context.probe(node)
    probe.parameters, probe.parameter_sources = dict(task.parameters), dict(task.parameter_sources)
    probe.dependencies = set(task.dependencies)
    for output in (
        example_gen_utils.SPAN_PROPERTY_NAME,
        example_gen_utils.VERSION_PROPERTY_NAME,
        example_gen_utils.FINGERPRINT_PROPERTY_NAME,
        plan.RESOLVED_EXEC_PROPERTIES,
    ):
        probe.output_parameters[output] = {"parameterType": tasks.STRING}
    probe_plan = plan.StepPlan(
        step=node.id, driver=artifact_types.class_path(node.driver_class), exec_properties=exec_types
    )
    probe.executor = tasks.entrypoint("kubeflow.data_probe", probe_plan, probe.step, context.config)
    name = plan.RESOLVED_EXEC_PROPERTIES
    task.parameter_from_task(name, probe.name, name, tasks.STRING)
    return probe


def set_condition(task: tasks.Task, node: base_node.BaseNode, context: Context, carried: Carried) -> None:
    """Gives the task the node's condition, over parameters that the producers carry."""
    expression = context.ir_tasks[node.id].get("triggerPolicy", {}).get("condition", "")
    parameter_names: dict[tuple[str, str], str] = {}
    for port, key in conditions.references(expression):
        producer, output = context.source(node.id, port)
        carrier = conditions.output_parameter(output, key)
        producer_task = context.task_names[producer]
        name = parameter_names[port, key] = f"condition--{producer_task}--{carrier}"
        parameter_type = tasks.DOUBLE if carried[producer][carrier].numeric else tasks.STRING
        task.parameter_from_task(name, producer_task, carrier, parameter_type)
    task.condition = conditions.rewritten(expression, parameter_names)


def keep_platform_config(ours: dict[str, Any], theirs: dict[str, Any], node: base_node.BaseNode) -> None:
    """Keeps resources set with `with_platform_config`, which TFX forgets for ExampleGen; the config file wins."""
    asked = dict(theirs.get("resources", {}))
    platform_config = getattr(node, "platform_config", None)
    if not asked and platform_config is not None:
        asked = json_format.MessageToDict(platform_config)
    if asked:
        ours["resources"] = {**asked, **ours.get("resources", {})}


def _executor_class(node: base_node.BaseNode) -> type:
    spec = node.executor_spec
    assert isinstance(spec, executor_spec.ExecutorClassSpec)  # anything else has been refused before
    return spec.executor_class


def _is_example_gen(node: base_node.BaseNode) -> bool:
    return isinstance(node.driver_class, type) and issubclass(node.driver_class, example_gen_driver.Driver)
