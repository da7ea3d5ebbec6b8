"""docs/your-own-workload.md, followed literally: its files are written and its commands are run."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

ROOT = pathlib.Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+) ?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page(tmp_path):
    for package in ("pipeline", "components", "modules", "kubeflow"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    binaries = tmp_path / "bin"
    binaries.mkdir()
    interpreter = binaries / "python"
    interpreter.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    interpreter.chmod(0o755)
    command = binaries / "sluice"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pipeline.cli "$@"\n')
    command.chmod(0o755)
    environment = os.environ | {"PATH": f"{binaries}:{os.environ['PATH']}", "PYTHONPATH": str(tmp_path)}
    page = (ROOT / "docs" / "your-own-workload.md").read_text(encoding="utf-8")
    outputs = []
    for language, name, content in BLOCK.findall(page):
        if language == "bash":
            process = subprocess.run(
                ["bash", "-euc", content], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            assert process.returncode == 0, f"{content}\n{process.stdout[-1500:]}\n{process.stderr[-1500:]}"
            outputs.append(process.stdout)
        else:
            (tmp_path / name).write_text(content, encoding="utf-8")
    summary, predictions = outputs[-2:]
    assert "Verdict blessed" in summary
    assert "train" in summary
    first = json.loads(predictions.splitlines()[-1])
    assert "probabilities" in json.dumps(first)
