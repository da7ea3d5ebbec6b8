"""The taxi pipeline on a real Kubeflow Pipelines: `make e2e-cluster KFP_HOST=... IMAGE=...`."""

import json
import os

import pytest

from kubeflow import doctor
from pipeline import cli

HOST, IMAGE = os.environ.get("SLUICE_KFP_HOST", ""), os.environ.get("SLUICE_IMAGE", "")
NAMESPACE = os.environ.get("SLUICE_KFP_NAMESPACE", "")
"""Of a Kubeflow with several users; the token comes from $SLUICE_KFP_TOKEN_FILE."""
WHERE = ["--host", HOST, *(["--namespace", NAMESPACE] if NAMESPACE else [])]
CONFIG = """
image: {image}
default:
  volumes: [{{claim: sluice, path: /mnt/sluice}}]
"""
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(3 * 3600),
    pytest.mark.skipif(not (HOST and IMAGE), reason="name SLUICE_KFP_HOST and SLUICE_IMAGE"),
]


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("cluster") / "kubeflow.yaml"
    path.write_text(CONFIG.format(image=IMAGE))
    return str(path)


def test_the_cluster_is_ready():
    assert cli.main(["doctor", "--kubeflow", *WHERE[1:]]) == 0


def submit(config: str, capsys, *extra: str) -> dict:
    account = ["--service-account", doctor.RUNNER]
    arguments = ["--config", config, *WHERE, "--wait", "--deadline", "7200", "--json", *account, *extra]
    code = cli.main(["submit", *arguments])
    out = capsys.readouterr().out
    assert code == 0, out
    return json.loads(out.splitlines()[-1])


def test_two_runs(config, capsys):
    first = submit(config, capsys, "--run-name", "sluice e2e, first")
    assert first["state"] == "SUCCEEDED"
    second = submit(config, capsys, "--run-name", "sluice e2e, second")
    assert second["state"] == "SUCCEEDED"
    names = {step["name"] for step in second["steps"]}
    assert {"trainer", "evaluator", "pusher"} <= names


def test_logs_of_a_step(config, capsys):
    run = submit(config, capsys, "--run-name", "sluice e2e, logs")
    assert cli.main(["logs", run["run_id"], "example-gen-probe", *WHERE]) == 0
    assert "resolved" in capsys.readouterr().out


def test_cancel(config, capsys):
    name = ["--run-name", "sluice e2e, cancelled"]
    assert cli.main(["submit", "--config", config, *WHERE, "--json", "--no-cache", *name]) == 0
    run_id = json.loads(capsys.readouterr().out.splitlines()[-1])["run_id"]
    assert cli.main(["cancel", run_id, *WHERE]) == 0
    assert cli.main(["status", run_id, *WHERE, "--wait", "--deadline", "600"]) == 1
