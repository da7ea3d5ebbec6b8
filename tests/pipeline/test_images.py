"""`sluice run --workload images`: from PNG files to a served model that reads PNG files."""

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def sluice(*arguments: str) -> dict:
    """The object that a command prints with --json."""
    command = [sys.executable, "-m", "pipeline.cli", *arguments, "--json"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-3000:]
    return json.loads(process.stdout.splitlines()[-1])


def test_digits(tmp_path):
    from modules.serving import predictor

    root = tmp_path / "build"
    done = sluice("run", "--workload", "images", "--root", str(root))
    assert done["verdict"] == "blessed"
    assert done["splits"] == {"train": 1198, "eval": 599}
    assert done["metrics"]["sparse_categorical_accuracy"]["value"] >= 0.97
    assert done["prediction"]["input"]["image"].endswith(" bytes>")

    # The same pictures, asked as tf.Examples and as encoded bytes: one answer, and nearly always the right one.
    files = [file for digit in range(10) for file in sorted((root / "data" / "images" / str(digit)).glob("*.png"))[:10]]
    rows = [{"image": file.read_bytes()} for file in files]
    version = str(root / "serving" / "images" / str(done["pushed_version"]))
    answers = predictor.predict_rows(version, rows)
    assert sum(answer["label"] == file.parent.name for answer, file in zip(answers, files, strict=True)) >= 97
    direct = predictor.predict_rows(version, rows, "predict_features")
    assert [answer["label"] for answer in direct] == [answer["label"] for answer in answers]
    for one, other in zip(answers, direct, strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-5)
