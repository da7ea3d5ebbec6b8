"""Kubeflow's own launcher in place of the simulated one: its Go code, built from a checkout of kubeflow/pipelines.

Placeholders, copies from and to the object store, local folders and the reading of what a step tells are then
Kubeflow's. The launcher works on folders at the root of the machine (/minio, /s3, /gcs), as in a container.
"""

import json
import os
import pathlib
import subprocess
import sys
import time
from typing import Any

import kfp_launcher

_PACKAGE = "backend/src/v2/component"


def build(checkout: pathlib.Path, go_file: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The launcher as a program; the checkout is not changed, `go_file` is laid over it."""
    overlay, program = folder / "overlay.json", folder / "launcher.test"
    overlay.write_text(json.dumps({"Replace": {str(checkout / _PACKAGE / "sluice_test.go"): str(go_file)}}))
    command = ["go", "test", f"-overlay={overlay}", "-c", "-o", str(program), f"./{_PACKAGE}"]
    result = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-4000:]
    return program


class Pod(kfp_launcher.Pod):
    """One attempt of one task, under Kubeflow's launcher."""

    program: pathlib.Path
    """What `build` has made; set on the class."""

    def local(self, uri: str) -> str:
        """The launcher's own path for a URI."""
        scheme, _, key = uri.partition("://")
        return f"/{kfp_launcher.SCHEMES[scheme]}/{key}"

    def run(
        self, container: dict[str, Any], executor_input: dict[str, Any], component: dict[str, Any]
    ) -> dict[str, Any]:
        """Runs the container and returns its ExecutorOutput; raises LauncherError where the pod would fail."""
        uri = executor_input["outputs"]["artifacts"]["executor-logs"]["artifacts"][0]["uri"]
        scheme, _, key = uri.partition("://")
        bucket = key.partition("/")[0]
        command = [sys.executable if part == "python" else part for part in container["command"]]
        task = {
            "input": executor_input,
            "component": component,
            "command": command[0],
            "args": [*command[1:], *container["args"]],
            "bucket": f"{scheme}://{bucket}",
            "store": str(self._store.path(f"{scheme}://{bucket}")),
            "result": str(self.folder / "result.json"),
        }
        (self.folder / "task.json").write_text(json.dumps(task))
        environment = {
            **self._variables(container),
            "SLUICE_TASK": str(self.folder / "task.json"),
            "SLUICE_LAUNCHER_ROOT": "/",
        }
        begin = time.monotonic()
        with open(self.log, "w", encoding="utf-8") as log:
            process = subprocess.run(
                [str(self.program), "-test.run", "TestStepOfSluice"],
                cwd=self.folder,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
        self.seconds = time.monotonic() - begin
        if process.returncode:
            raise kfp_launcher.LauncherError(self.log.read_text()[-4000:])
        return self._told(json.loads((self.folder / "result.json").read_text()))

    def _told(self, result: dict[str, Any]) -> dict[str, Any]:
        artifacts = {}
        for port, listed in result["outputs"]["artifacts"].items():
            [made] = listed["artifacts"]
            assert self._store.path(made["uri"]).exists(), f"{port}: the launcher has uploaded nothing"
            assert None not in made.get("metadata", {}).values(), f"{port}: a null in its metadata"
            artifacts[port] = {"uri": made["uri"], "type": made["type"], "metadata": made.get("metadata", {})}
        return {"artifacts": artifacts, "parameters": result["said"].get("parameterValues", {})}


def is_possible() -> bool:
    """Whether this process may make folders at the root of the machine."""
    return os.geteuid() == 0
