"""The other workloads on the simulated Kubeflow, with too few steps to be good: every step runs, whatever it is of."""

import os

import kfp_simulation
import pytest

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(3600),
    pytest.mark.skipif("SLUICE_KFP_SIM" not in os.environ, reason="minutes: make e2e-kfp-sim"),
]


@pytest.mark.parametrize("workload", ["images", "textgen"])
def test_every_step_runs(tmp_path, workload):
    from kubeflow import compiler
    from kubeflow.config import KubeflowConfig
    from pipeline import config, default_data, pipeline

    shared = tmp_path / "shared"
    settings = config.make_config(
        workload,
        root=str(shared),
        metadata_path="/unused.sqlite",
        train_steps=20,
        num_workers=1,
        compare_with_last_blessed_data=False,
    )
    default_data.make(settings.workload.data, settings.data)
    cluster = KubeflowConfig(image="registry.example/sluice:1a2b3c4", storage=str(shared))
    text = compiler.compile_pipeline(pipeline.create_pipeline(settings), cluster).to_yaml()
    result = kfp_simulation.Cluster(tmp_path).run(text)
    assert result.failures == "none", result.failures
    assert set(result.states.values()) == {"SUCCEEDED"}
    told = result.tasks["run-summary"].execution
    assert told is not None
    summary = kfp_simulation.kfp_launcher.ObjectStore(tmp_path / "objects").path(told.artifacts["summary"]["uri"])
    assert "## Evaluator" in summary.read_text()
