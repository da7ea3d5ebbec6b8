"""The pieces that every step of a Kubeflow pipeline is made of, as dictionaries in the spec's JSON form."""

import dataclasses
from typing import Any

from kubeflow import kubernetes_rules
from kubeflow.config import KubeflowConfig, StepConfig
from kubeflow.plan import StepPlan

STRING, INTEGER, DOUBLE = "STRING", "NUMBER_INTEGER", "NUMBER_DOUBLE"
PYTHON_TYPES = {STRING: "str", INTEGER: "int", DOUBLE: "float"}
_MAX_BACKOFF_SECONDS = 3600


@dataclasses.dataclass
class Task:
    """One task with its component and executor, built port by port."""

    name: str
    """Task name; component and executor are named after it."""
    node_id: str
    """Id of the TFX node that it comes from."""
    inputs: dict[str, dict] = dataclasses.field(default_factory=dict)
    input_sources: dict[str, dict] = dataclasses.field(default_factory=dict)
    outputs: dict[str, dict] = dataclasses.field(default_factory=dict)
    parameters: dict[str, dict] = dataclasses.field(default_factory=dict)
    parameter_sources: dict[str, dict] = dataclasses.field(default_factory=dict)
    output_parameters: dict[str, dict] = dataclasses.field(default_factory=dict)
    dependencies: set[str] = dataclasses.field(default_factory=set)
    condition: str = ""
    carries_out: str = ""
    """Name of the task that judges data and whose verdict this one carries out."""
    cache: bool = False
    retry: dict[str, Any] | None = None
    step: StepConfig = dataclasses.field(default_factory=StepConfig)
    executor: dict[str, Any] = dataclasses.field(default_factory=dict)

    def parameter_from_root(self, name: str, root_name: str, parameter_type: str) -> None:
        """Declares an input parameter that takes its value from a parameter of the pipeline."""
        self.parameters[name] = {"parameterType": parameter_type}
        self.parameter_sources[name] = {"componentInputParameter": root_name}

    def parameter_from_task(self, name: str, producer: str, output: str, parameter_type: str) -> None:
        """Declares an input parameter that takes its value from another task's output parameter."""
        self.parameters[name] = {"parameterType": parameter_type}
        self.parameter_sources[name] = {"taskOutputParameter": {"producerTask": producer, "outputParameterKey": output}}
        self.dependencies.add(producer)

    def artifact_from_task(self, port: str, producer: str, output: str, artifact_type: dict) -> None:
        """Declares an input artifact that another task makes."""
        self.inputs[port] = {"artifactType": artifact_type}
        self.input_sources[port] = {"taskOutputArtifact": {"producerTask": producer, "outputArtifactKey": output}}
        self.dependencies.add(producer)

    def component(self) -> dict[str, Any]:
        """The component spec."""
        return _present(
            executorLabel=f"exec-{self.name}",
            inputDefinitions=_present(artifacts=self.inputs, parameters=self.parameters),
            outputDefinitions=_present(artifacts=self.outputs, parameters=self.output_parameters),
        )

    def task(self) -> dict[str, Any]:
        """The task spec."""
        return {
            "taskInfo": {"name": self.name},  # before 2.14 Kubeflow finds the producer of an input by this
            "componentRef": {"name": f"comp-{self.name}"},
            "cachingOptions": {"enableCache": True} if self.cache else {},
            **_present(
                inputs=_present(artifacts=self.input_sources, parameters=self.parameter_sources),
                dependentTasks=sorted(self.dependencies),
                triggerPolicy={"condition": self.condition} if self.condition else None,
                retryPolicy=self.retry,
            ),
        }


def container(module: str, arguments: list[str], step: StepConfig, config: KubeflowConfig) -> dict[str, Any]:
    """An executor that runs `python -m module arguments` in the step's image."""
    spec = {"image": step.image or config.image, "command": ["python", "-m", module], "args": arguments}
    add_pod_settings(spec, step)
    return {"container": spec}


def add_pod_settings(spec: dict[str, Any], step: StepConfig) -> None:
    """Adds environment variables and resources to a container, where the step has any."""
    environment = [{"name": name, "value": value} for name, value in sorted(step.env.items())]
    spec.update(_present(env=environment, resources=resources(step)))


def entrypoint(module: str, plan: StepPlan, step: StepConfig, config: KubeflowConfig) -> dict[str, Any]:
    """An executor that runs one of the package's own entry points on a plan and KFP's executor input."""
    return container(module, ["--plan", plan.to_json(), "--executor-input", "{{$}}"], step, config)


def resources(step: StepConfig) -> dict[str, Any]:
    """Requests, limits and accelerator: as text for today's backends and as numbers for those before 2.5."""
    values: dict[str, Any] = {}
    for field, text, number in (
        ("CpuRequest", step.cpu_request, kubernetes_rules.amount),
        ("CpuLimit", step.cpu_limit, kubernetes_rules.amount),
        ("MemoryRequest", step.memory_request, _gigabytes),
        ("MemoryLimit", step.memory_limit, _gigabytes),
    ):
        if text:
            values[f"resource{field}"] = text
            values[field[0].lower() + field[1:]] = number(text)
    if step.gpus:
        resource = step.gpu_resource or "nvidia.com/gpu"
        count = str(step.gpus)
        values["accelerator"] = {"type": resource, "count": count, "resourceType": resource, "resourceCount": count}
    return values


def retry_policy(retries: int, backoff_seconds: int) -> dict[str, Any] | None:
    """Exponential retries; all fields always, because Kubeflow shares one template among all tasks that have any."""
    if not retries:
        return None
    return {
        "maxRetryCount": retries,
        "backoffDuration": f"{backoff_seconds}s",
        "backoffFactor": 2.0,
        "backoffMaxDuration": f"{_MAX_BACKOFF_SECONDS}s",
    }


def _gigabytes(text: str) -> float:
    return kubernetes_rules.amount(text) / 1e9


def _present(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}
