"""What a workload may say beyond the usual: records that it prepares, metrics of its own, rows to ask about."""

import pytest

from pipeline import config_reader, report
from pipeline.config import EvaluateConfig, MetricConfig, WorkloadConfig
from pipeline.errors import ConfigError
from pipeline.eval_config import build_eval_config
from pipeline.run_record import RunRecord

WORKLOAD = {
    "name": "own",
    "train": {"run_fn": "own.run_fn", "train_steps": 1},
    "evaluate": {"label_key": "label", "metrics": [{"name": "AUC", "at_least": 0.5}]},
}


def test_prepare_and_transform_exclude_each_other():
    both = {"prepare": {"prepare_fn": "own.prepare"}, "transform": {"preprocessing_fn": "own.preprocess"}}
    with pytest.raises(ConfigError, match=r"own.yaml: both `transform` and `prepare` say what the Trainer reads"):
        config_reader.read(WorkloadConfig, WORKLOAD | both, "own.yaml")


def test_a_metric_of_ones_own_is_found_by_its_path():
    metrics = (MetricConfig(name="own.metrics.Loss", at_most=1.0), MetricConfig(name="AUC"))
    spec = build_eval_config(EvaluateConfig(label_key="label", metrics=metrics)).metrics_specs[0]
    found = {metric.class_name: metric.module for metric in spec.metrics}
    assert found["Loss"] == "own.metrics"
    assert found["AUC"] == ""


def test_answers_of_several_lines_are_shown_as_they_are():
    record = RunRecord("run", "own", "/root", "/data", "now", 1)
    record.samples = [
        {"input": {"text": "One", "max_new": 3}, "output": {"text": " two\n\n three", "num_tokens": 3}},
        {"input": {"text": "Four"}, "output": {"text": "five"}},
    ]
    assert report._predictions(record).splitlines() == [
        "Asked   text=One, max_new=3",
        'Answer  {"num_tokens": 3}',
        "text:",
        "    |  two",
        "    | ",
        "    |  three",
        "Asked   text=Four",
        'Answer  {"text": "five"}',
    ]
