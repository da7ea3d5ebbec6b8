"""The real image: it runs as nobody in particular, has no compiler, and runs a step and two training workers.

`make image && make e2e-docker IMAGE=sluice:GIT_SHA`; the workers find each other as pods do on Kubernetes.
"""

import dataclasses
import json
import os
import pathlib
import subprocess
import time
import uuid
from collections.abc import Iterator

import pytest

from kubeflow import plan

IMAGE = os.environ.get("SLUICE_IMAGE", "")
pytestmark = [pytest.mark.docker, pytest.mark.timeout(1800), pytest.mark.skipif(not IMAGE, reason="name SLUICE_IMAGE")]


def docker(*arguments: str, check: bool = True) -> str:
    result = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    assert not check or result.returncode == 0, result.stderr[-3000:]
    return result.stdout.strip()


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


@pytest.fixture
def network() -> Iterator[str]:
    name = f"sluice-{uuid.uuid4().hex[:8]}"
    docker("network", "create", name)
    try:
        yield name
    finally:
        docker("network", "rm", name)


RUN_FN = """
import json, os, pathlib
import tensorflow as tf
def run_fn(fn_args):
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        total = strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda: tf.constant(1.0)), axis=None)
    path = pathlib.Path(fn_args.serving_model_dir)
    if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0:
        path.mkdir(parents=True, exist_ok=True)
        (path / "saved_model.pb").write_text(str(float(total)))
"""


def start_worker(network: str, folder: pathlib.Path, job: str, index: int) -> str:
    name = f"{job}-node-0-{index}"
    environment = {
        "JOB_COMPLETION_INDEX": str(index),
        "SLUICE_NUM_WORKERS": "2",
        "SLUICE_WORKER_HOSTS": f"{job}-node-0-{{index}}.{job}",
        "SLUICE_WORKER_PORT": "2222",
        "PYTHONPATH": "/opt/sluice:/job",
    }
    flags = [flag for key, value in environment.items() for flag in ("--env", f"{key}={value}")]
    where = ["--network", network, "--network-alias", f"{name}.{job}", "--volume", f"{folder}:/job"]
    command = ["python", "-m", "components.trainer.cluster_environment", "/job/spec.json"]
    docker("run", "--detach", "--name", name, "--hostname", name, *where, *flags, IMAGE, *command)
    return name


def logs(name: str) -> str:
    """What the container said, on both streams."""
    result = subprocess.run(
        ["docker", "logs", name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return result.stdout[-3000:]


def exit_codes(names: list[str]) -> list[int]:
    return [int(docker("wait", name)) for name in names]


def test_two_workers_find_each_other_and_a_killed_one_ends_the_gang(network, tmp_path):
    """TF_CONFIG comes from JOB_COMPLETION_INDEX and host names; the gang is started again, whole, and ends well."""
    from components.trainer.training_spec import TrainingSpec

    tmp_path.chmod(0o777)
    (tmp_path / "someones_model.py").write_text(RUN_FN)
    fn_args = {
        "serving_model_dir": "/job/model/Format-Serving",
        "eval_model_dir": "/job/model/Format-TFMA",
        "model_run_dir": "/job/run",
        "custom_config": None,
    }
    spec = TrainingSpec(
        run_fn="someones_model.run_fn", fn_args=fn_args, tfx={}, model_dir="/job/model", job_dir="/job/work"
    )
    (tmp_path / "work").mkdir()
    (tmp_path / "work").chmod(0o777)
    (tmp_path / "spec.json").write_text(json.dumps(dataclasses.asdict(spec)))
    job = f"job-{uuid.uuid4().hex[:6]}"
    names = [start_worker(network, tmp_path, job, 0)]
    try:
        deadline = time.monotonic() + 60
        while docker("inspect", "--format", "{{.State.Running}}", names[0]) != "true":
            assert time.monotonic() < deadline
        docker("kill", names[0])  # before its peer is there
        assert exit_codes(names) == [137]
        docker("rm", "--force", *names)
        names = [start_worker(network, tmp_path, job, index) for index in range(2)]
        ended = exit_codes(names)
        assert ended == [0, 0], logs(names[0])
        files = list(tmp_path.rglob("saved_model.pb"))
        assert [file.read_text() for file in files] == ["2.0"]
    finally:
        docker("rm", "--force", *names, check=False)
