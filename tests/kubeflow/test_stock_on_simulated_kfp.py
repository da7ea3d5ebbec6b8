"""TFX's own components, unmodified, on the simulated Kubeflow: eight executors, a resolver, a condition, a value."""

import os
import pathlib

import kfp_simulation
import pytest
import tfx as tfx_package
from tensorflow_model_analysis.proto import config_pb2
from tfx import v1 as tfx
from tfx.dsl.experimental.conditionals import conditional

from kubeflow import compiler
from kubeflow.config import KubeflowConfig, OutcomeConfig

SOURCE = pathlib.Path(tfx_package.__file__).parent / "examples/chicago_taxi_pipeline/data/simple/data.csv"
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(3600),
    pytest.mark.skipif("SLUICE_KFP_SIM" not in os.environ, reason="minutes: make e2e-kfp-sim"),
]


def eval_config(largest_error: float) -> config_pb2.EvalConfig:
    bound = config_pb2.MetricThreshold(
        value_threshold=config_pb2.GenericValueThreshold(upper_bound={"value": largest_error})
    )
    return config_pb2.EvalConfig(
        model_specs=[config_pb2.ModelSpec(label_key="fare", signature_name="serving_default")],
        slicing_specs=[config_pb2.SlicingSpec()],
        metrics_specs=[
            config_pb2.MetricsSpec(
                metrics=[config_pb2.MetricConfig(class_name="MeanSquaredError", threshold=bound)],
            )
        ],
    )


def pipeline(samples, shared: pathlib.Path, largest_error: float) -> tfx.dsl.Pipeline:
    gen = tfx.components.CsvExampleGen(input_base=str(shared / "data"))
    statistics = tfx.components.StatisticsGen(examples=gen.outputs["examples"])
    schema = tfx.components.SchemaGen(statistics=statistics.outputs["statistics"])
    validator = tfx.components.ExampleValidator(
        statistics=statistics.outputs["statistics"], schema=schema.outputs["schema"]
    )
    trainer = tfx.components.Trainer(
        run_fn="tests.kubeflow.stock_model.run_fn",
        examples=gen.outputs["examples"],
        schema=schema.outputs["schema"],
        train_args=tfx.proto.TrainArgs(num_steps=20),
        eval_args=tfx.proto.EvalArgs(num_steps=1),
    )
    latest = samples.resolver()
    evaluator = tfx.components.Evaluator(
        examples=gen.outputs["examples"],
        model=trainer.outputs["model"],
        baseline_model=latest.outputs["model"],
        eval_config=eval_config(largest_error),
    )
    rows = samples.count_rows(examples=gen.outputs["examples"])
    said = samples.announce(rows=rows.outputs["rows"].future()[0].value)
    with conditional.Cond(evaluator.outputs["blessing"].future()[0].custom_property("blessed") == 1):
        pusher = tfx.components.Pusher(
            model=trainer.outputs["model"],
            push_destination=tfx.proto.PushDestination(
                filesystem=tfx.proto.PushDestination.Filesystem(base_directory=str(shared / "serving"))
            ),
        )
    nodes = [gen, statistics, schema, validator, trainer, latest, evaluator, rows, said, pusher]
    return samples.pipeline(nodes, "stock", beam_pipeline_args=["--runner=DirectRunner", "--direct_num_workers=1"])


def test_stock_components(sample_pipelines, tmp_path):
    shared = tmp_path / "shared"
    (shared / "data").mkdir(parents=True)
    lines = SOURCE.read_text().splitlines(keepends=True)
    (shared / "data" / "trips.csv").write_text("".join(lines[:2001]))
    tell = OutcomeConfig(command=("sh", "-c", f"cat > {shared}/outcome.json"))
    config = KubeflowConfig(image="registry.example/sluice:1a2b3c4", storage=str(shared), outcome=tell)
    here = pathlib.Path(__file__).parent  # the image of somebody whose components are in sample_pipelines.py
    cluster = kfp_simulation.Cluster(tmp_path, environment={"PYTHONPATH": f"{here.parents[1]}:{here}"})

    blessed = compiler.compile_pipeline(pipeline(sample_pipelines, shared, 1e9), config).to_yaml()
    first = cluster.run(blessed)
    assert first.failures == "none", first.failures
    assert set(first.states.values()) == {"SUCCEEDED"}
    assert len(list((shared / "serving").iterdir())) == 1
    assert '"succeeded": true' in (shared / "outcome.json").read_text()
    assert "hello" in first.tasks["announce"].log

    second = cluster.run(blessed)
    probe = second.tasks["latest-blessed-model-resolver-probe"].execution.parameters
    assert probe == {"resolved": "true", "version": "1"}
    assert second.states["evaluator"] == "SUCCEEDED"  # it has a baseline now
    assert second.states["trainer"] == "CACHED"

    refused = cluster.run(compiler.compile_pipeline(pipeline(sample_pipelines, shared, 1e-9), config).to_yaml())
    assert refused.failures == "none", refused.failures
    assert refused.states["pusher"] == "SKIPPED"
