"""`sluice run` as a person uses it: real data, real processes, edits, kills. One story, in order."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

from pipeline.config import make_config
from pipeline.errors import ExitCode

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

ROOT = pathlib.Path(__file__).parents[2]
STEPS = [
    "ExampleGen",
    "SchemaGen",
    "StatisticsGen",
    "ExampleValidator",
    "DataGate",
    "Transform",
    "Trainer",
    "Evaluator",
    "Pusher",
    "ModelRegistrar",
]


class Checkout:
    """A copy of the sources that a test may edit, its data and its build folder."""

    def __init__(self, folder: pathlib.Path):
        self.folder, self.root, self.data = folder, folder / "build", folder / "data"
        for package in ("pipeline", "components", "modules", "kubeflow"):
            shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(make_config("taxi").data, self.data)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "pipeline.cli", *arguments, "--root", str(self.root)]

    def sluice(self, *arguments: str) -> subprocess.CompletedProcess:
        environment = os.environ | {"PYTHONPATH": str(self.folder)}
        return subprocess.run(
            self.command(*arguments), cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )

    def run(self, *arguments: str, expect: int = 0) -> dict:
        process = self.sluice("run", "--data", str(self.data), "--train-steps", "150", "--json", *arguments)
        assert process.returncode == expect, process.stderr[-3000:]
        return json.loads(process.stdout.splitlines()[-1])

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.folder / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def kill_during(self, step: str) -> None:
        """Starts a run and kills it, and nothing else, with SIGKILL while `step` is running."""
        command = self.command("run", "--data", str(self.data), "--train-steps", "150")
        environment = os.environ | {"PYTHONPATH": str(self.folder)}
        process = subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 300
        while self._running_step(process.pid) != step:
            assert process.poll() is None, f"the run ended before {step}"
            assert time.monotonic() < deadline, f"{step} did not start"
            time.sleep(0.05)  # between two looks at the condition
        process.send_signal(signal.SIGKILL)
        process.wait()

    def _running_step(self, pid: int) -> str | None:
        for path in self.root.glob("runs/*/run.json"):
            record = json.loads(path.read_text())
            if record["pid"] == pid:
                return next((step["name"] for step in record["steps"] if step["state"] == "running"), None)
        return None

    def processes(self) -> list[str]:
        """Command lines of processes that still work in this checkout."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(self.root) in line:
                found.append(line)
        return found


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return Checkout(tmp_path_factory.mktemp("checkout"))


def states(result: dict) -> dict[str, str]:
    return {step["name"]: step["state"] for step in result["steps"]}


def expected(ran_from: str) -> dict[str, str]:
    first = STEPS.index(ran_from)
    return {name: "ran" if index >= first else "cached" for index, name in enumerate(STEPS)}


def test_killed_runs_are_picked_up_and_the_model_is_served(checkout):
    for step in ("Transform", "Trainer", "Evaluator"):
        checkout.kill_during(step)
        deadline = time.monotonic() + 30
        while checkout.processes() and time.monotonic() < deadline:
            time.sleep(0.1)  # workers notice that their parent died
        assert checkout.processes() == []
    result = checkout.run()
    assert states(result) == expected("Evaluator")
    assert result["verdict"] == "blessed"
    assert set(result["splits"]) == {"train", "eval"}
    assert sum(result["splits"].values()) == 15_002
    assert result["metrics"]["auc"]["passed"] is True
    assert result["serving_dir"] == str(checkout.root / "serving" / "taxi")
    version = checkout.root / "serving" / "taxi" / result["pushed_version"]
    assert (version / "saved_model.pb").is_file()
    assert 0.0 <= result["prediction"]["output"]["probabilities"] <= 1.0
    # Of the killed executions nothing is left that could be taken for an artifact.
    for name in ("Transform/transform_graph", "Trainer/model", "Evaluator/evaluation"):
        assert len(list((checkout.root / "pipelines" / "taxi" / name).iterdir())) == 1


def test_a_second_run_runs_nothing_although_files_were_touched(checkout):
    for path in [*checkout.data.iterdir(), checkout.folder / "modules/taxi/model.py"]:
        path.touch()
    process = checkout.sluice("run", "--data", str(checkout.data), "--train-steps", "150")
    assert process.returncode == 0, process.stderr
    assert "Nothing was run again" in process.stdout
    assert process.stdout.count("cached") == len(STEPS)


def test_an_edited_preprocessing_runs_again_from_transform(checkout):
    checkout.edit("modules/taxi/preprocessing.py", 'default="")', 'default="unknown")')
    result = checkout.run("--to", "Transform")
    first = STEPS.index("Transform")
    assert [states(result)[name] for name in STEPS[:first]] == ["cached"] * first
    assert states(result)["Transform"] == "ran"
    assert {states(result)[name] for name in STEPS[first + 1 :]} == {"not run"}
    checkout.edit("modules/taxi/preprocessing.py", 'default="unknown")', 'default="")')


def test_an_edited_model_runs_again_from_the_trainer_and_meets_its_baseline(checkout):
    checkout.edit("modules/taxi/model.py", "HIDDEN_UNITS = (128, 64)", "HIDDEN_UNITS = (96, 64)")
    result = checkout.run()
    assert states(result) == expected("Trainer")
    assert result["metrics"]["auc"]["baseline"] is not None
    assert "baseline" in result["metrics"]["auc"]["bound"]


def test_a_removed_serving_folder_is_filled_again(checkout):
    shutil.rmtree(checkout.root / "serving" / "taxi")
    result = checkout.run()
    assert states(result)["Evaluator"] == "cached"
    assert states(result)["Pusher"] == "ran"
    assert (checkout.root / "serving" / "taxi" / result["pushed_version"] / "saved_model.pb").is_file()


def test_from_starts_there_and_reuses_what_came_before(checkout):
    result = checkout.run("--from", "Evaluator")
    first = STEPS.index("Evaluator")
    assert [states(result)[name] for name in STEPS[:first]] == ["reused"] * first
    assert states(result)["Evaluator"] == "ran"


def test_a_model_below_the_bound_is_not_pushed(checkout):
    checkout.edit("modules/taxi/workload.yaml", "at_least: 0.85", "at_least: 0.999")
    before = sorted(path.name for path in (checkout.root / "serving" / "taxi").glob("[0-9]*"))
    result = checkout.run(expect=ExitCode.NOT_BLESSED)
    assert states(result)["Trainer"] == "cached"
    assert result["verdict"] == "not blessed"
    assert any("auc" in reason and "0.999" in reason for reason in result["reasons"])
    assert sorted(path.name for path in (checkout.root / "serving" / "taxi").glob("[0-9]*")) == before
    checkout.edit("modules/taxi/workload.yaml", "at_least: 0.999", "at_least: 0.85")


def test_changed_and_bad_data(checkout):
    (path,) = checkout.data.iterdir()
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]))
    result = checkout.run("--to", "StatisticsGen")
    assert states(result)["ExampleGen"] == states(result)["StatisticsGen"] == "ran"
    assert sum(result["splits"].values()) == 15_001
    # A column gone: the gate stops the run, and says which.
    header = lines[0].replace("trip_miles", "trip_kilometres")
    path.write_text(header + "".join(lines[1:]))
    result = checkout.run(expect=ExitCode.DATA_REJECTED)
    assert states(result)["DataGate"] == "failed"
    assert states(result)["Trainer"] == "not run"
    assert "trip_miles" in result["error"]
    path.write_text("".join(lines))


def test_history_lineage_and_cleaning(checkout):
    runs = json.loads(checkout.sluice("runs", "--json").stdout)["runs"]
    by_state = {run["state"] for run in runs}
    assert {"done", "interrupted", "failed"} <= by_state
    trained = next(run for run in runs if states(run)["Trainer"] == "ran" and run["verdict"] == "blessed")
    shown = json.loads(checkout.sluice("show", trained["run_id"], "--json").stdout)
    trainer = next(node for node in shown["artifacts"] if node["step"] == "Trainer")
    assert {"transform_graph", "examples", "schema"} <= {artifact["key"] for artifact in trainer["inputs"]}
    assert all(pathlib.Path(artifact["uri"]).exists() for artifact in trainer["outputs"])
    serving = sorted(path.name for path in (checkout.root / "serving" / "taxi").glob("[0-9]*"))
    cleaned = json.loads(checkout.sluice("clean", "--keep", "1", "--json").stdout)
    left = {run["run_id"] for run in runs} - set(cleaned["runs"])
    assert left == {runs[0]["run_id"], next(run["run_id"] for run in runs if run["verdict"] == "blessed")}
    assert cleaned["artifacts"]
    assert sorted(path.name for path in (checkout.root / "serving" / "taxi").glob("[0-9]*")) == serving
    result = checkout.run("--to", "DataGate")
    assert result["verdict"] == "not evaluated"
