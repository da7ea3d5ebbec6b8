"""The step as TFX sees it: its contract, and its executor with real artifacts and a run_fn written for TFX alone."""

import itertools
import pathlib
import random
import shutil

import pytest
import tensorflow as tf
from tfx.components.trainer import component as stock
from tfx.proto import trainer_pb2
from tfx.types import channel_utils, standard_artifacts
from tfx.utils import json_utils, proto_utils

from components.trainer import fn_args as fn_args_module
from components.trainer.cluster_config import ClusterConfig
from components.trainer.component import Trainer
from components.trainer.errors import TrainingConfigError, TrainingError
from components.trainer.executor import Executor
from components.trainer.training_spec import TrainingSpec

RUN_FNS = pathlib.Path(__file__).parent / "run_fns"


@pytest.fixture(autouse=True)
def importable_run_fns(monkeypatch):
    monkeypatch.syspath_prepend(str(RUN_FNS))


@pytest.fixture
def examples(tmp_path):
    """y is the sum of x's four numbers."""
    artifact = standard_artifacts.Examples()
    artifact.uri, artifact.split_names = str(tmp_path / "examples"), '["train", "eval"]'
    numbers = random.Random(0)
    for split in ("train", "eval"):
        xs = [[numbers.random() for _ in range(4)] for _ in range(128)]
        write_examples(tmp_path / "examples" / f"Split-{split}", [{"x": x, "y": [sum(x)]} for x in xs])
    return artifact


def write_examples(folder, rows):
    """One file of tf.Examples; a row maps names to lists of floats or of whole numbers."""
    folder.mkdir(parents=True)
    with tf.io.TFRecordWriter(str(folder / "data-00000-of-00001.gz"), options="GZIP") as writer:
        for row in rows:
            example = tf.train.Example()
            for name, values in row.items():
                feature = example.features.feature[name]
                column = feature.int64_list if isinstance(values[0], int) else feature.float_list
                column.value.extend(values)
            writer.write(example.SerializeToString())


@pytest.fixture
def execute(tmp_path, examples):
    """execute(run_fn, ...) runs the executor as TFX's launcher does, and cleans up as it does after a failure.

    Returns the model artifact's folder.
    """

    executions = itertools.count(1)

    def execute(run_fn, cluster=None, custom_config=None, code_fingerprint="", examples=examples, schema=None):
        model, model_run = standard_artifacts.Model(), standard_artifacts.ModelRun()
        execution = str(next(executions))
        model.uri = str(tmp_path / "Trainer" / "model" / execution)
        model_run.uri = str(tmp_path / "Trainer" / "model_run" / execution)
        for artifact in (model, model_run):
            pathlib.Path(artifact.uri).mkdir(parents=True)
        exec_properties = {
            "run_fn": run_fn,
            "train_args": proto_utils.proto_to_json(trainer_pb2.TrainArgs(num_steps=30)),
            "eval_args": proto_utils.proto_to_json(trainer_pb2.EvalArgs(num_steps=5)),
            "custom_config": json_utils.dumps(custom_config),
            "cluster": (cluster or ClusterConfig()).to_json(),
            "code_fingerprint": code_fingerprint,
        }
        try:
            inputs = {"examples": [examples]} | ({"schema": [schema]} if schema else {})
            Executor().Do(inputs, {"model": [model], "model_run": [model_run]}, exec_properties)
        except Exception:
            shutil.rmtree(model.uri)
            shutil.rmtree(model_run.uri)
            raise
        return pathlib.Path(model.uri)

    return execute


def channel(artifact_type):
    return channel_utils.as_channel([artifact_type()])


def test_the_contract_is_the_stock_trainers():
    arguments = {
        "run_fn": "modules.taxi.model.run_fn",
        "examples": channel(standard_artifacts.Examples),
        "transform_graph": channel(standard_artifacts.TransformGraph),
        "schema": channel(standard_artifacts.Schema),
        "base_model": channel(standard_artifacts.Model),
        "hyperparameters": channel(standard_artifacts.HyperParameters),
        "train_args": trainer_pb2.TrainArgs(num_steps=7),
        "eval_args": trainer_pb2.EvalArgs(num_steps=5),
        "custom_config": {"training": {"batch_size": 8}},
    }
    ours, theirs = Trainer(**arguments), stock.Trainer(**arguments)
    assert set(ours.inputs) == set(theirs.inputs)
    assert _types(ours.outputs) == _types(theirs.outputs)
    own = {"cluster", "code_fingerprint"}
    given = {key: value for key, value in ours.exec_properties.items() if key not in own}
    assert given | {"module_file": None} == theirs.exec_properties
    assert ours.id == theirs.id == "Trainer"


def _types(channels):
    return {key: channel.type for key, channel in channels.items()}


def test_the_code_and_the_cluster_are_part_of_the_cache_key():
    examples = channel(standard_artifacts.Examples)
    trainer = Trainer("a.b", examples, cluster=ClusterConfig(num_workers=3), code_fingerprint="abc")
    assert trainer.exec_properties["code_fingerprint"] == "abc"
    assert ClusterConfig.from_json(trainer.exec_properties["cluster"]) == ClusterConfig(num_workers=3)


@pytest.mark.parametrize("run_fn", ["run_fn", "my-package.run_fn", "a..b", ""])
def test_run_fn_is_a_dotted_path(run_fn):
    with pytest.raises(TrainingConfigError, match="expected a dotted path"):
        Trainer(run_fn, channel(standard_artifacts.Examples))


@pytest.mark.e2e
@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_stock_run_fn_runs_unchanged(execute, capfd, num_workers):
    model_dir = execute("stock.run_fn", ClusterConfig(num_workers=num_workers), custom_config={"note": "hello"})
    assert [path.name for path in model_dir.iterdir()] == ["Format-Serving"]
    model = tf.saved_model.load(str(model_dir / "Format-Serving"))
    [prediction] = model.signatures["serving_default"](tf.ones([1, 4])).values()
    assert prediction.shape == (1, 1)
    assert f"replicas: {num_workers}, custom_config: {{'note': 'hello'}}" in capfd.readouterr().err


@pytest.mark.e2e
def test_stock_parameter_servers(execute, capfd):
    model_dir = execute("stock_parameter_server.run_fn", ClusterConfig(num_workers=2, num_parameter_servers=1))
    assert "[chief 0] weight 10.0 on /job:ps/replica:0/task:0" in capfd.readouterr().err
    assert (model_dir / "Format-Serving" / "saved_model.pb").exists()


@pytest.mark.e2e
def test_tfx_own_penguin_template_runs_unchanged_and_is_told_that_its_workers_do_not_work_together(
    execute, tmp_path, capfd
):
    """It reads through TFX's data accessor, saves Keras' way, and knows MirroredStrategy only."""
    examples, schema = standard_artifacts.Examples(), standard_artifacts.Schema()
    examples.uri, examples.split_names = str(tmp_path / "penguins"), '["train", "eval"]'
    schema.uri = str(tmp_path / "schema")
    measures = ["culmen_length_mm", "culmen_depth_mm", "flipper_length_mm", "body_mass_g"]
    shape = "shape { dim { size: 1 } } presence { min_fraction: 1.0 }"
    lines = [f'feature {{ name: "{name}" type: FLOAT {shape} }}' for name in measures]
    (tmp_path / "schema").mkdir()
    text = "\n".join([*lines, f'feature {{ name: "species" type: INT {shape} }}'])
    (tmp_path / "schema" / "schema.pbtxt").write_text(text)
    for split in ("train", "eval"):
        rows = [{name: [float(number % 3)] for name in measures} | {"species": [number % 3]} for number in range(60)]
        write_examples(tmp_path / "penguins" / f"Split-{split}", rows)
    template = "tfx.experimental.templates.penguin.models.model.run_fn"
    model_dir = execute(template, ClusterConfig(num_workers=2), examples=examples, schema=schema)
    model = tf.saved_model.load(str(model_dir / "Format-Serving"))
    [file] = (tmp_path / "penguins" / "Split-eval").iterdir()
    records = list(tf.data.TFRecordDataset(str(file), "GZIP").take(3))
    assert model.signatures["serving_default"](examples=tf.stack(records))["outputs"].shape == (3, 3)
    assert f"[worker 0] note: {template} used no strategy for several workers" in capfd.readouterr().err


@pytest.mark.e2e
def test_an_error_leaves_no_model(execute, tmp_path):
    with pytest.raises(TrainingError, match="ValueError"):
        execute("scripted.one_raises", ClusterConfig(num_workers=2))
    assert sorted(path.name for path in (tmp_path / "Trainer").rglob("*")) == ["model", "model_run"]


@pytest.mark.e2e
@pytest.mark.parametrize("run_fn", ["scripted.preempted_twice", "scripted.finds_no_room_twice"])
def test_an_interrupted_execution_is_gone_on_with(execute, tmp_path, run_fn):
    options = {"cluster": ClusterConfig(max_restarts=0), "code_fingerprint": "abc"}
    for _ in range(2):
        with pytest.raises(TrainingError, match="; the same run again goes on from the last checkpoint"):
            execute(run_fn, **options)
    model_dir = execute(run_fn, **options)
    assert (model_dir / "Format-Serving" / "saved_model.pb").exists()
    marks = tmp_path / "Trainer" / "model_run" / model_dir.name / "marks"
    assert (marks / "attempts-worker-0").read_text() == "..."
    assert list((tmp_path / "Trainer" / ".unfinished").iterdir()) == []


@pytest.mark.e2e
@pytest.mark.parametrize("second", [{"code_fingerprint": "new"}, {"code_fingerprint": ""}, {"custom_config": {"a": 1}}])
def test_another_execution_starts_anew(execute, second):
    options = {"cluster": ClusterConfig(max_restarts=0), "code_fingerprint": "abc"}
    for changed in ({}, second):
        with pytest.raises(TrainingError, match="try 1"):
            execute("scripted.preempted_twice", **(options | changed))


def test_light_fn_args_have_every_attribute_of_tfx(tmp_path, examples):
    from tfx.components.trainer import fn_args_utils

    spec = TrainingSpec(run_fn="a.b", fn_args={"custom_config": None}, tfx={}, model_dir="", job_dir="")
    light = fn_args_module.FnArgs(spec, spec.fn_args)
    given = fn_args_module.plain_fields(fn_args_utils.FnArgs())
    assert set(given) | {"data_accessor"} == {field.name for field in fn_args_utils.FnArgs.__attrs_attrs__}
    assert all(getattr(light, name) is None for name in given)
