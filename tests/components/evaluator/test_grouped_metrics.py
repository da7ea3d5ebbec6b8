"""Metrics from groups of rows are the stock path's metrics, number by number."""

import json
import math

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.proto import config_pb2
from tfx.types import standard_artifacts
from tfx.utils import proto_utils

from components.evaluator import tfma_hooks
from components.evaluator.component import Evaluator
from components.evaluator.executor import Executor
from components.evaluator.grouped_metrics import grouped_eval_config
from components.evaluator.row_groups import GroupRowsFn
from pipeline.config import EvaluateConfig, MetricConfig
from pipeline.eval_config import build_eval_config

NUM_EXAMPLES = 250
NUM_CLASSES = 3

BINARY = (
    ("AUC", {}),
    ("AUCPrecisionRecall", {}),
    ("BinaryAccuracy", {"threshold": 0.4}),
    ("Precision", {}),
    ("Recall", {"thresholds": [0.3]}),
    ("BinaryCrossentropy", {}),
    ("Calibration", {}),
    ("MeanLabel", {}),
    ("MeanPrediction", {}),
    ("MeanSquaredError", {}),
    ("MeanAbsolutePercentageError", {}),
    ("CalibrationPlot", {}),
)
CLASSES = (("SparseCategoricalAccuracy", {}), ("SparseCategoricalCrossentropy", {}), ("AUC", {}))


class _Scorer(tf.Module):
    """Probabilities from serialized tf.Examples: of one event, or of three classes."""

    def __init__(self, num_outputs: int):
        super().__init__()
        self.weights = tf.Variable(tf.linspace([1.5], [-2.0], num_outputs, axis=1))  # [1, num_outputs]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(self, examples):
        x = tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([1], tf.float32)})["x"]
        logits = x @ self.weights
        return {"probabilities": tf.sigmoid(logits) if logits.shape[1] == 1 else tf.nn.softmax(logits)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Examples with one, several or no value of what they are sliced by, and two models."""
    folder = tmp_path_factory.mktemp("grouped")
    (folder / "Split-eval").mkdir()
    generator = np.random.default_rng(3)
    options = tf.io.TFRecordOptions(compression_type="GZIP")
    with tf.io.TFRecordWriter(str(folder / "Split-eval" / "data-00000-of-00001.gz"), options) as writer:
        for index in range(NUM_EXAMPLES):
            x = float(generator.normal())
            tags = [tag for tag in (b"red", b"green", "bl\u00fc".encode()) if generator.random() < 0.4]
            features = {
                "x": tf.train.Feature(float_list=tf.train.FloatList(value=[x])),
                "event": _integers([int(x + generator.normal() > 0)]),
                "kind": _integers([int(np.clip(round(x + generator.normal()), -1, 1)) + 1]),
                "hour": _integers([index % 4] if index % 5 else []),
                "tags": tf.train.Feature(bytes_list=tf.train.BytesList(value=tags)),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    for name, num_outputs in (("event", 1), ("kind", NUM_CLASSES)):
        module = _Scorer(num_outputs)
        path = str(folder / name / "Format-Serving")
        tf.saved_model.save(module, path, signatures={"serving_default": module.serve})
    return folder


def _integers(values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def _config(label: str, metrics) -> config_pb2.EvalConfig:
    config = EvaluateConfig(
        label_key=label,
        preprocessing=None,
        prediction_key="probabilities",
        metrics=(
            MetricConfig(name="ExampleCount", at_least=1),
            *(MetricConfig(name=name, params=params) for name, params in metrics),
        ),
        slices=(("hour",), ("tags",)),
        min_slice_size=12,
        operating_threshold=0.25 if label == "event" else None,
    )
    return build_eval_config(config)


def _numbers(folder, output, label, config, module_path):
    """Every number that TFMA wrote: {(slice, metric or plot, part): value}; and the verdict."""
    data, model, baseline = standard_artifacts.Examples(), standard_artifacts.Model(), standard_artifacts.Model()
    data.uri, data.split_names = str(folder), '["eval"]'
    for artifact, number in ((model, 1), (baseline, 2)):
        artifact.uri, artifact.id = str(folder / label), number
    evaluation, blessing = standard_artifacts.ModelEvaluation(), standard_artifacts.ModelBlessing()
    evaluation.uri, blessing.uri = str(output / "evaluation"), str(output / "blessing")
    for path in (evaluation.uri, blessing.uri):
        tf.io.gfile.makedirs(path)
    Executor().Do(
        {"examples": [data], "model": [model], "baseline_model": [baseline]},
        {"evaluation": [evaluation], "blessing": [blessing]},
        {
            "eval_config": proto_utils.proto_to_json(config),
            "example_splits": '["eval"]',
            "fairness_indicator_thresholds": "null",
            **({"module_path": module_path} if module_path else {}),
        },
    )
    found = {}
    for record in [*tfma.load_metrics(evaluation.uri), *tfma.load_plots(evaluation.uri)]:
        items = getattr(record, "metric_keys_and_values", None) or getattr(record, "plot_keys_and_values", ())
        for item in items:
            key = (str(record.slice_key), str(item.key))
            found.update({(*key, part): value for part, value in _leaves(item.value)})
    return found, (output / "evaluation" / "verdict.json").read_text()


def _leaves(message, path=""):
    for field, value in message.ListFields():
        values = value if field.is_repeated else [value]
        for index, part in enumerate(values):
            name = f"{path}.{field.name}[{index}]"
            if field.message_type:
                yield from _leaves(part, name)
            else:
                yield name, part


@pytest.mark.parametrize(("label", "metrics"), [("event", BINARY), ("kind", CLASSES)])
def test_every_number_is_the_stock_paths(folder, tmp_path, label, metrics):
    config = _config(label, metrics)
    grouped = grouped_eval_config(config)
    stock_config = config_pb2.EvalConfig()
    stock_config.CopyFrom(config)
    stock_config.options.ClearField("min_slice_size")  # so that the smallest slices are compared too
    stock, _ = _numbers(folder, tmp_path / "stock", label, stock_config, None)
    found, _ = _numbers(folder, tmp_path / "grouped", label, grouped, tfma_hooks.__name__)
    assert len(stock) > 60
    assert found.keys() == stock.keys()
    wrong = {key: (value, stock[key]) for key, value in found.items() if not _same(value, stock[key])}
    assert wrong == {}


def _same(one, other):
    if isinstance(one, float):
        return math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-6) or (math.isnan(one) and math.isnan(other))
    return one == other


def test_small_slices_are_the_same_ones_and_do_not_decide(folder, tmp_path):
    metrics = (MetricConfig(name="AUC", at_least=0.99, on_slices=True),)
    settings = {"label_key": "event", "preprocessing": None, "prediction_key": "probabilities", "metrics": metrics}
    config = build_eval_config(EvaluateConfig(**settings, slices=(("hour", "tags"),), min_slice_size=20))
    _, stock = _numbers(folder, tmp_path / "stock", "event", config, None)
    _, found = _numbers(folder, tmp_path / "grouped", "event", grouped_eval_config(config), tfma_hooks.__name__)
    stock, found = json.loads(stock), json.loads(found)
    assert stock["small_slices"]
    assert found.pop("slice_examples").items() > stock.pop("slice_examples").items()  # stock drops the small ones
    assert found == stock


@pytest.mark.parametrize(
    "metric",
    [
        config_pb2.MetricConfig(class_name="BitsPerByte", module="modules.textgen.metrics"),
        config_pb2.MetricConfig(class_name="NDCG", config='{"gain_key": "gain", "top_k_list": [1]}'),
        config_pb2.MetricConfig(class_name="Precision", config='{"top_k": 2}'),
    ],
)
def test_metrics_that_need_single_rows_keep_the_stock_path(metric):
    config = config_pb2.EvalConfig(metrics_specs=[config_pb2.MetricsSpec(metrics=[metric])])
    assert grouped_eval_config(config) is None


def test_confidence_intervals_keep_the_stock_path():
    config = _config("event", BINARY)
    config.options.compute_confidence_intervals.value = True
    assert grouped_eval_config(config) is None


def test_the_component_groups_by_itself_unless_a_module_is_given():
    channels = {
        "examples": standard_artifacts_channel(standard_artifacts.Examples),
        "model": standard_artifacts_channel(standard_artifacts.Model),
    }
    grouped = Evaluator(**channels, eval_config=_config("event", BINARY))
    assert grouped.exec_properties["module_path"] == tfma_hooks.__name__
    own = Evaluator(**channels, eval_config=_config("event", BINARY), module_path="modules.taxi.features")
    assert own.exec_properties["module_path"] == "modules.taxi.features"


def standard_artifacts_channel(kind):
    from tfx.types import channel

    return channel.Channel(type=kind)


def test_a_row_without_a_label_is_named_not_guessed():
    from tensorflow_model_analysis.api import types

    labels = types.VarLenTensorValue.from_dense_rows([np.array([1]), np.array([])])
    batch = {"labels": labels, "predictions": np.array([0.1, 0.2]), "features": {}}
    with pytest.raises(ValueError, match=r"labels: rows have \[0, 1\] values"):
        list(GroupRowsFn([config_pb2.SlicingSpec()]).process(batch))
