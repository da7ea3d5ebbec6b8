"""What Kubeflow's API server and its Argo compiler check of a submitted pipeline, done before submitting it.

Written from the behaviour of Kubeflow Pipelines 2.17 (template, name and parameter validation, task graph, executors),
so that a mistake is found here, with a name, and not in the server's log.
"""

import re
from typing import Any

import yaml
from google.protobuf import json_format
from kfp.kubernetes import kubernetes_executor_config_pb2 as kubernetes_pb
from kfp.pipeline_spec import pipeline_spec_pb2

from kubeflow.errors import CompileError

_SERVER_PIPELINE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_ARGO_NAME = re.compile(r"[a-zA-Z0-9][-a-zA-Z0-9]{0,127}")
_EXIT_STRATEGY = pipeline_spec_pb2.PipelineTaskSpec.TriggerPolicy.ALL_UPSTREAM_TASKS_COMPLETED
_PARAMETER_TYPES = {
    pipeline_spec_pb2.ParameterType.NUMBER_DOUBLE: ("a number", (int, float)),
    pipeline_spec_pb2.ParameterType.NUMBER_INTEGER: ("a whole number", (int, float)),
    pipeline_spec_pb2.ParameterType.STRING: ("text", (str,)),
    pipeline_spec_pb2.ParameterType.BOOLEAN: ("true or false", (bool,)),
    pipeline_spec_pb2.ParameterType.LIST: ("a list", (list,)),
    pipeline_spec_pb2.ParameterType.STRUCT: ("a mapping", (dict,)),
}


def check_template(text: str) -> pipeline_spec_pb2.PipelineSpec:
    """Parses and checks the YAML as the API server would on upload and on creating a run.

    Raises:
      CompileError: saying what the server would reject.
    """
    spec, platform = _documents(text)
    if spec.schema_version != "2.1.0":
        raise CompileError(f"schema version {spec.schema_version!r}: Kubeflow takes 2.1.0 and nothing else")
    if not _SERVER_PIPELINE_NAME.fullmatch(spec.pipeline_info.name):
        raise CompileError(f"pipeline name {spec.pipeline_info.name!r} is not one that the API server takes")
    deployment = pipeline_spec_pb2.PipelineDeploymentConfig()
    json_format.ParseDict(json_format.MessageToDict(spec.deployment_spec), deployment, ignore_unknown_fields=True)
    _check_component("root", spec.root, spec, deployment)
    for name, component in spec.components.items():
        _check_component(name, component, spec, deployment)
    if platform is not None:
        _check_platform(platform, deployment)
    return spec


def _documents(text: str) -> tuple[pipeline_spec_pb2.PipelineSpec, dict[str, Any] | None]:
    spec, platform = None, None
    for document in yaml.safe_load_all(text):
        if not isinstance(document, dict):
            continue
        if "pipelineInfo" in document or "root" in document:
            if spec is not None:
                raise CompileError("the YAML holds two pipelines; the API server takes one")
            try:
                spec = json_format.ParseDict(document, pipeline_spec_pb2.PipelineSpec())
            except json_format.ParseError as error:
                raise CompileError(f"the API server could not read the pipeline: {error}") from None
        elif "platforms" in document:
            if platform is not None:
                raise CompileError("the YAML holds two platform documents; the API server takes one")
            platform = document
    if spec is None or not spec.HasField("root"):
        raise CompileError("the YAML holds no pipeline: the API server looks for pipelineInfo and root at its top")
    return spec, platform


def _check_component(name: str, component: Any, spec: Any, deployment: Any) -> None:
    kind = component.WhichOneof("implementation")
    if kind == "dag":
        _check_dag(name, component, spec, deployment)
    elif kind == "executor_label":
        _check_executor(name, component.executor_label, deployment)
    else:
        raise CompileError(f"{name}: a component needs a dag or an executor")


def _check_executor(name: str, label: str, deployment: Any) -> None:
    if label not in deployment.executors:
        raise CompileError(f"{name}: there is no executor {label!r}")
    kind = deployment.executors[label].WhichOneof("spec")
    if kind not in ("container", "importer"):
        raise CompileError(
            f"{name}: executor {label!r} is a {kind}; open-source Kubeflow runs containers and importers"
        )
    if kind == "container":
        container = deployment.executors[label].container
        if not container.image or not (container.command or container.args):
            raise CompileError(f"{name}: executor {label!r} needs an image and a command")
        if container.HasField("lifecycle"):
            raise CompileError(f"{name}: executor {label!r} has a lifecycle hook, which Kubeflow ignores")


def _check_dag(name: str, component: Any, spec: Any, deployment: Any) -> None:
    tasks = component.dag.tasks
    if all(task.trigger_policy.strategy == _EXIT_STRATEGY for task in tasks.values()):
        raise CompileError(f"{name}: needs at least one task that is not an exit task")
    for task_name in sorted(tasks):
        task, where = tasks[task_name], f"{name}/{task_name}"
        if not _ARGO_NAME.fullmatch(task_name) or task_name.endswith("-driver"):
            raise CompileError(f"{where}: Argo takes letters, digits and dashes, not ending in -driver")
        if task.task_info.name != task_name:
            raise CompileError(
                f"{where}: taskInfo.name is {task.task_info.name!r}; Kubeflow before 2.14 finds tasks by it, not by key"
            )
        if task.component_ref.name not in spec.components:
            raise CompileError(f"{where}: there is no component {task.component_ref.name!r}")
    # Only now, when every component is known to be there: looking one up in a protobuf map would add it.
    for task_name in sorted(tasks):
        task, where = tasks[task_name], f"{name}/{task_name}"
        callee = spec.components[task.component_ref.name]
        if task.WhichOneof("iterator") is not None and task.HasField("artifact_iterator"):
            raise CompileError(f"{where}: Kubeflow has not implemented loops over artifacts")
        _check_task_inputs(where, task, callee, component, tasks, spec)
        for dependency in task.dependent_tasks:
            if dependency not in tasks:
                raise CompileError(f"{where}: depends on {dependency!r}, which is no task beside it")
        label = callee.executor_label
        if label and task.trigger_policy.condition and deployment.executors[label].WhichOneof("spec") == "importer":
            raise CompileError(f"{where}: Kubeflow supports no condition on an importer")
    _check_acyclic(name, tasks)


def _check_task_inputs(where: str, task: Any, callee: Any, owner: Any, tasks: Any, spec: Any) -> None:
    for key, source in task.inputs.parameters.items():
        if key not in callee.input_definitions.parameters:
            raise CompileError(f"{where}: its component has no parameter {key!r}")
        kind = source.WhichOneof("kind")
        if kind == "component_input_parameter":
            if source.component_input_parameter not in owner.input_definitions.parameters:
                raise CompileError(
                    f"{where}: {key} comes from {source.component_input_parameter!r}, which is not declared"
                )
        elif kind == "task_output_parameter":
            output = source.task_output_parameter
            _check_producer(where, key, output.producer_task, output.output_parameter_key, "parameters", tasks, spec)
        elif kind == "task_final_status":
            if not task.dependent_tasks:
                raise CompileError(f"{where}: a final status needs a task that it depends on")
        elif kind != "runtime_value" or source.runtime_value.WhichOneof("value") != "constant":
            raise CompileError(f"{where}: {key} comes from a {kind}, which Kubeflow's driver has not implemented")
    for key, source in task.inputs.artifacts.items():
        if key not in callee.input_definitions.artifacts:
            raise CompileError(f"{where}: its component has no input {key!r}")
        artifact = source.task_output_artifact
        if source.WhichOneof("kind") == "task_output_artifact":
            _check_producer(where, key, artifact.producer_task, artifact.output_artifact_key, "artifacts", tasks, spec)
    for key, declared in callee.input_definitions.parameters.items():
        if key not in task.inputs.parameters and not declared.is_optional and not declared.HasField("default_value"):
            raise CompileError(f"{where}: parameter {key!r} gets no value and has no default")
    for key in callee.input_definitions.artifacts:
        if key not in task.inputs.artifacts and not callee.input_definitions.artifacts[key].is_optional:
            raise CompileError(f"{where}: input {key!r} gets no artifact")


def _check_producer(where: str, key: str, producer: str, output: str, kind: str, tasks: Any, spec: Any) -> None:
    if producer not in tasks:
        raise CompileError(f"{where}: {key} comes from {producer!r}, which is no task beside it")
    component = spec.components[tasks[producer].component_ref.name]
    if output not in getattr(component.output_definitions, kind):
        raise CompileError(f"{where}: {key} comes from {producer}'s {output!r}, which it does not declare")


def _check_acyclic(name: str, tasks: Any) -> None:
    waiting = {task_name: set(task.dependent_tasks) for task_name, task in tasks.items()}
    for task_name, task in tasks.items():
        for source in task.inputs.parameters.values():
            waiting[task_name].add(source.task_output_parameter.producer_task)
        for source in task.inputs.artifacts.values():
            waiting[task_name].add(source.task_output_artifact.producer_task)
        waiting[task_name].discard("")
    while waiting:
        ready = [task_name for task_name, dependencies in waiting.items() if not dependencies & waiting.keys()]
        if not ready:
            raise CompileError(f"{name}: these tasks wait for each other: {', '.join(sorted(waiting))}")
        for task_name in ready:
            del waiting[task_name]


def _check_platform(platform: dict[str, Any], deployment: Any) -> None:
    executors = platform["platforms"].get("kubernetes", {}).get("deploymentSpec", {}).get("executors", {})
    for label, values in executors.items():
        if label not in deployment.executors:
            raise CompileError(f"platform document: there is no executor {label!r}")
        try:
            json_format.ParseDict(values, kubernetes_pb.KubernetesExecutorConfig())
        except json_format.ParseError as error:
            raise CompileError(f"platform document, {label}: {error}") from None


def check_parameters(pipeline_spec: dict[str, Any], values: dict[str, Any]) -> None:
    """Checks the parameters of a run as the API server does.

    Raises:
      CompileError: for a parameter that is missing, unknown, or of another type.
    """
    spec = json_format.ParseDict(pipeline_spec, pipeline_spec_pb2.PipelineSpec())
    declared = spec.root.input_definitions.parameters
    unknown = sorted(values.keys() - declared.keys())
    if unknown:
        known = ", ".join(sorted(declared)) or "none"
        raise CompileError(f"the pipeline has no parameter {unknown[0]!r}; it has {known}")
    for name, parameter in declared.items():
        if name not in values:
            if not parameter.is_optional and not parameter.HasField("default_value"):
                raise CompileError(f"parameter {name!r} has no default: give it with --param {name}=VALUE")
            continue
        _check_type(name, parameter.parameter_type, values[name])


def check_defaults(parameters: dict[str, dict[str, Any]]) -> None:
    """Checks that each default of the pipeline's parameters, as the YAML declares them, is of the declared type.

    Raises:
      CompileError: naming the parameter and its type.
    """
    for name, parameter in parameters.items():
        if "defaultValue" in parameter:
            kind = pipeline_spec_pb2.ParameterType.ParameterTypeEnum.Value(parameter["parameterType"])
            _check_type(name, kind, parameter["defaultValue"])


def _check_type(name: str, kind: int, value: Any) -> None:
    expected, types = _PARAMETER_TYPES.get(kind, ("of a known type", ()))
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise CompileError(f"parameter {name!r} must be {expected}, found {value!r}")
