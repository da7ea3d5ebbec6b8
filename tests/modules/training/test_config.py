"""Settings and TF_CONFIG: what is wrong is named, with what is allowed."""

import dataclasses
import json
import math

import pytest

from modules.training.cluster import ClusterSpec, read_cluster
from modules.training.config import TrainingConfig
from modules.training.errors import TrainingConfigError
from modules.training.strategy import choose_strategy


def test_settings_survive_json():
    config = TrainingConfig(class_weights=((0, 1.0), (1, 2.5)), profile_steps=(2, 4), clip_norm=1.0)
    assert TrainingConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert TrainingConfig.from_dict({"class_weights": {"0": 1, "1": 2.5}}).class_weights == ((0, 1.0), (1, 2.5))
    assert TrainingConfig.from_dict(None) == TrainingConfig()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"batchsize": 3},
            r"w.yaml: train: unknown setting 'batchsize' \(did you mean batch_size\?\); allowed are accumulate",
        ),
        ({1: 2}, "unknown setting 1; allowed are"),
        ({"batch_size": "64"}, "w.yaml: train: batch_size is '64'; expected a whole number"),
        ({"batch_size": True}, "batch_size is True; expected a whole number"),
        ({"learning_rate": "1e-3"}, r"learning_rate is '1e-3'; expected a number \(YAML takes 1e-3 for text"),
        ({"class_weights": {"a": 1}}, "class_weights is 'a'; expected a whole number"),
        ({"class_weights": {0: -1}}, "class_weights is '0: -1.0'; expected weights of 0 or above"),
        ({"seed": 2**40}, "seed is 1099511627776; expected at most 2147483647"),
        ({"prometheus_port": 99999}, "prometheus_port is 99999; expected at most 65535"),
        ({"shuffle_buffer": 10**9}, "shuffle_buffer is 1000000000; expected at most 100000000"),
        ({"early_stopping_evals": 2}, "early_stopping_evals is 2; expected 0, or eval_every as well"),
        ({"batch_size": 0}, "batch_size is 0; expected a number above 0"),
        ({"precision": "fp16"}, "precision is 'fp16'; expected one of float32, mixed_bfloat16, mixed_float16"),
        ({"batch_size": 10, "accumulate": 4}, r"accumulate is 4; expected a divisor of batch_size \(10\)"),
        ({"clip_norm": -1}, "clip_norm is -1.0; expected"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"profile_steps": [5, 2]}, "profile_steps"),
        ({"deterministic": False}, "deterministic is False; expected true unless sharding is 'file'"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(TrainingConfigError, match=message) as raised:
        TrainingConfig.from_dict(settings, "w.yaml: train")
    assert raised.value.exit_code == 2


def test_metrics_are_on_one_port_in_pods_and_on_a_port_each_on_one_machine():
    def ranks(tasks, roles):
        return [ClusterSpec(tasks, role, index).rank_on_host for role, index in roles]

    workers = [("worker", 0), ("worker", 1), ("worker", 2)]
    assert ranks({"worker": ("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3")}, workers) == [0, 1, 2]
    assert ranks({"worker": ("a-0.a:2222", "a-1.a:2222", "a-2.a:2222")}, workers) == [0, 0, 0]
    assert ranks({"worker": ("one:1", "two:1", "one:2")}, workers) == [0, 0, 1]
    assert ranks({"chief": ("one:1",), "worker": ("one:2", "two:1")}, [("chief", 0), *workers[:2]]) == [0, 1, 0]
    assert ranks({}, workers[:1]) == [0]
    assert ranks({"chief": ("one:1",), "worker": ("one:2",), "ps": ("one:3",)}, [("evaluator", 0)]) == [0]


def test_best_is_lowest_for_losses_and_errors_and_highest_for_the_rest_unless_told():
    for name, maximise in {"loss": False, "val/mae": False, "auc": True}.items():
        assert TrainingConfig(best_metric=name).maximise == maximise
        assert TrainingConfig(best_metric=name, best_mode="max").maximise
        assert not TrainingConfig(best_metric=name, best_mode="min").maximise


TWO = {"worker": ["a:1", "b:1"]}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{", "TF_CONFIG is not JSON"),
        ({"cluster": {"boss": ["a:1"]}, "task": {"type": "boss", "index": 0}}, "unknown task type 'boss'"),
        ({"cluster": {"worker": ["a"]}, "task": {"type": "worker", "index": 0}}, "'a' in cluster.worker is not"),
        ({"cluster": {"worker": ["a:1", "a:1"]}, "task": {"type": "worker", "index": 0}}, "worker 0 and worker 1 have"),
        ({"cluster": TWO}, "'task' must say which member"),
        ({"cluster": TWO, "task": {"type": "worker", "index": 2}}, "task index 2 of 'worker' is outside the cluster"),
        (
            {"cluster": TWO, "task": {"type": "ps", "index": 0}},
            "task type 'ps' is not in the cluster",
        ),
        ({"cluster": TWO, "task": {"type": "worker", "index": "1"}}, "task index is '1'; expected a whole number"),
        ({"cluster": TWO, "task": {"type": ["worker"], "index": 0}}, "task type .* is not in the cluster"),
        ({"cluster": ["a:1"], "task": {"type": "worker", "index": 0}}, "'cluster' must map task types to addresses"),
        ({"cluster": TWO, "task": {"type": "evaluator", "index": 0}}, "an evaluator needs parameter servers"),
        ({"cluster": {"worker": ["http://a:1"]}, "task": {"type": "worker", "index": 0}}, "is not 'host:port'"),
        ({"cluster": {"chief": ["a:1", "b:1"]}, "task": {"type": "chief", "index": 0}}, "there can be one chief"),
        ({"cluster": {**TWO, "ps": ["c:1"]}, "task": {"type": "ps", "index": 0}}, "need a chief and workers"),
    ],
)
def test_wrong_tf_config_is_named(value, message):
    text = value if isinstance(value, str) else json.dumps(value)
    with pytest.raises(TrainingConfigError, match=message):
        read_cluster({"TF_CONFIG": text})


def cluster(kind, index, tasks):
    return read_cluster({"TF_CONFIG": json.dumps({"cluster": tasks, "task": {"type": kind, "index": index}})})


def test_chief_and_ranks():
    assert read_cluster({}).is_chief
    assert cluster("worker", 0, TWO).is_chief
    assert not cluster("worker", 1, TWO).is_chief
    with_chief = {"chief": ["c:1"], **TWO}
    assert cluster("chief", 0, with_chief).is_chief
    assert cluster("worker", 0, with_chief).worker_rank == 1
    assert not cluster("worker", 0, with_chief).is_chief


def test_strategy_follows_tf_config_and_devices():
    assert choose_strategy(TrainingConfig(), read_cluster({}), 0) == "one_device"
    assert choose_strategy(TrainingConfig(), read_cluster({}), 2) == "mirrored"
    assert choose_strategy(TrainingConfig(), cluster("worker", 1, TWO), 8) == "multi_worker"
    asynchronous = {"chief": ["c:1"], "ps": ["p:1"], **TWO}
    assert choose_strategy(TrainingConfig(), cluster("ps", 0, asynchronous), 0) == "parameter_server"
    with pytest.raises(TrainingConfigError, match="strategy is 'mirrored', but TF_CONFIG describes a cluster"):
        choose_strategy(TrainingConfig(strategy="mirrored"), cluster("worker", 0, TWO), 2)


ODD = ["x", "", "1e-3", 1.5, -1, True, None, [], ["x"], [[]], [1, "x"], {}, {"a": 1}, {"0": "x"}, math.nan, 10**30]


@pytest.mark.parametrize("field", dataclasses.fields(TrainingConfig), ids=lambda field: field.name)
def test_an_odd_value_is_named_or_is_a_setting(field):
    for value in ODD:
        try:
            config = TrainingConfig.from_dict({field.name: value}, "w.yaml: train")
        except TrainingConfigError as error:
            message = str(error)
        else:
            message = ""
            assert TrainingConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
        assert not message or message.startswith(f"w.yaml: train: {field.name} is "), value
        assert "\n" not in message
