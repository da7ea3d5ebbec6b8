"""What the launcher tells a step (ExecutorInput) and what a step tells the launcher (ExecutorOutput), as JSON.

Read as plain JSON and not as a protocol buffer, so that a field that a newer Kubeflow adds does not stop a step.
"""

import dataclasses
import json
import math
import os
from typing import Any

from kubeflow import launcher_paths

_LAUNCHER_LOG = "executor-logs"
"""An output that newer launchers add to every step and write themselves."""


@dataclasses.dataclass
class RuntimeArtifact:
    """One artifact of a step."""

    name: str
    """Kubeflow's id of the artifact."""
    uri: str
    path: str
    """Where it is in this container."""
    metadata: dict[str, Any]


@dataclasses.dataclass
class ExecutorInput:
    """Inputs, and where the outputs go."""

    parameters: dict[str, Any]
    inputs: dict[str, list[RuntimeArtifact]]
    outputs: dict[str, RuntimeArtifact]
    output_parameters: dict[str, str]
    """Output parameter to the file that its value is written to."""
    output_file: str
    """Where ExecutorOutput is written to."""

    @classmethod
    def from_json(cls, text: str) -> "ExecutorInput":
        """Reads what the launcher puts in place of `{{$}}`."""
        message = json.loads(text)
        inputs, outputs = message.get("inputs", {}), message.get("outputs", {})
        return cls(
            parameters=inputs.get("parameterValues", {}),
            inputs={port: _artifacts(value) for port, value in inputs.get("artifacts", {}).items()},
            outputs={port: _artifacts(value)[0] for port, value in outputs.get("artifacts", {}).items()},
            output_parameters={name: value["outputFile"] for name, value in outputs.get("parameters", {}).items()},
            output_file=outputs.get("outputFile", ""),
        )

    def uris(self) -> dict[str, str]:
        """Local path to URI of every artifact that is not where its URI says."""
        artifacts = [artifact for listed in self.inputs.values() for artifact in listed]
        return {item.path: item.uri for item in [*artifacts, *self.outputs.values()] if item.path != item.uri}

    def write_output(self, metadata: dict[str, dict[str, Any]], parameters: dict[str, Any] | None = None) -> None:
        """Writes ExecutorOutput: metadata of the output artifacts by port, and values of the output parameters.

        Kubeflow's metadata cannot hold nulls, which are left out, nor numbers that are not finite, which become text.
        Every declared artifact has a file.
        """
        uris = self.uris()
        artifacts = {}
        for port, output in self.outputs.items():
            if port == _LAUNCHER_LOG:
                continue
            mapped = launcher_paths.with_uris(_as_kubeflow_takes_it(metadata.get(port, {})), uris)
            artifacts[port] = {"artifacts": [{"name": output.name, "uri": output.uri, "metadata": mapped}]}
            _ensure_file(output.path)
        os.makedirs(os.path.dirname(self.output_file), exist_ok=True)
        with open(self.output_file, "w", encoding="utf-8") as file:
            json.dump({"artifacts": artifacts, "parameterValues": parameters or {}}, file)


def _artifacts(value: dict[str, Any]) -> list[RuntimeArtifact]:
    return [
        RuntimeArtifact(
            name=item.get("name", ""),
            uri=item.get("uri", ""),
            path=launcher_paths.local_path(item.get("uri", ""), item.get("customPath")),
            metadata=item.get("metadata", {}),
        )
        for item in value.get("artifacts", [])
    ]


def without_templates(text: str) -> str:
    """`text` with nothing in it that Argo would take for a template: it may quote what stands in the data."""
    while "{{" in text:
        text = text.replace("{{", "{ {")
    return text


def _as_kubeflow_takes_it(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_kubeflow_takes_it(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_as_kubeflow_takes_it(item) for item in value if item is not None]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _ensure_file(path: str) -> None:
    """An output without a file would not exist for the launcher, nor for the next step."""
    if not launcher_paths.has_files(path):
        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, ".no-content"), "w", encoding="utf-8") as file:
            file.write("the step wrote nothing here\n")  # not empty: some object stores drop empty objects
