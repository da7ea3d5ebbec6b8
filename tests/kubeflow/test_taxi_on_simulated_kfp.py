"""The compiled taxi pipeline on the simulated Kubeflow: two runs, a changed file, a blocked gate, no blessing.

By default a slice of the data, one worker, and what fits into two minutes; `make e2e-kfp-sim` (SLUICE_KFP_SIM=full)
runs all rows with two workers, and the rest. SLUICE_KFP_SIM=slice runs the rest too, on the slice.
"""

import dataclasses
import json
import os
import pathlib

import kfp_simulation
import pytest
import taxi_pipeline
import tfx

FULL = os.environ.get("SLUICE_KFP_SIM") == "full"
IMAGE = "registry.example/sluice:1a2b3c4"
SOURCE = pathlib.Path(tfx.__file__).parent / "examples/chicago_taxi_pipeline/data/simple/data.csv"
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]
full_only = pytest.mark.skipif("SLUICE_KFP_SIM" not in os.environ, reason="minutes: make e2e-kfp-sim")


@dataclasses.dataclass
class Place:
    """A cluster, and the storage that its pods share."""

    folder: pathlib.Path
    cluster: kfp_simulation.Cluster

    @property
    def shared(self) -> pathlib.Path:
        return self.folder / "shared"

    @property
    def csv(self) -> pathlib.Path:
        return self.shared / "data" / "trips.csv"

    def write_rows(self, lines: list[str]) -> None:
        """Makes the data of the next run."""
        self.csv.parent.mkdir(parents=True, exist_ok=True)
        self.csv.write_text("".join(lines))

    def versions(self) -> list[str]:
        """What is pushed."""
        base = self.shared / "serving" / "taxi"
        return sorted(path.name for path in base.iterdir() if path.name.isdigit()) if base.is_dir() else []

    def registered(self) -> int:
        """How many models the registry has."""
        return len(list((self.shared / "registry").rglob("entry.json")))

    def split(self, name: str, result: kfp_simulation.RunResult) -> int:
        """Rows of a split, as ingestion has reported them."""
        execution = result.tasks["example-gen"].execution
        assert execution is not None
        report = self.cluster.objects.path(execution.artifacts["report"]["uri"]) / "report.json"
        return json.loads(report.read_text())["splits"][name]

    def text(self, result: kfp_simulation.RunResult, task: str, port: str) -> str:
        """The one file of an output."""
        execution = result.tasks[task].execution
        assert execution is not None
        return self.cluster.objects.path(execution.artifacts[port]["uri"]).read_text()


def compiled(place: Place, auc_at_least: float = 0.5) -> str:
    return taxi_pipeline.compiled(
        str(place.csv.parent),
        str(place.shared),
        IMAGE,
        auc_at_least=auc_at_least,
        num_workers=2 if FULL else 1,
        train_steps=200 if FULL else 40,
    )


def rows() -> list[str]:
    lines = SOURCE.read_text().splitlines(keepends=True)
    return lines if FULL else lines[:6001]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Place:
    folder = tmp_path_factory.mktemp("kfp")
    made = Place(folder, kfp_simulation.Cluster(folder))
    made.write_rows(rows())
    return made


@pytest.fixture(scope="module")
def first(place: Place) -> kfp_simulation.RunResult:
    result = place.cluster.run(compiled(place))
    assert result.failures == "none", result.failures
    return result


def test_first_run_trains_blesses_registers_and_pushes(place, first):
    assert set(first.states.values()) == {"SUCCEEDED"}
    assert first.tasks["baseline-resolver-probe"].execution.parameters == {"resolved": "false", "version": ""}
    assert len(place.versions()) == 1
    assert place.registered() == 1
    pushed = first.tasks["pusher"].execution.artifacts["pushed_model"]["metadata"]
    assert pushed["pushed"] == 1.0
    assert pushed["pushed_destination"].startswith(str(place.shared))


def test_pages_for_people(place, first):
    for task in ("example-gen", "statistics-gen", "example-validator", "data-gate", "evaluator"):
        page = place.text(first, task, "html_page")
        assert page.startswith("<!doctype html>"), task
        assert "http://" not in page.replace("http://www.w3.org/", ""), task


def test_log_lines_tell_the_step_and_the_seconds(first):
    last = first.tasks["statistics-gen"].log.splitlines()[-1]
    assert last.startswith("StatisticsGen ")
    assert "s info: done in " in last


def test_second_run_is_cached_but_for_the_probes(place, first):
    second = place.cluster.run(compiled(place))
    ran = {name for name, state in second.states.items() if state != "CACHED"}
    assert ran == {"example-gen-probe", "baseline-resolver-probe", "data-gate-stop"}
    assert set(second.states.values()) == {"SUCCEEDED", "CACHED"}
    assert len(place.versions()) == 1


def test_run_summary(place, first):
    summary = place.text(first, "run-summary", "summary")
    headings = [line for line in summary.splitlines() if line.startswith("#")]
    assert headings == ["# taxi", *(f"## {step}" for step in ("ExampleGen", "DataGate", "Evaluator", "Pusher", _LAST))]
    assert f"- train: {place.split('train', first):,} rows" in summary
    assert "| auc | 0." in summary
    assert f"- version {place.versions()[0]} is served" in summary
    assert "- version 1 of the registry" in summary


_LAST = "ModelRegistrar"


def test_blocked_gate_stops_the_run(place, first):
    """Fares in another currency: the gate says so and its page is kept, and nothing after it runs."""
    lines = rows()
    column = lines[0].strip().split(",").index("fare")
    broken = [lines[0]]
    for line in lines[1:]:
        cells = line.split(",")
        cells[column] = "-1000000.0"
        broken.append(",".join(cells))
    place.write_rows(broken)
    result = place.cluster.run(compiled(place))
    place.write_rows(rows())
    stop = result.tasks["data-gate-stop"]
    assert (stop.state, stop.attempts) == ("FAILED", 1), result.states
    assert stop.error.startswith("exit code 3")
    assert "fare: drift" in stop.error  # against the data of the model that the first run registered
    page = result.tasks["data-gate"].execution.artifacts["html_page"]["uri"]
    assert page.startswith("minio://")
    assert f"See {page}." in stop.error
    shown = place.text(result, "data-gate", "html_page")
    assert "fare" in shown
    assert str(place.folder / "pods") not in shown
    after = {"transform", "trainer", "baseline-resolver", "evaluator", "model-registrar", "pusher", "run-summary"}
    assert {result.states[name] for name in after} == {"OMITTED"}
    assert len(place.versions()) == 1


@full_only
def test_changed_file_is_noticed_and_compared_with_the_first_model(place, first):
    place.write_rows(rows()[:-500])
    result = place.cluster.run(compiled(place))
    assert result.failures == "none", result.failures
    assert result.states["example-gen"] == "SUCCEEDED"
    assert result.tasks["baseline-resolver-probe"].execution.parameters == {"resolved": "true", "version": "1"}
    assert "baseline" in place.text(result, "evaluator", "html_page")
    blessing = result.tasks["evaluator"].execution.artifacts["blessing"]["metadata"]
    assert blessing["blessed"] == 1.0
    assert blessing["baseline_model"].startswith("minio://")
    assert blessing["current_model"].startswith("minio://")
    assert len(place.versions()) == 2
    assert place.registered() == 2


@full_only
def test_model_that_is_not_blessed_is_not_pushed(place, first):
    versions, registered = place.versions(), place.registered()
    result = place.cluster.run(compiled(place, auc_at_least=0.99999))
    assert result.failures == "none", result.failures
    assert result.tasks["evaluator"].execution.artifacts["blessing"]["metadata"]["blessed"] == 0.0
    assert result.tasks["pusher"].execution.artifacts["pushed_model"]["metadata"]["pushed"] == 0.0
    assert (place.versions(), place.registered()) == (versions, registered)


@full_only
@pytest.mark.parametrize("root", ["s3://bucket/runs", "gs://bucket/runs"])
def test_other_stores_and_inputs_with_titles(tmp_path, root):
    """Kubeflow after its removal of MLMD sends the types of inputs as titles."""
    place = Place(tmp_path, kfp_simulation.Cluster(tmp_path, root=root, with_titles=True))
    place.write_rows(rows())
    result = place.cluster.run(compiled(place))
    assert result.failures == "none", result.failures
    assert len(place.versions()) == 1
    model = result.tasks["evaluator"].execution.artifacts["blessing"]["metadata"]["current_model"]
    assert model.startswith(root), json.dumps(model)
