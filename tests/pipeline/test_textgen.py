"""One's own text through the whole textgen pipeline, with a model too small to be good."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import yaml

from modules.textgen import documents

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A package `company.prose` with other sizes, and bounds that anything keeps, and some documents."""
    folder = tmp_path_factory.mktemp("own")
    package = folder / "company" / "prose"
    package.mkdir(parents=True)
    for path in (package.parent, package):
        (path / "__init__.py").touch()
    shutil.copy(ROOT / "modules" / "textgen" / "schema.pbtxt", package)
    workload = yaml.safe_load((ROOT / "modules" / "textgen" / "workload.yaml").read_text())
    workload["name"] = "prose"
    workload["prepare"]["settings"] = {"vocab_size": 300, "context": 32}
    workload["train"] |= {"train_steps": 20, "model": {"width": 32, "num_layers": 1, "num_heads": 2, "num_kv_heads": 1}}
    workload["train"]["engine"] |= {"accumulate": 2, "batch_size": 4, "recompute_layers": ["block_0"]}
    workload["evaluate"]["metrics"][1]["at_least"] = -100.0
    (package / "workload.yaml").write_text(yaml.safe_dump(workload))
    data = folder / "data"
    data.mkdir()
    documents.write(str(data))
    return folder


def sluice(own, *arguments):
    environment = os.environ | {"PYTHONPATH": f"{own}{os.pathsep}{ROOT}"}
    return subprocess.run(
        [sys.executable, "-m", "pipeline.cli", *arguments],
        cwd=own,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_text_goes_in_and_text_comes_out(own):
    process = sluice(own, "run", "--workload", "company.prose", "--data", str(own / "data"), "--json")
    assert process.returncode == 0, process.stderr[-3000:]
    record = json.loads(process.stdout.splitlines()[-1])
    assert [step["name"] for step in record["steps"]][5:7] == ["Prepare", "Trainer"]
    assert set(record["metrics"]) == {"bits_per_byte", "bits_per_byte_saved", "baseline_bits_per_byte", "perplexity"}
    metrics = {name: metric["value"] for name, metric in record["metrics"].items()}
    saved = metrics["baseline_bits_per_byte"] - metrics["bits_per_byte"]
    assert metrics["bits_per_byte_saved"] == pytest.approx(saved, abs=1e-4)
    assert [sample["input"]["text"] for sample in record["samples"]] == ["If the object is", "The function returns"]
    assert all(0 < sample["output"]["num_tokens"] <= 60 or sample["output"]["finished"] for sample in record["samples"])
    slices = json.loads(next(own.glob("build/pipelines/prose/Evaluator/evaluation/*/verdict.json")).read_text())["rows"]
    assert {"all", "source=statements", "source=data-model"} <= {row["slice"] for row in slices}

    base = str(own / "build" / "serving" / "prose")
    answer = sluice(own, "generate", "--base", base, "--prompt", "The import statement", "--max-new", "5", "--json")
    assert answer.returncode == 0, answer.stderr[-2000:]
    (generated,) = json.loads(answer.stdout.splitlines()[-1])["generated"]
    assert len(generated["tokens"]) == generated["num_tokens"] <= 5
