"""Rewrites the tasks of TFX's representation into tasks that open-source Kubeflow runs, one construct at a time."""

from typing import Any

from tfx.components.example_gen import driver as example_gen_driver
from tfx.components.example_gen import utils as example_gen_utils
from tfx.dsl.component.experimental import executor_specs
from tfx.dsl.components.base import base_driver, base_node
from tfx.dsl.components.common import importer, resolver
from tfx.orchestration import data_types
from tfx.types import channel, standard_artifacts, standard_component_specs

from components.model_registry.component import ModelRegistrar
from kubeflow import artifact_types, conditions, names, plan, portable, tasks
from kubeflow.config import KubeflowConfig, StepConfig
from kubeflow.errors import CompileError

_PROBE_SUFFIX = "-probe"
_DEFAULT_RETRIES = 1
_DEFAULT_BACKOFF_SECONDS = 30
_JUDGES = ("DataVerdict",)
_WITH_PAGE = (
    "ExampleStatistics",
    "ExampleAnomalies",
    "ModelEvaluation",
    "DataVerdict",
    "IngestionReport",
)


def rewrite(
    spec: dict[str, Any], nodes: dict[str, base_node.BaseNode], config: KubeflowConfig, name: str
) -> tuple[list[tasks.Task], dict[str, dict]]:
    """All tasks, and the parameters of the pipeline by name.

    Args:
      spec: the PipelineSpec that TFX made, in JSON form.
      nodes: TFX nodes by id.
      config: the cluster's side.
      name: the pipeline's name on the cluster.
    """
    rewriter = _Rewriter(spec, nodes, config, name)
    for node in nodes.values():
        rewriter.add(node)
    return rewriter.tasks, rewriter.parameters


class _Rewriter:
    def __init__(self, spec: dict[str, Any], nodes: dict[str, base_node.BaseNode], config: KubeflowConfig, name: str):
        self._spec, self._nodes, self._config, self._name = spec, nodes, config, name
        self._ir_tasks = spec["root"]["dag"]["tasks"]
        self._task_names = names.task_names(list(nodes))
        self._carried = self._condition_outputs()
        self.tasks: list[tasks.Task] = []
        self.parameters: dict[str, dict] = {}

    def add(self, node: base_node.BaseNode) -> None:
        """Adds the task or tasks of `node`."""
        if isinstance(node, resolver.Resolver):
            self._add_resolver(node)
        elif isinstance(node, importer.Importer):
            self.tasks.append(self._importer(node))
        elif isinstance(node.executor_spec, executor_specs.TemplatedExecutorContainerSpec):
            self.tasks.append(self._container(node))
        else:
            self._add_component(node)

    # -- ordinary components ---------------------------------------------------------------------------------------

    def _add_component(self, node: base_node.BaseNode) -> None:
        task, exec_types = self._task_with_ports(node)
        container = self._spec["deploymentSpec"]["executors"][self._executor_label(node.id)]["container"]
        values: dict[str, Any] = {
            "step": node.id,
            "executor": f"{node.executor_spec.executor_class.__module__}.{node.executor_spec.executor_class.__qualname__}",
            "inputs": {port: artifact_types.class_path(source.type) for port, source in node.inputs.items()},
            "outputs": {port: artifact_types.class_path(source.type) for port, source in node.outputs.items()},
            "exec_properties": exec_types,
            "beam_args": self._beam_args(container),
            "resolved": self._resolved_inputs(task, node),
        }
        values["conditions"] = self._declare_condition_outputs(task, node)
        values["values"] = sorted(task.output_parameters.keys() & node.outputs.keys())
        values["page"] = self._declare_page(task, node)
        values["publishes"] = self._declare_publication(task, node)
        self._set_condition(task, node)
        if node.driver_class is not base_driver.BaseDriver:
            values["probed"] = True
            self._add_probe(task, node, exec_types)
        task.executor = tasks.entrypoint("kubeflow.entrypoint", plan.StepPlan(**values), self._step(node), self._config)
        _keep_platform_config(task.executor["container"], container, node)
        self.tasks.append(task)

    def _task_with_ports(self, node: base_node.BaseNode) -> tuple[tasks.Task, dict[str, str]]:
        """A task with the node's artifacts and exec properties, and the Python types of the latter."""
        ir_task = self._ir_tasks[node.id]
        component = self._spec["components"][ir_task["componentRef"]["name"]]
        task = self._bare_task(node)
        for port, wanted in node.inputs.items():
            source = ir_task["inputs"]["artifacts"][port]["taskOutputArtifact"]
            producer = self._producer(source["producerTask"])
            task.artifact_from_task(port, producer, source["outputArtifactKey"], artifact_types.schema(wanted.type))
        for port, made in node.outputs.items():
            task.outputs[port] = {"artifactType": artifact_types.schema(made.type)}
        for key, value in component.get("outputDefinitions", {}).get("parameters", {}).items():
            task.output_parameters[key] = {"parameterType": value["parameterType"]}
        declared = component.get("inputDefinitions", {}).get("parameters", {})
        for key, source in ir_task.get("inputs", {}).get("parameters", {}).items():
            self._exec_property(task, node, key, source, declared[key]["parameterType"])
        types = {key: tasks.PYTHON_TYPES[value["parameterType"]] for key, value in declared.items()}
        for dependency in ir_task.get("dependentTasks", []):
            task.dependencies.add(self._producer(dependency))
        return task, types

    def _exec_property(
        self, task: tasks.Task, node: base_node.BaseNode, key: str, source: dict, parameter_type: str
    ) -> None:
        if "componentInputParameter" in source:
            name = source["componentInputParameter"]
            value = node.exec_properties[key]
            default = value.default if isinstance(value, data_types.RuntimeParameter) else None
            self._declare_parameter(name, parameter_type, default)
            task.parameter_from_root(key, name, parameter_type)
        elif "taskOutputParameter" in source:
            # TFX names the producer `X_task`, which is the name of no task
            producer = source["taskOutputParameter"]["producerTask"].removesuffix("_task")
            output = source["taskOutputParameter"]["outputParameterKey"]
            task.parameter_from_task(key, self._producer(producer), output, parameter_type)
        else:
            constant = source["runtimeValue"]["constant"]
            if isinstance(constant, str):
                constant = portable.to_image(constant, node.id, key, self._shared_folders(node))
            if key == "registry" and isinstance(node, ModelRegistrar):
                self._declare_registry()
                task.parameter_from_root(key, plan.REGISTRY_PARAMETER, parameter_type)
                return
            if key == standard_component_specs.INPUT_BASE_KEY and _is_example_gen(node):
                name = self._data_parameter(task)
                self._declare_parameter(name, parameter_type, constant)
                task.parameter_from_root(key, name, parameter_type)
                return
            task.parameters[key] = {"parameterType": parameter_type}
            task.parameter_sources[key] = {"runtimeValue": {"constant": constant}}

    def _data_parameter(self, task: tasks.Task) -> str:
        """`data` for the first ExampleGen, so that a run can be pointed at other files; `<step>-data` for others."""
        return "data" if "data" not in self.parameters else f"{task.name}-data"

    def _declare_parameter(self, name: str, parameter_type: str, default: Any) -> None:
        declared: dict[str, Any] = {"parameterType": parameter_type}
        if default is not None:
            declared["defaultValue"] = default
        if self.parameters.setdefault(name, declared) != declared:
            raise CompileError(f"parameter {name!r} is declared twice, with different types or defaults")

    def _declare_page(self, task: tasks.Task, node: base_node.BaseNode) -> bool:
        shown = any(output.type.__name__ in _WITH_PAGE for output in node.outputs.values())
        if shown:
            html = {"schemaTitle": "system.HTML", "schemaVersion": "0.0.1"}
            task.outputs[plan.PAGE_PORT] = {"artifactType": html}
        return shown

    # -- data probe ------------------------------------------------------------------------------------------------

    def _add_probe(self, task: tasks.Task, node: base_node.BaseNode, exec_types: dict[str, str]) -> None:
        """A step without cache that does what the component's driver does: find span, version and fingerprint.

        They reach the component as parameters, so that its cache key follows the data.
        """
        probe = self._probe_task(node)
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
            step=node.id,
            driver=f"{node.driver_class.__module__}.{node.driver_class.__qualname__}",
            exec_properties=exec_types,
        )
        probe.executor = tasks.entrypoint("kubeflow.data_probe", probe_plan, self._step(node), self._config)
        self.tasks.append(probe)
        task.parameter_from_task(plan.RESOLVED_EXEC_PROPERTIES, probe.name, plan.RESOLVED_EXEC_PROPERTIES, tasks.STRING)

    # -- conditions ------------------------------------------------------------------------------------------------

    def _condition_outputs(self) -> dict[str, dict[str, plan.ConditionOutput]]:
        """For each node, the output parameters that other nodes' conditions read."""
        found: dict[str, dict[str, plan.ConditionOutput]] = {}
        for task in self._ir_tasks.values():
            expression = task.get("triggerPolicy", {}).get("condition", "")
            for port, key in conditions.references(expression):
                producer, output = self._source(task, port)
                name = conditions.output_parameter(output, key)
                numeric = conditions.is_numeric(expression, port, key)
                carried = conditions.carried(output, key, numeric)
                if found.setdefault(producer, {}).setdefault(name, carried) != carried:
                    raise CompileError(f"step {producer!r}: {output}.{key} is compared with numbers and with text")
        return found

    @staticmethod
    def _source(ir_task: dict[str, Any], port: str) -> tuple[str, str]:
        source = ir_task["inputs"]["artifacts"][port]["taskOutputArtifact"]
        return source["producerTask"], source["outputArtifactKey"]

    def _declare_condition_outputs(self, task: tasks.Task, node: base_node.BaseNode) -> dict[str, plan.ConditionOutput]:
        outputs = self._carried.get(node.id, {})
        for name, carried in outputs.items():
            task.output_parameters[name] = {"parameterType": tasks.DOUBLE if carried.numeric else tasks.STRING}
        return outputs

    def _set_condition(self, task: tasks.Task, node: base_node.BaseNode) -> None:
        ir_task = self._ir_tasks[node.id]
        expression = ir_task.get("triggerPolicy", {}).get("condition", "")
        parameter_names: dict[tuple[str, str], str] = {}
        for port, key in conditions.references(expression):
            producer, output = self._source(ir_task, port)
            carried = conditions.output_parameter(output, key)
            name = parameter_names[port, key] = f"condition--{self._task_names[producer]}--{carried}"
            numeric = self._carried[producer][carried].numeric
            task.parameter_from_task(
                name, self._task_names[producer], carried, tasks.DOUBLE if numeric else tasks.STRING
            )
        task.condition = conditions.rewritten(expression, parameter_names)

    # -- the latest blessed model ----------------------------------------------------------------------------------

    def _add_resolver(self, node: resolver.Resolver) -> None:
        """Two steps: a probe without cache that finds the version, and one, cached by it, that copies the model."""
        self._declare_registry()
        probe = self._probe_task(node)
        probe.parameter_from_root(plan.REGISTRY_PARAMETER, plan.REGISTRY_PARAMETER, tasks.STRING)
        probe.output_parameters = {key: {"parameterType": tasks.STRING} for key in ("resolved", "version")}
        arguments = ["probe", "--executor-input", "{{$}}", "--name", self._model_name]
        candidate = self._candidate(node)
        if candidate is not None:
            producer = self._task_names[candidate.producer_component_id]
            schema = artifact_types.schema(candidate.type)
            probe.artifact_from_task("candidate", producer, candidate.output_key, schema)
        probe.executor = tasks.container("kubeflow.blessed_model", arguments, self._step(node), self._config)

        copy = tasks.Task(
            name=self._task_names[node.id],
            node_id=node.id,
            step=self._step(node),
            retry=self._retry(node),
            cache=self._cached(node, True),
        )
        copy.parameter_from_root(plan.REGISTRY_PARAMETER, plan.REGISTRY_PARAMETER, tasks.STRING)
        copy.parameter_from_task("version", probe.name, "version", tasks.STRING)
        ports = [(source.type, port) for port, source in node.outputs.items() if port != "candidate"]
        for artifact_type, port in ports:
            copy.outputs[port] = {"artifactType": artifact_types.schema(artifact_type)}
        arguments = ["copy", "--executor-input", "{{$}}", "--name", self._model_name]
        for artifact_type, port in ports:
            flag = "--model-port" if artifact_type is standard_artifacts.Model else "--blessing-port"
            arguments += [flag, port]
        copy.executor = tasks.container("kubeflow.blessed_model", arguments, self._step(node), self._config)
        self.tasks += [probe, copy]

    @staticmethod
    def _candidate(node: resolver.Resolver) -> channel.BaseChannel | None:
        """The model that the resolved one will be compared with, where the strategy wants to know."""
        return node.raw_inputs.get("candidate")

    def _resolved_inputs(self, task: tasks.Task, node: base_node.BaseNode) -> dict[str, str]:
        """Declares, for each input that a resolver makes, the parameter that says whether there is anything in it."""
        resolved = {}
        for port, source in node.inputs.items():
            producer = source.producer_component_id
            if isinstance(self._nodes.get(producer), resolver.Resolver):
                name = resolved[port] = f"{port}--resolved"
                task.parameter_from_task(name, self._task_names[producer] + _PROBE_SUFFIX, "resolved", tasks.STRING)
        return resolved

    def _declare_publication(self, task: tasks.Task, node: base_node.BaseNode) -> dict[str, str]:
        """Lets the step that blesses a model register it, unless the pipeline has a ModelRegistrar that does."""
        if not any(isinstance(other, resolver.Resolver) for other in self._nodes.values()) or self._registrar:
            return {}
        models = [port for port in node.inputs if port == standard_component_specs.MODEL_KEY]
        blessings = [port for port, output in node.outputs.items() if output.type is standard_artifacts.ModelBlessing]
        if not models or not blessings:
            return {}
        self._declare_registry()
        task.parameter_from_root(plan.REGISTRY_PARAMETER, plan.REGISTRY_PARAMETER, tasks.STRING)
        return {"model": models[0], "blessing": blessings[0], "name": self._model_name}

    @property
    def _registrar(self) -> ModelRegistrar | None:
        return next((node for node in self._nodes.values() if isinstance(node, ModelRegistrar)), None)

    @property
    def _model_name(self) -> str:
        """The model's name in the registry."""
        return self._registrar.exec_properties["name"] if self._registrar else self._name

    def _declare_registry(self) -> None:
        default = self._config.model_registry or f"{self._config.storage}/registry/{self._name}"
        if self._registrar and not self._config.model_registry:
            default = self._registrar.exec_properties["registry"]
        self._declare_parameter(plan.REGISTRY_PARAMETER, tasks.STRING, default)

    # -- importers and container components ------------------------------------------------------------------------

    def _importer(self, node: base_node.BaseNode) -> tasks.Task:
        """Kubeflow's own importer; the URI and the type are rewritten, the rest is TFX's."""
        task = self._bare_task(node)
        task.retry = None  # Kubeflow's importer pods take no retry policy
        ir_executor = self._spec["deploymentSpec"]["executors"][self._executor_label(node.id)]["importer"]
        output = next(iter(node.outputs))
        artifact_type = node.outputs[output].type
        task.outputs[output] = {"artifactType": artifact_types.schema(artifact_type)}
        uri = node.exec_properties[importer.SOURCE_URI_KEY]
        if isinstance(uri, data_types.RuntimeParameter):
            self._declare_parameter(uri.name, tasks.STRING, uri.default)
            task.parameter_from_root("uri", uri.name, tasks.STRING)
        else:
            task.parameters["uri"] = {"parameterType": tasks.STRING}
            task.parameter_sources["uri"] = {"runtimeValue": {"constant": uri}}
        if isinstance(uri, str) and "://" not in uri:
            raise CompileError(
                f"step {node.id!r}: Kubeflow imports only gs://, s3:// and minio:// artifacts, found {uri!r}. "
                "Files of the image are read by components such as ImportSchemaGen."
            )
        task.executor = {
            "importer": {
                "artifactUri": {"runtimeParameter": "uri"},
                "typeSchema": artifact_types.schema(artifact_type),
                "reimport": ir_executor.get("reimport", False),
                "metadata": ir_executor.get("metadata", {}),
            }
        }
        return task

    def _container(self, node: base_node.BaseNode) -> tasks.Task:
        """Somebody's own container: TFX gives it URIs, which only the launcher can read, so it gets paths."""
        task, _ = self._task_with_ports(node)
        self._set_condition(task, node)
        container = self._spec["deploymentSpec"]["executors"][self._executor_label(node.id)]["container"]
        step = self._step(node)
        command = [argument.replace("'].uri}}", "'].path}}") for argument in container["command"]]
        spec: dict[str, Any] = {"image": container["image"], "command": command[:1], "args": command[1:]}
        for key, value in (
            ("env", [{"name": name, "value": value} for name, value in sorted(step.env.items())]),
            ("resources", tasks.resources(step)),
        ):
            if value:
                spec[key] = value
        task.executor = {"container": spec}
        _keep_platform_config(spec, container, node)
        return task

    # -- what all have in common -----------------------------------------------------------------------------------

    def _bare_task(self, node: base_node.BaseNode) -> tasks.Task:
        ir_task = self._ir_tasks[node.id]
        enabled = ir_task.get("cachingOptions", {}).get("enableCache", False)
        return tasks.Task(
            name=self._task_names[node.id],
            node_id=node.id,
            step=self._step(node),
            cache=self._cached(node, enabled),
            retry=self._retry(node),
        )

    def _probe_task(self, node: base_node.BaseNode) -> tasks.Task:
        """A task without cache that looks at what may have changed outside the pipeline."""
        name = self._task_names[node.id] + _PROBE_SUFFIX
        return tasks.Task(name=name, node_id=f"{node.id} (probe)", step=self._step(node), retry=self._retry(node))

    def _cached(self, node: base_node.BaseNode, enabled: bool) -> bool:
        chosen = self._config.step(node.id).cache
        return enabled if chosen is None else chosen

    def _retry(self, node: base_node.BaseNode) -> dict[str, Any] | None:
        step = self._step(node)
        judges = any(output.type.__name__ in _JUDGES for output in node.outputs.values())
        default = 0 if judges else _DEFAULT_RETRIES
        backoff = _DEFAULT_BACKOFF_SECONDS if step.retry_backoff_seconds is None else step.retry_backoff_seconds
        return tasks.retry_policy(default if step.retries is None else step.retries, backoff)

    def _step(self, node: base_node.BaseNode) -> StepConfig:
        """The cluster's configuration of the step, over what the node's own execution options ask for."""
        options = node.node_execution_options
        own = StepConfig(
            retries=options.max_execution_retries if options else None,
            timeout_seconds=(options.execution_timeout_sec or None) if options else None,
        )
        return self._config.steps.get(node.id, StepConfig()).over(own).over(self._config.default)

    def _shared_folders(self, node: base_node.BaseNode) -> tuple[str, ...]:
        volumes = tuple(volume.path for volume in self._step(node).volumes)
        return tuple(dict.fromkeys((self._config.storage, *volumes)))

    def _producer(self, ir_name: str) -> str:
        """Task name of a producer as TFX's representation names it."""
        return self._task_names[ir_name]

    def _executor_label(self, node_id: str) -> str:
        return self._spec["components"][self._ir_tasks[node_id]["componentRef"]["name"]]["executorLabel"]

    @staticmethod
    def _beam_args(container: dict[str, Any]) -> list[str]:
        """Arguments after TFX's own three pairs."""
        return container["args"][6:]


def _is_example_gen(node: base_node.BaseNode) -> bool:
    return isinstance(node.driver_class, type) and issubclass(node.driver_class, example_gen_driver.Driver)


def _keep_platform_config(ours: dict[str, Any], theirs: dict[str, Any], node: base_node.BaseNode) -> None:
    """Keeps resources set with `with_platform_config`, which TFX itself forgets for ExampleGen; the config file wins."""
    asked = dict(theirs.get("resources", {}))
    if not asked and getattr(node, "platform_config", None) is not None:
        from google.protobuf import json_format

        asked = json_format.MessageToDict(node.platform_config)
    if asked:
        ours["resources"] = {**asked, **ours.get("resources", {})}
