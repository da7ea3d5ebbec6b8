"""Settings and TF_CONFIG: what is wrong is named, with what is allowed."""

import json

import pytest

from modules.training.cluster import read_cluster
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
        ({"batchsize": 3}, "w.yaml: train: unknown setting 'batchsize'; allowed are accumulate, base_batch_size"),
        ({"batch_size": "64"}, "w.yaml: train: batch_size is '64'; expected int"),
        ({"batch_size": True}, "batch_size is True; expected int"),
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
