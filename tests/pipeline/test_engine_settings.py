"""A misspelt setting of the training engine is refused when the pipeline is built, not after an hour of Transform."""

import dataclasses

import pytest

from pipeline.config import make_config
from pipeline.pipeline import create_pipeline


def pipeline_with(tmp_path, engine, **changes):
    config = make_config("taxi", root=str(tmp_path))
    train = dataclasses.replace(config.workload.train, engine=engine, **changes)
    return create_pipeline(dataclasses.replace(config, workload=dataclasses.replace(config.workload, train=train)))


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ({"batchsize": 3}, r"workload taxi: train.engine: unknown setting 'batchsize' \(did you mean batch_size"),
        ({"batch_size": "many"}, "workload taxi: train.engine: batch_size is 'many'; expected a whole number"),
        ({"batch_size": 10, "accumulate": 4}, "train.engine: accumulate is 4; expected a divisor"),
        ({"precision": "fp16"}, "train.engine: precision is 'fp16'; expected one of float32, mixed_bfloat16"),
    ],
)
def test_wrong_settings_of_the_engine(tmp_path, engine, message):
    with pytest.raises(RuntimeError, match=message) as raised:
        pipeline_with(tmp_path, engine)
    assert raised.value.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_another_run_fn_has_settings_of_its_own(tmp_path):
    stock = "tfx.experimental.templates.penguin.models.model.run_fn"
    pipeline = pipeline_with(tmp_path, {"batchsize": 3}, run_fn=stock)
    [trainer] = [node for node in pipeline.components if node.id == "Trainer"]
    assert '"batchsize": 3' in trainer.exec_properties["custom_config"]
