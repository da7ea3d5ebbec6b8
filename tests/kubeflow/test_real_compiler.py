"""Compiled pipelines in the hands of Kubeflow's own code: `make check-kfp KFP_SOURCE=CHECKOUT`.

Needs Go and a checkout of kubeflow/pipelines 2.17, which is not changed: the tests' Go files are laid over it. Shows
what ports and simulations cannot: that the API server reads the YAML and makes an Argo workflow of it, how large that
is, and that steps run under the launcher itself.
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess

import kfp_launcher
import kfp_real_launcher
import kfp_simulation
import pytest
import taxi_pipeline
import tfx
import yaml

from kubeflow import size

SOURCE = os.environ.get("SLUICE_KFP_SOURCE", "")
HERE = pathlib.Path(__file__).parent
TRIPS = "examples/chicago_taxi_pipeline/data/simple/data.csv"
PACKAGE = "backend/src/apiserver/template"
pytestmark = [pytest.mark.timeout(1800), pytest.mark.skipif(not SOURCE, reason="name SLUICE_KFP_SOURCE")]


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory) -> pathlib.Path:
    """The goldens: the project's workloads, and the samples."""
    folder = tmp_path_factory.mktemp("pipelines")
    for golden in (HERE / "goldens").glob("*.yaml"):
        (folder / golden.name).write_text(golden.read_text())
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


@pytest.mark.skipif(not kfp_real_launcher.is_possible(), reason="the launcher wants folders at the root")
@pytest.mark.parametrize("scheme", ["minio", "s3", "gs"])
def test_taxi_under_the_launcher_itself(tmp_path, scheme):
    """All steps of the taxi pipeline; then again, with a gate that blocks."""
    kfp_real_launcher.Pod.program = kfp_real_launcher.build(
        pathlib.Path(SOURCE).resolve(), HERE / "kfp_launcher_test.go", tmp_path
    )
    bucket = f"sluice-{tmp_path.name}-{os.getpid()}"
    cluster = kfp_simulation.Cluster(tmp_path, root=f"{scheme}://{bucket}/runs", pods=kfp_real_launcher.Pod)
    data, shared = tmp_path / "shared" / "data", tmp_path / "shared"
    data.mkdir(parents=True)
    lines = (pathlib.Path(tfx.__file__).parent / TRIPS).read_text().splitlines(keepends=True)[:6001]
    (data / "trips.csv").write_text("".join(lines))
    text = taxi_pipeline.compiled(str(data), str(shared), "sluice:1a2b3c4")
    try:
        first = cluster.run(text)
        assert first.failures == "none", first.failures
        assert set(first.states.values()) == {"SUCCEEDED"}
        blessing = first.tasks["evaluator"].execution.artifacts["blessing"]
        assert blessing["metadata"]["current_model"].startswith(f"{scheme}://{bucket}/")
        fare = lines[0].split(",").index("fare")
        cells = [line.split(",") for line in lines[1:]]
        bad = [",".join([*row[:fare], "-1000000.0", *row[fare + 1 :]]) for row in cells]
        (data / "trips.csv").write_text("".join([lines[0], *bad]))
        blocked = cluster.run(text)
        assert blocked.states["data-gate"] == "SUCCEEDED"
        assert "exit status 3" in blocked.tasks["data-gate-stop"].error
        page = blocked.tasks["data-gate"].execution.artifacts["html_page"]["uri"]
        assert "fare" in cluster.objects.path(page).read_text()
    finally:
        folder = f"/{kfp_launcher.SCHEMES[scheme]}"
        shutil.rmtree(f"{folder}/{bucket}", ignore_errors=True)
        with contextlib.suppress(OSError):  # others may have something there
            os.rmdir(folder)
