"""The real image: it runs as nobody in particular, has no compiler, and finds the data that it carries."""

import json

import pytest
from docker_engine import IMAGE, docker

from kubeflow import plan

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600), pytest.mark.skipif(not IMAGE, reason="name SLUICE_IMAGE")]


def test_user_and_contents():
    assert docker("run", "--rm", IMAGE, "id", "-u") == "65532"
    assert docker("run", "--rm", IMAGE, "sh", "-c", "command -v gcc g++ pip || true") == ""
    assert docker("run", "--rm", "--read-only", IMAGE, "sluice", "--help").startswith("usage: sluice")


def test_a_step_finds_the_data_of_the_image(tmp_path):
    """The data probe as Kubeflow's launcher would start it, on folders that only it sees."""
    tmp_path.chmod(0o777)
    config = json.dumps({"splits": [{"name": "single_split", "pattern": "*"}]})
    parameters = {"input_base": "package:tfx/examples/chicago_taxi_pipeline/data/simple", "input_config": config}
    request = {
        "inputs": {"parameterValues": parameters},
        "outputs": {"outputFile": "/minio/bucket/output_metadata.json", "parameters": {}},
    }
    step = plan.StepPlan(
        step="ExampleGen",
        driver="components.example_gen.driver.Driver",
        exec_properties={"input_base": "str", "input_config": "str"},
    )
    command = ["python", "-m", "kubeflow.data_probe", "--plan", step.to_json(), "--executor-input", json.dumps(request)]
    docker("run", "--rm", "--read-only", "--tmpfs", "/tmp", "--volume", f"{tmp_path}:/minio/bucket", IMAGE, *command)
    said = json.loads((tmp_path / "output_metadata.json").read_text())
    assert said["parameterValues"]["span"] == "0"
    assert "num_files:1" in said["parameterValues"]["input_fingerprint"]
