"""A strict simulation of Kubeflow's launcher: one container, as a process with a folder of its own.

Inputs are copied from the object store (a local folder here) to the container's folder, the command runs with its
placeholders filled in, and what it leaves is copied back. Stricter than Kubeflow 2.17 where later versions are: a
declared output that is not there is an error. Nothing of another step is visible.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from typing import Any

from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

SCHEMES = {"gs": "gcs", "s3": "s3", "minio": "minio"}


class LauncherError(Exception):
    """The pod would have failed."""


def _not_json(constant: str) -> None:
    raise LauncherError(f"{constant} is no JSON: Kubeflow cannot read it")


class ObjectStore:
    """minio://, s3:// and gs:// buckets as folders."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    def path(self, uri: str) -> pathlib.Path:
        """Where the object or prefix of `uri` is kept."""
        scheme, _, key = uri.partition("://")
        return self.folder / scheme / key

    def download(self, uri: str, target: pathlib.Path) -> None:
        """Copies an object, or all objects below a prefix."""
        source = self.path(uri)
        if not source.exists():
            raise LauncherError(f"there is nothing at {uri}")
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copyfile(source, target)

    def upload(self, source: pathlib.Path, uri: str) -> None:
        """Copies a file, or all files below a folder; folders themselves do not exist in object stores."""
        if source.is_file():
            files = [(source, self.path(uri))]
        else:
            found = [path for path in source.rglob("*") if path.is_file()]
            files = [(path, self.path(uri) / path.relative_to(source)) for path in found]
        if not files:
            raise LauncherError(f"{source}: the step declared this output and wrote no file")
        for path, target in files:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


class Pod:
    """One attempt of one task."""

    def __init__(self, folder: pathlib.Path, store: ObjectStore, project: pathlib.Path, environment: dict[str, str]):
        self.folder, self._store, self._project = folder, store, project
        self._environment = environment
        self.log = folder / "log.txt"
        self.seconds = 0.0
        (folder / "tmp").mkdir(parents=True)

    def local(self, uri: str) -> str:
        """The container's path for a URI."""
        scheme, _, key = uri.partition("://")
        if scheme not in SCHEMES:
            raise LauncherError(f"{uri}: unsupported storage scheme")
        return str(self.folder / SCHEMES[scheme] / key)

    def run(
        self, container: dict[str, Any], executor_input: dict[str, Any], component: dict[str, Any]
    ) -> dict[str, Any]:
        """Runs the container and returns its ExecutorOutput; raises LauncherError where the pod would fail."""
        for listed in executor_input["inputs"]["artifacts"].values():
            for artifact in listed["artifacts"]:
                if "://" in artifact["uri"]:
                    self._store.download(artifact["uri"], pathlib.Path(self.local(artifact["uri"])))
        outputs = executor_input["outputs"]
        for value in outputs["parameters"].values():
            pathlib.Path(value["outputFile"]).parent.mkdir(parents=True, exist_ok=True)
        for listed in outputs["artifacts"].values():
            pathlib.Path(self.local(listed["artifacts"][0]["uri"])).parent.mkdir(parents=True, exist_ok=True)
        command = [self._filled(argument, executor_input) for argument in [*container["command"], *container["args"]]]
        published = pathlib.Path(self.local(outputs["artifacts"]["executor-logs"]["artifacts"][0]["uri"]))
        published.touch()
        self._execute(command, container)
        shutil.copyfile(self.log, published)
        return self._collect(outputs)

    def _variables(self, container: dict[str, Any]) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "PYTHONPATH": str(self._project),
            "TMPDIR": str(self.folder / "tmp"),
            "SLUICE_LAUNCHER_ROOT": str(self.folder),
            "CUDA_VISIBLE_DEVICES": "-1",
            **{item["name"]: item["value"] for item in container.get("env", [])},
            **self._environment,
        }

    def _execute(self, command: list[str], container: dict[str, Any]) -> None:
        if command[0] == "python":
            command[0] = sys.executable
        environment = self._variables(container)
        begin = time.monotonic()
        with open(self.log, "w", encoding="utf-8") as log:
            process = subprocess.run(
                command, cwd=self.folder, env=environment, stdout=log, stderr=subprocess.STDOUT, check=False
            )
        self.seconds = time.monotonic() - begin
        if process.returncode:
            raise LauncherError(f"exit code {process.returncode}\n{self.log.read_text()[-3000:]}")

    def _filled(self, argument: str, executor_input: dict[str, Any]) -> str:
        text = argument.replace("{{$}}", json.dumps(executor_input))
        for port, listed in executor_input["inputs"]["artifacts"].items():
            uri = listed["artifacts"][0]["uri"]
            text = text.replace(f"{{{{$.inputs.artifacts['{port}'].uri}}}}", uri)
            if "://" in uri:
                text = text.replace(f"{{{{$.inputs.artifacts['{port}'].path}}}}", self.local(uri))
        for port, listed in executor_input["outputs"]["artifacts"].items():
            uri = listed["artifacts"][0]["uri"]
            text = text.replace(f"{{{{$.outputs.artifacts['{port}'].uri}}}}", uri)
            text = text.replace(f"{{{{$.outputs.artifacts['{port}'].path}}}}", self.local(uri))
        for name, value in executor_input["inputs"]["parameterValues"].items():
            shown = value if isinstance(value, str) else json.dumps(value)
            if isinstance(value, float) and value.is_integer():
                shown = str(int(value))
            text = text.replace(f"{{{{$.inputs.parameters['{name}']}}}}", shown)
        if argument != text and re.search(r"\{\{\$\.", text.replace(json.dumps(executor_input), "")):
            raise LauncherError(f"a placeholder that nothing fills: {argument}")
        if argument == text and "{{$" in text:
            raise LauncherError(f"a placeholder that nothing fills: {argument}")
        return text

    def _collect(self, outputs: dict[str, Any]) -> dict[str, Any]:
        file = pathlib.Path(outputs["outputFile"])
        if not file.is_file():
            raise LauncherError("the step wrote no executor output")
        text = file.read_text(encoding="utf-8")
        json_format.Parse(text, pipeline_spec_pb2.ExecutorOutput())  # an unknown field is an error
        said = json.loads(text, parse_constant=_not_json)
        found: dict[str, Any] = {"artifacts": {}, "parameters": said.get("parameterValues", {})}
        for name, value in outputs["parameters"].items():
            if name not in found["parameters"]:
                written = pathlib.Path(value["outputFile"])
                if not written.is_file():
                    raise LauncherError(f"output parameter {name!r} was not written")
                found["parameters"][name] = written.read_text(encoding="utf-8")
        for port, listed in outputs["artifacts"].items():
            given = listed["artifacts"][0]
            merged = {**given, **said.get("artifacts", {}).get(port, {}).get("artifacts", [{}])[0]}
            if merged["uri"] != given["uri"]:
                raise LauncherError(f"output {port!r}: URI {merged['uri']} is not the one that was given out")
            if str(self.folder) in json.dumps(merged.get("metadata", {})):
                raise LauncherError(
                    f"output {port!r}: its metadata names a path of the container: {merged['metadata']}"
                )
            self._store.upload(pathlib.Path(self.local(given["uri"])), given["uri"])
            found["artifacts"][port] = {"uri": given["uri"], "type": given["type"], "metadata": merged["metadata"]}
        unknown = said.get("artifacts", {}).keys() - outputs["artifacts"].keys()
        if unknown:
            raise LauncherError(f"outputs that were not declared: {sorted(unknown)}")
        return found
