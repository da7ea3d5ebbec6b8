"""A strict simulation of Kubeflow's driver: what becomes of a task's inputs before its container starts.

As read from Kubeflow Pipelines 2.17: parameters and artifacts resolved from the run and from upstream tasks, types
checked, conditions evaluated, output locations given out, the cache key computed, metadata as its store gives it back.
"""

import dataclasses
import hashlib
import itertools
import json
import threading
import uuid
from typing import Any

import kfp_conditions


class DriverError(Exception):
    """The driver pod would have failed."""


@dataclasses.dataclass
class Execution:
    """What the metadata store knows of a task that has ended."""

    state: str
    parameters: dict[str, Any] = dataclasses.field(default_factory=dict)
    artifacts: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)


class Store:
    """Artifacts and cache entries of all runs."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self.cache: dict[str, Execution] = {}

    def record(self, port: str, uri: str, type_schema: dict[str, str], metadata: dict[str, Any]) -> dict[str, Any]:
        """Stores an artifact and returns it as later drivers will see it.

        Numbers become doubles, lists and mappings are wrapped, and null is an error.
        """
        stored = {key: _stored(key, value) for key, value in metadata.items() if key != "_kfp_workspace"}
        stored.setdefault("display_name", port)
        stored.setdefault("store_session_info", '{"Provider":"minio"}')
        with self._lock:
            return {"name": str(next(self._ids)), "uri": uri, "metadata": stored, "schema": type_schema}


def _stored(key: str, value: Any) -> Any:
    if value is None:
        raise DriverError(f"metadata {key!r} is null: the metadata store has no such value")
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, list):
        return {"list": value}
    if isinstance(value, dict):
        return {"struct": value}
    return value


def resolve_parameters(
    task: dict[str, Any],
    component: dict[str, Any],
    dag_parameters: dict[str, Any],
    done: dict[str, Execution],
    run: dict,
) -> dict[str, Any]:
    """Input parameters of a task, checked against what its component declares."""
    declared = component.get("inputDefinitions", {}).get("parameters", {})
    values = {}
    for name, source in task.get("inputs", {}).get("parameters", {}).items():
        values[name] = _parameter(name, source, dag_parameters, done, run)
    for name, parameter in declared.items():
        if name not in values:
            if "defaultValue" not in parameter and not parameter.get("isOptional"):
                raise DriverError(f"parameter {name!r} has neither value nor default")
            continue
        values[name] = _checked(name, values[name], parameter["parameterType"])
    undeclared = values.keys() - declared.keys()
    if undeclared:
        raise DriverError(f"parameters that the component does not declare: {sorted(undeclared)}")
    return values


def _parameter(name: str, source: dict[str, Any], dag: dict[str, Any], done: dict[str, Execution], run: dict) -> Any:
    [(kind, value)] = source.items()
    if kind == "componentInputParameter":
        if value not in dag:
            raise DriverError(f"the parent has no input parameter {value!r}")
        return dag[value]
    if kind == "taskOutputParameter":
        producer = done.get(value["producerTask"])
        if producer is None or value["outputParameterKey"] not in producer.parameters:
            raise DriverError(f"{name}: {value['producerTask']} gave no {value['outputParameterKey']}")
        return producer.parameters[value["outputParameterKey"]]
    if kind == "taskFinalStatus":
        status = done[value["producerTask"]].state
        state = {"SUCCEEDED": "COMPLETE", "CACHED": "CACHED"}.get(status, "FAILED")
        return {"state": state, "pipelineTaskName": value["producerTask"], "error": {}}
    if kind == "runtimeValue":
        return {"{{$.pipeline_job_name}}": run["name"], "{{$.pipeline_job_uuid}}": run["id"]}.get(
            str(value["constant"]), value["constant"]
        )
    raise DriverError(f"{name}: a {kind} is not implemented")


def _checked(name: str, value: Any, kind: str) -> Any:
    if kind == "STRING":
        return value if isinstance(value, str) else _as_text(value)
    allowed = {
        "NUMBER_INTEGER": (int, float),
        "NUMBER_DOUBLE": (int, float),
        "BOOLEAN": bool,
        "LIST": list,
        "STRUCT": dict,
        "TASK_FINAL_STATUS": dict,
    }[kind]
    if not isinstance(value, allowed):  # type: ignore[arg-type]
        raise DriverError(f"input parameter {name!r} type mismatch: expect {kind}, got {value!r}")
    return value


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else json.dumps(value)


def resolve_artifacts(task: dict[str, Any], done: dict[str, Execution], with_titles: bool) -> dict[str, Any]:
    """Input artifacts of a task: without their types, unless `with_titles` (as after the removal of MLMD)."""
    found = {}
    for port, source in task.get("inputs", {}).get("artifacts", {}).items():
        wanted = source["taskOutputArtifact"]
        producer = done.get(wanted["producerTask"])
        if producer is None or wanted["outputArtifactKey"] not in producer.artifacts:
            raise DriverError(f"{port}: {wanted['producerTask']} made no {wanted['outputArtifactKey']}")
        artifact = producer.artifacts[wanted["outputArtifactKey"]]
        kind = artifact["schema"] if with_titles else {"instanceSchema": ""}
        sent = {"name": artifact["name"], "uri": artifact["uri"], "metadata": artifact["metadata"], "type": kind}
        found[port] = {"artifacts": [sent]}
    return found


def will_trigger(task: dict[str, Any], parameters: dict[str, Any]) -> bool:
    """Whether the task's condition holds."""
    condition = task.get("triggerPolicy", {}).get("condition", "")
    return not condition or kfp_conditions.evaluate(condition, parameters)


def provision_outputs(root: str, task_name: str, component: dict[str, Any], local: Any, scratch: str) -> dict[str, Any]:
    """Where the task's outputs go; `local` maps a URI to the container's path."""
    definitions = component.get("outputDefinitions", {})
    task_root = f"{root}/{task_name}/{uuid.uuid4()}"
    artifacts = {
        port: {
            "artifacts": [{"name": port, "uri": f"{task_root}/{port}", "type": value["artifactType"], "metadata": {}}]
        }
        for port, value in definitions.get("artifacts", {}).items()
    }
    log = {"schemaTitle": "system.Artifact"}
    artifacts["executor-logs"] = {
        "artifacts": [{"name": "executor-logs", "uri": f"{task_root}/executor-logs", "type": log, "metadata": {}}]
    }
    parameters = {
        name: {"outputFile": f"{scratch}/tmp/kfp/outputs/{name}"} for name in definitions.get("parameters", {})
    }
    return {"artifacts": artifacts, "parameters": parameters, "outputFile": f"{local(task_root)}/output_metadata.json"}


def cache_key(
    container: dict[str, Any], executor_input: dict[str, Any], component: dict[str, Any], claims: list
) -> str:
    """Kubeflow's fingerprint of a task: inputs by id, parameters, declared outputs, command, image and claims."""
    inputs = executor_input["inputs"]
    names = {port: [artifact["name"] for artifact in value["artifacts"]] for port, value in inputs["artifacts"].items()}
    key = {
        "inputs": names,
        "parameters": inputs["parameterValues"],
        "outputs": component.get("outputDefinitions", {}),
        "command": [*container["command"], *container["args"]],
        "image": container["image"],
        "claims": sorted(set(claims)),
    }
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
