"""TFX's own Tuner searches with the training engine, and the Trainer trains with what it found, in one TFX pipeline."""

import json
import pathlib

import pytest
from tfx.components import Tuner
from tfx.dsl.components.common.importer import Importer
from tfx.orchestration import metadata, pipeline
from tfx.orchestration.local.local_dag_runner import LocalDagRunner
from tfx.proto import trainer_pb2
from tfx.types import standard_artifacts

from components.trainer.component import Trainer

RUN_FNS = pathlib.Path(__file__).parent / "run_fns"


@pytest.mark.e2e
def test_the_trainer_takes_what_the_stock_tuner_has_found(sums, monkeypatch, capfd):
    monkeypatch.syspath_prepend(str(RUN_FNS))
    examples = Importer(
        source_uri=str(sums / "examples"),
        artifact_type=standard_artifacts.Examples,
        properties={"split_names": '["train", "eval"]'},
    ).with_id("Examples")
    schema = Importer(source_uri=str(sums / "schema"), artifact_type=standard_artifacts.Schema).with_id("Schema")
    inputs = {"examples": examples.outputs["result"], "schema": schema.outputs["result"]}
    steps = {"train_args": trainer_pb2.TrainArgs(num_steps=60), "eval_args": trainer_pb2.EvalArgs(num_steps=4)}
    tuner = Tuner(tuner_fn="searched.tuner_fn", **inputs, **steps)
    trainer = Trainer("searched.run_fn", hyperparameters=tuner.outputs["best_hyperparameters"], **inputs, **steps)
    LocalDagRunner().run(
        pipeline.Pipeline(
            pipeline_name="search",
            pipeline_root=str(sums / "root"),
            components=[examples, schema, tuner, trainer],
            metadata_connection_config=metadata.sqlite_metadata_connection_config(str(sums / "metadata.db")),
        )
    )
    [found] = (sums / "root" / "Tuner" / "best_hyperparameters").glob("*/best_hyperparameters.txt")
    assert json.loads(found.read_text())["values"] == {"rate": 0.1}
    [results] = (sums / "root" / "Tuner" / "tuner_results").glob("*/tuner_results.json")
    assert {trial["rate"] for trial in json.loads(results.read_text())} == {1e-6, 0.1}
    assert "learned to a loss of 0.0" in capfd.readouterr().err
    assert list((sums / "root" / "Trainer" / "model").glob("*/Format-Serving/saved_model.pb"))
