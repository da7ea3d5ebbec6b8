"""Compiles a TFX pipeline into YAML that open-source Kubeflow Pipelines 2.x accepts and runs."""

import dataclasses
import hashlib
from typing import Any

import yaml
from tfx.dsl.components.base import base_node
from tfx.orchestration import pipeline as tfx_pipeline

from kubeflow import api_checks, ir, names, outcome, platform_spec, rewriting, size, unsupported
from kubeflow.config import KubeflowConfig
from kubeflow.errors import CompileError
from kubeflow.tasks import Task
from pipeline.errors import ConfigError

_SCHEMA_VERSION = "2.1.0"


class _Plain(yaml.SafeDumper):
    """Writes equal parts out each time: anchors and aliases are hard to read in a diff."""

    def ignore_aliases(self, data: Any) -> bool:
        """Always."""
        return True


@dataclasses.dataclass(frozen=True)
class CompiledPipeline:
    """What is sent to Kubeflow."""

    name: str
    pipeline_spec: dict[str, Any]
    platform_spec: dict[str, Any]

    def to_yaml(self) -> str:
        """Both documents; equal pipelines give equal bytes."""
        documents = [self.pipeline_spec, self.platform_spec]
        return yaml.dump_all(documents, Dumper=_Plain, sort_keys=True, width=1_000_000, allow_unicode=True)

    @property
    def digest(self) -> str:
        """SHA-256 of the YAML."""
        return hashlib.sha256(self.to_yaml().encode()).hexdigest()

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the pipeline with their defaults; None where a run must give the value."""
        declared = self.pipeline_spec["root"].get("inputDefinitions", {}).get("parameters", {})
        return {name: parameter.get("defaultValue") for name, parameter in declared.items()}


def compile_pipeline(pipeline: tfx_pipeline.Pipeline, config: KubeflowConfig) -> CompiledPipeline:
    """Rewrites TFX's own representation of `pipeline`, construct by construct.

    Raises:
      CompileError: for a construct that Kubeflow cannot do, a size that it does not take, or a spec that its API server
        would reject.
      ConfigError: for a step in `config` that the pipeline does not have.
    """
    name = config.name or pipeline.pipeline_info.pipeline_name
    names.check_pipeline_name(name)
    unsupported.check(pipeline)
    spec = ir.from_tfx(pipeline)
    nodes = {node.id: node for node in pipeline.components}
    _check_steps(config, nodes)

    tasks, parameters = rewriting.rewrite(spec, nodes, config, name)
    components = {f"comp-{task.name}": task.component() for task in tasks}
    root: dict[str, Any] = {"dag": {"tasks": {task.name: task.task() for task in tasks}}}
    root["inputDefinitions"] = {"parameters": _with_overrides(parameters, config)}
    executors = {f"exec-{task.name}": task.executor for task in tasks}
    if config.outcome.wanted:
        root = outcome.wrap(root, components, executors, config)
    pipeline_spec = {
        "pipelineInfo": {"name": name},
        "schemaVersion": _SCHEMA_VERSION,
        "sdkVersion": spec["sdkVersion"],
        "root": root,
        "components": components,
        "deploymentSpec": {"executors": executors},
    }
    compiled = CompiledPipeline(name, pipeline_spec, platform_spec.document(_platform(tasks, executors, config)))
    size.check(compiled.pipeline_spec, compiled.platform_spec)
    api_checks.check_template(compiled.to_yaml())
    return compiled


def _check_steps(config: KubeflowConfig, nodes: dict[str, base_node.BaseNode]) -> None:
    for step in config.steps:
        if step not in nodes:
            raise ConfigError(f"steps: the pipeline has no step {step!r}; it has {', '.join(nodes)}")


def _with_overrides(parameters: dict[str, dict], config: KubeflowConfig) -> dict[str, dict]:
    result = {name: dict(parameter) for name, parameter in parameters.items()}
    for name, value in config.parameters.items():
        if name not in result:
            raise ConfigError(
                f"parameters: the pipeline has no parameter {name!r}; it has {', '.join(result) or 'none'}"
            )
        result[name]["defaultValue"] = value
    try:
        api_checks.check_defaults(result)
    except CompileError as error:
        raise ConfigError(f"parameters: {error}") from None
    return result


def _platform(tasks: list[Task], executors: dict[str, dict], config: KubeflowConfig) -> dict[str, dict]:
    steps = {f"exec-{task.name}": task.step for task in tasks}
    result = {}
    for label, executor in executors.items():
        if "container" in executor:  # an importer's pod is Kubeflow's own
            result[label] = platform_spec.executor_config(steps.get(label, outcome.step(config)), config)
    return result


__all__ = ["CompileError", "CompiledPipeline", "compile_pipeline"]
