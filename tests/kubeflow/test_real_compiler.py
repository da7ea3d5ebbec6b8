"""Compiled pipelines in the hands of Kubeflow's own API server code: `make check-kfp KFP_SOURCE=CHECKOUT`.

Needs Go and a checkout of kubeflow/pipelines (2.15 or newer for this test's Go file), which is not changed: the test's
file is laid over it. Shows what the Python port in kubeflow/api_checks.py cannot: that the server reads the YAML and
makes an Argo workflow of it, and how large that is.
"""

import json
import os
import pathlib
import subprocess

import pytest
import taxi_pipeline
import yaml

from kubeflow import size

SOURCE = os.environ.get("SLUICE_KFP_SOURCE", "")
HERE = pathlib.Path(__file__).parent
PACKAGE = "backend/src/apiserver/template"
pytestmark = [pytest.mark.timeout(1800), pytest.mark.skipif(not SOURCE, reason="name SLUICE_KFP_SOURCE")]


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory) -> pathlib.Path:
    """The goldens, and the taxi workload."""
    folder = tmp_path_factory.mktemp("pipelines")
    for golden in (HERE / "goldens").glob("*.yaml"):
        (folder / golden.name).write_text(golden.read_text())
    (folder / "taxi.yaml").write_text(taxi_pipeline.compiled("/mnt/sluice/data", "/mnt/sluice", "sluice:1a2b3c4"))
    return folder


@pytest.fixture(scope="module")
def sizes(pipelines, tmp_path_factory) -> dict[str, int]:
    """Bytes of the Argo workflow that the server makes of each."""
    checkout = pathlib.Path(SOURCE).resolve()
    overlay = tmp_path_factory.mktemp("overlay") / "overlay.json"
    laid = {str(checkout / PACKAGE / "sluice_test.go"): str(HERE / "kfp_template_test.go")}
    overlay.write_text(json.dumps({"Replace": laid}))
    command = ["go", "test", f"-overlay={overlay}", "-count=1", "-run", "TestPipelinesOfSluice", "-v", f"./{PACKAGE}"]
    environment = {**os.environ, "SLUICE_PIPELINES": str(pipelines)}
    result = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, (result.stdout + result.stderr)[-4000:]
    lines = [line.split() for line in result.stdout.splitlines() if ".yaml " in line]
    return {name: int(number) for name, number in lines}


def test_server_makes_a_workflow_of_each(pipelines, sizes):
    assert sizes.keys() == {path.name for path in pipelines.iterdir()}


def test_estimated_sizes_are_close(pipelines, sizes):
    for name, real in sizes.items():
        estimated = size.measure(*yaml.safe_load_all((pipelines / name).read_text())).workflow
        assert -0.02 < estimated / real - 1 < 0.10, (name, estimated, real)
