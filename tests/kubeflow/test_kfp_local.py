"""The compiled taxi pipeline, whole, in containers of the real image: kfp.local's DockerRunner runs the YAML as it is.

It takes the YAML as KFP's own SDK reads it, both documents, and starts the image of every step with the command of the
step. What it does not do: claims and secrets of the platform document (a mount of the runner stands in for the claim),
a cache, retries, and exit tasks, which it refuses.
"""

import json
import os
import pathlib
from typing import Any

import pytest
import taxi_pipeline
import tfx
import yaml
from docker_engine import IMAGE

pytestmark = [pytest.mark.docker, pytest.mark.timeout(2400), pytest.mark.skipif(not IMAGE, reason="name SLUICE_IMAGE")]
STORAGE = "/mnt/sluice"
SOURCE = pathlib.Path(tfx.__file__).parent / "examples/chicago_taxi_pipeline/data/simple/data.csv"
NUM_ROWS = 3000


class Place:
    """Storage that all containers share, and a pipeline root."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.shared, self.root = folder / "shared", folder / "root"
        for path in (folder, self.shared, self.shared / "data", self.root):
            path.mkdir(exist_ok=True)
            path.chmod(0o777)  # the image's user is another one
        lines = SOURCE.read_text().splitlines(keepends=True)
        (self.shared / "data" / "trips.csv").write_text("".join(lines[: NUM_ROWS + 1]))

    def run(self, text: str) -> dict[str, dict[str, Any]]:
        """Runs the pipeline; what each step has told (ExecutorOutput), by task."""
        import docker
        from kfp import components, local

        mount = docker.types.Mount(STORAGE, str(self.shared), type="bind")
        hardened = {
            "read_only": True,
            "tmpfs": {"/tmp": ""},
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
        }
        local.init(local.DockerRunner(mounts=[mount], **hardened), pipeline_root=str(self.root))
        before = set(self.root.iterdir())
        components.load_component_from_text(text)(data=f"{STORAGE}/data")
        [made] = set(self.root.iterdir()) - before
        return {path.parent.name: json.loads(path.read_text()) for path in made.glob("*/executor_output.json")}

    def versions(self) -> list[str]:
        """What is pushed."""
        base = self.shared / "serving" / "taxi"
        return sorted(path.name for path in base.iterdir() if path.name.isdigit()) if base.is_dir() else []


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Place:
    return Place(tmp_path_factory.mktemp("kfp-local"))


@pytest.fixture(scope="module")
def text() -> str:
    return taxi_pipeline.compiled(f"{STORAGE}/data", STORAGE, IMAGE)


@pytest.fixture(scope="module")
def first(place, text) -> dict[str, dict[str, Any]]:
    return place.run(text)


def test_every_step_ran_in_its_container(first, text):
    spec = next(yaml.safe_load_all(text))
    assert first.keys() == spec["root"]["dag"]["tasks"].keys()
    for task, told in first.items():
        declared = spec["components"][f"comp-{task}"].get("outputDefinitions", {})
        assert told.get("artifacts", {}).keys() == declared.get("artifacts", {}).keys(), task
        assert told.get("parameterValues", {}).keys() == declared.get("parameters", {}).keys(), task


def test_model_is_blessed_registered_and_pushed(place, first):
    [pushed] = first["pusher"]["artifacts"]["pushed_model"]["artifacts"]
    assert pushed["metadata"]["pushed"] == 1
    assert place.versions() == [pushed["metadata"]["pushed_version"]]
    assert len(list((place.shared / "registry").rglob("entry.json"))) == 1
    [summary] = first["run-summary"]["artifacts"]["summary"]["artifacts"]
    assert f"- version {place.versions()[0]} is served" in pathlib.Path(summary["uri"]).read_text()


def test_nobody_wrote_as_root(place, first):
    owners = {path.stat().st_uid for path in place.root.rglob("*")}
    assert owners == {65532}, owners
    assert os.getuid() not in owners


def test_second_run_finds_the_first_model(place, first, text):
    second = place.run(text)
    assert second["baseline-resolver-probe"]["parameterValues"] == {"resolved": "true", "version": "1"}
    [blessing] = second["evaluator"]["artifacts"]["blessing"]["artifacts"]
    assert blessing["metadata"]["baseline_model"]


def test_exit_tasks_are_what_it_refuses(place, sample_pipelines):
    """Said in docs/kubeflow.md: the outcome step can be tried on the simulation or on a cluster."""
    from kubeflow import compiler
    from kubeflow.config import KubeflowConfig, OutcomeConfig

    config = KubeflowConfig(image=IMAGE, outcome=OutcomeConfig(command=("true",)))
    text = compiler.compile_pipeline(sample_pipelines.pipeline([sample_pipelines.gen(f"{STORAGE}/data")]), config)
    with pytest.raises(NotImplementedError, match="ExitHandler"):
        place.run(text.to_yaml())
