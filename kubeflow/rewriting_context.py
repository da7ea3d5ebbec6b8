"""What all rewritten steps share: the pipeline, the cluster's configuration, names, and the pipeline's parameters."""

import dataclasses
from typing import Any

from tfx.dsl.components.base import base_node

from kubeflow import names, tasks
from kubeflow.config import KubeflowConfig, StepConfig
from kubeflow.errors import CompileError
from kubeflow.step_metrics import PIPELINE_VARIABLE

PROBE_SUFFIX = "-probe"
_DEFAULT_RETRIES = 1
_DEFAULT_BACKOFF_SECONDS = 30


class Context:
    """One pipeline on its way from TFX's representation to Kubeflow's."""

    def __init__(
        self, spec: dict[str, Any], nodes: dict[str, base_node.BaseNode], config: KubeflowConfig, name: str
    ) -> None:
        self.nodes, self.config, self.name = nodes, config, name
        self.task_names = names.task_names(list(nodes))
        self.parameters: dict[str, dict] = {}
        """Declared so far, by name."""
        self._components = spec["components"]
        self._executors = spec["deploymentSpec"]["executors"]
        self.ir_tasks: dict[str, dict[str, Any]] = spec["root"]["dag"]["tasks"]

    def ir_component(self, node_id: str) -> dict[str, Any]:
        """TFX's component spec of a node."""
        return self._components[self.ir_tasks[node_id]["componentRef"]["name"]]

    def ir_executor(self, node_id: str) -> dict[str, Any]:
        """TFX's executor of a node."""
        return self._executors[self.ir_component(node_id)["executorLabel"]]

    def source(self, node_id: str, port: str) -> tuple[str, str]:
        """Node and output port that feed an input port."""
        source = self.ir_tasks[node_id]["inputs"]["artifacts"][port]["taskOutputArtifact"]
        return source["producerTask"], source["outputArtifactKey"]

    def declare_parameter(self, name: str, parameter_type: str, default: Any) -> None:
        """Declares a parameter of the pipeline; None is no default."""
        declared: dict[str, Any] = {"parameterType": parameter_type}
        if default is not None:
            declared["defaultValue"] = default
        if self.parameters.setdefault(name, declared) != declared:
            raise CompileError(
                f"parameter {name!r} is declared twice, with different types or defaults; if it is a RuntimeParameter "
                "of yours, give it another name (`data` and `model_registry` are the compiler's)"
            )

    def task(self, node: base_node.BaseNode, cache: bool | None = None) -> tasks.Task:
        """The task of a node, without ports; cached as the node asks, unless the configuration says something else."""
        if cache is None:
            cache = self.ir_tasks[node.id].get("cachingOptions", {}).get("enableCache", False)
        chosen = self.config.step(node.id).cache
        return tasks.Task(
            name=self.task_names[node.id],
            node_id=node.id,
            step=self.step(node),
            cache=cache if chosen is None else chosen,
            retry=self._retry(node),
        )

    def probe(self, node: base_node.BaseNode) -> tasks.Task:
        """A task without cache that looks at what may have changed outside the pipeline."""
        name = self.task_names[node.id] + PROBE_SUFFIX
        return tasks.Task(name=name, node_id=f"{node.id} (probe)", step=self.step(node), retry=self._retry(node))

    def step(self, node: base_node.BaseNode) -> StepConfig:
        """The configuration of the step: its own, then the node's execution options, then what holds for all."""
        options = node.node_execution_options
        asked = StepConfig(
            retries=options.max_execution_retries if options else None,
            timeout_seconds=(options.execution_timeout_sec or None) if options else None,
        )
        step = self.config.steps.get(node.id, StepConfig()).over(asked).over(self.config.default)
        return dataclasses.replace(step, env={PIPELINE_VARIABLE: self.name, **step.env})

    def light_step(self) -> StepConfig:
        """The configuration of a step of ours that does next to nothing: what holds for all, without accelerators."""
        default = self.config.default
        return dataclasses.replace(default, gpus=None, env={PIPELINE_VARIABLE: self.name, **default.env})

    def shared_folders(self, node: base_node.BaseNode) -> tuple[str, ...]:
        """Folders that the step's pod sees and that are not its own."""
        volumes = tuple(volume.path for volume in self.step(node).volumes)
        return tuple(dict.fromkeys((self.config.storage, *volumes)))

    def _retry(self, node: base_node.BaseNode) -> dict[str, Any] | None:
        step = self.step(node)
        retries = _DEFAULT_RETRIES if step.retries is None else step.retries
        backoff = _DEFAULT_BACKOFF_SECONDS if step.retry_backoff_seconds is None else step.retry_backoff_seconds
        return tasks.retry_policy(retries, backoff)
