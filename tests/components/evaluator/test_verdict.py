"""The verdict is TFMA's, with reasons, and slices too small never decide."""

import json

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_model_analysis.proto import config_pb2
from tfx.types import standard_artifacts
from tfx.utils import proto_utils

from components.evaluator import tfma_hooks
from components.evaluator.errors import EvaluationConfigError
from components.evaluator.executor import Executor
from components.evaluator.grouped_metrics import grouped_eval_config
from components.evaluator.verdict import natural_order, tfma_name
from components.model_registry.executor import overall_metrics
from pipeline.config import EvaluateConfig, MetricConfig
from pipeline.errors import ConfigError
from pipeline.eval_config import build_eval_config

NUM_EXAMPLES = 400


class _Scorer(tf.Module):
    """Serves `x * direction` as a probability, from serialized tf.Examples."""

    def __init__(self, direction: float):
        super().__init__()
        self.direction = tf.Variable(direction)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(self, examples):
        x = tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([1], tf.float32)})["x"]
        return {"probabilities": tf.sigmoid(4.0 * self.direction * x)}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders of a good and of a bad model artifact."""
    folder = tmp_path_factory.mktemp("models")
    for name, direction in (("good", 1.0), ("bad", -1.0)):
        module = _Scorer(direction)
        tf.saved_model.save(module, str(folder / name / "Format-Serving"), signatures={"serving_default": module.serve})
    return folder


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """Examples whose label is x > 0; in the tiny slice `c` it is the other way round."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "Split-eval").mkdir()
    options = tf.io.TFRecordOptions(compression_type="GZIP")
    generator = np.random.default_rng(0)
    with tf.io.TFRecordWriter(str(folder / "Split-eval" / "data-00000-of-00001.gz"), options) as writer:
        for index in range(NUM_EXAMPLES):
            x = float(generator.normal())
            group = "c" if index % 100 == 0 else "ab"[index % 2]
            label = float(x > 0) if group != "c" else float(x <= 0)
            feature = {
                "x": tf.train.Feature(float_list=tf.train.FloatList(value=[x])),
                "y": tf.train.Feature(float_list=tf.train.FloatList(value=[label])),
                "group": tf.train.Feature(bytes_list=tf.train.BytesList(value=[group.encode()])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    return folder


def _evaluate(tmp_path, examples, models, name, config, baseline=None):
    """Runs the executor for real; returns (verdict.json as a dict, blessing artifact, evaluation folder)."""
    data, model = standard_artifacts.Examples(), standard_artifacts.Model()
    data.uri, data.split_names = str(examples), '["eval"]'
    model.uri, model.id = str(models / name), 7
    inputs = {"examples": [data], "model": [model]}
    if baseline:
        other = standard_artifacts.Model()
        other.uri, other.id = str(models / baseline), 3
        inputs["baseline_model"] = [other]
    evaluation, blessing = standard_artifacts.ModelEvaluation(), standard_artifacts.ModelBlessing()
    evaluation.uri, blessing.uri = str(tmp_path / "evaluation"), str(tmp_path / "blessing")
    for path in (evaluation.uri, blessing.uri):
        tf.io.gfile.makedirs(path)
    eval_config = build_eval_config(config)
    grouped = grouped_eval_config(eval_config)  # as the component does
    Executor().Do(
        inputs,
        {"evaluation": [evaluation], "blessing": [blessing]},
        {
            "eval_config": proto_utils.proto_to_json(grouped or eval_config),
            "module_path": tfma_hooks.__name__ if grouped else None,
            "example_splits": '["eval"]',
            "fairness_indicator_thresholds": "null",
        },
    )
    return json.loads((tmp_path / "evaluation" / "verdict.json").read_text()), blessing, tmp_path / "evaluation"


def _config(**changes) -> EvaluateConfig:
    settings = {
        "label_key": "y",
        "preprocessing": None,
        "prediction_key": "probabilities",
        "metrics": (MetricConfig(name="AUC", at_least=0.9, max_loss=0.02, on_slices=True),),
        "slices": (("group",),),
        "min_slice_size": 50,
    }
    return EvaluateConfig(**(settings | changes))


def test_a_good_model_is_blessed_although_a_tiny_slice_is_wrong(tmp_path, examples, models):
    verdict, blessing, folder = _evaluate(tmp_path, examples, models, "good", _config())
    assert verdict["blessed"] is True
    assert verdict["small_slices"] == ["group=c"]
    assert verdict["num_examples"] == NUM_EXAMPLES
    assert [row["passed"] for row in verdict["rows"] if row["metric"] == "auc"] == [True, True, True]
    assert blessing.get_int_custom_property("blessed") == 1
    assert tf.io.gfile.listdir(blessing.uri) == ["BLESSED"]
    evaluation = standard_artifacts.ModelEvaluation()
    evaluation.uri = str(folder)
    (auc,) = [row["value"] for row in verdict["rows"] if (row["metric"], row["slice"]) == ("auc", "all")]
    assert overall_metrics({"evaluation": [evaluation]}) == {"auc": auc, "example_count": NUM_EXAMPLES}
    page = (folder / "report.html").read_text()
    assert "blessed" in page
    assert "group=c" in page


def test_a_bad_model_is_refused_with_numbers(tmp_path, examples, models):
    verdict, blessing, _ = _evaluate(tmp_path, examples, models, "bad", _config(), baseline="good")
    assert verdict["blessed"] is False
    assert verdict["has_baseline"] is True
    assert any(reason.startswith("auc is 0.0") and ">= 0.9" in reason for reason in verdict["reasons"])
    assert any("group=a" in reason for reason in verdict["reasons"])
    assert blessing.get_int_custom_property("blessed") == 0
    assert tf.io.gfile.listdir(blessing.uri) == ["NOT_BLESSED"]


def test_a_model_worse_than_its_baseline_is_refused_on_the_change_alone(tmp_path, examples, models):
    config = _config(metrics=(MetricConfig(name="AUC", max_loss=0.02),))
    verdict, _, _ = _evaluate(tmp_path, examples, models, "bad", config, baseline="good")
    assert verdict["blessed"] is False
    assert len(verdict["reasons"]) == 1
    assert "baseline" in verdict["reasons"][0]


def test_confusion_calibration_and_intervals_reach_the_verdict_and_the_page(tmp_path, examples, models):
    config = _config(
        metrics=(MetricConfig(name="AUC", at_least=0.9), MetricConfig(name="CalibrationPlot")),
        operating_threshold=0.75,
        confidence_intervals=True,
    )
    verdict, _, folder = _evaluate(tmp_path, examples, models, "good", config)
    features = [
        tf.train.Example.FromString(record.numpy()).features.feature
        for record in tf.data.TFRecordDataset([str(examples / "Split-eval" / "data-00000-of-00001.gz")], "GZIP")
    ]
    labels = np.array([feature["y"].float_list.value[0] for feature in features]) > 0
    scores = 1 / (1 + np.exp(-4.0 * np.array([feature["x"].float_list.value[0] for feature in features])))
    assert verdict["confusion"] == {
        "threshold": 0.75,
        "true_positives": np.sum(labels & (scores > 0.75)),
        "false_positives": np.sum(~labels & (scores > 0.75)),
        "true_negatives": np.sum(~labels & (scores <= 0.75)),
        "false_negatives": np.sum(labels & (scores <= 0.75)),
    }
    assert sum(part["count"] for part in verdict["calibration"]) == NUM_EXAMPLES
    top = verdict["calibration"][-1]
    assert top["mean_label"] == pytest.approx(np.mean(labels[scores >= 0.9]), abs=1e-6)
    assert top["mean_prediction"] == pytest.approx(np.mean(scores[scores >= 0.9]), abs=1e-4)
    (whole,) = [row for row in verdict["rows"] if row["slice"] == "all" and row["metric"] == "auc"]
    assert whole["low"] < whole["value"] < whole["high"]
    page = (folder / "report.html").read_text()
    assert "Confusion at the operating threshold 0.75" in page
    assert "Calibration" in page
    assert f"{whole['low']:.4f} to {whole['high']:.4f}" in page


def test_a_config_without_thresholds_is_an_error(tmp_path, examples, models):
    config = _config()
    object.__setattr__(config, "metrics", (MetricConfig(name="AUC"),))
    with pytest.raises(EvaluationConfigError, match="no threshold is set"):
        _evaluate(tmp_path, examples, models, "good", config)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"signature": "score"}, ["no signature `score`", "serving_default"]),
        ({"preprocessing": "transform_features"}, ["no signature `transform_features`", "serving_default"]),
        ({"prediction_key": "logits"}, ["no output `logits`", "probabilities"]),
    ],
)
def test_a_model_that_does_not_fit_is_refused_before_beam_starts(tmp_path, examples, models, change, words):
    with pytest.raises(EvaluationConfigError) as caught:
        _evaluate(tmp_path, examples, models, "good", _config(**change))
    assert all(word in str(caught.value) for word in words)
    assert tf.io.gfile.listdir(str(tmp_path / "evaluation")) == []


@pytest.mark.parametrize(
    ("class_name", "name"),
    [("AUC", "auc"), ("BinaryAccuracy", "binary_accuracy"), ("AUCPrecisionRecall", "auc_precision_recall")],
)
def test_metric_names_are_those_of_tfma(class_name, name):
    assert tfma_name(class_name) == name


def test_bounds_hold_for_the_whole_only_unless_asked():
    config = build_eval_config(_config(metrics=(MetricConfig(name="AUC", at_least=0.9),)))
    (metric,) = [m for m in config.metrics_specs[0].metrics if m.class_name == "AUC"]
    assert not metric.HasField("threshold")
    assert [list(t.slicing_specs) for t in metric.per_slice_thresholds] == [[config_pb2.SlicingSpec()]]


def test_slices_are_ordered_as_people_count():
    names = ["hour=10", "hour=2", "all", "hour=2, kind=b", "hour=1.5", "kind=a"]
    assert sorted(names, key=natural_order) == ["all", "hour=1.5", "hour=2", "hour=2, kind=b", "hour=10", "kind=a"]


def test_an_unknown_metric_is_refused_before_anything_runs():
    with pytest.raises(ConfigError, match="`AUK`; did you mean AUC"):
        build_eval_config(_config(metrics=(MetricConfig(name="AUK", at_least=0.9),)))
