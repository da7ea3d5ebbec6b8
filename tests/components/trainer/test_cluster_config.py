"""Settings of the cluster: whatever is wrong with one is said in one line that names it."""

import dataclasses
import math

import pytest

from components.trainer.cluster_config import ClusterConfig
from components.trainer.errors import TrainingConfigError
from components.trainer.kubernetes.config import KubernetesConfig, SecretVariable, VolumeClaim
from kubeflow.config import KubeflowConfig

ODD = ["x", "", 1.5, -1, 0, True, None, [], ["x"], [[]], {}, {"a": 1}, {1: "a"}, math.nan, math.inf, 10**30]
PODS = {"image": "x"}
PLACES = {
    ClusterConfig: lambda mapping: mapping,
    KubernetesConfig: lambda mapping: {"kubernetes": {**PODS, **mapping}},
    VolumeClaim: lambda mapping: {"kubernetes": {**PODS, "volumes": [{"claim": "a", "mount_path": "/a", **mapping}]}},
    SecretVariable: lambda mapping: {
        "kubernetes": {**PODS, "secret_variables": [{"variable": "A", "secret": "b", "key": "c", **mapping}]}
    },
}


def read(mapping):
    """The configuration, or the error in its place."""
    try:
        return ClusterConfig.from_dict(mapping, "cluster.yaml: trainer")
    except TrainingConfigError as error:
        return error


@pytest.mark.parametrize("kind", PLACES)
def test_an_odd_value_is_named_or_is_a_setting(kind):
    results = [(field.name, read(PLACES[kind]({field.name: odd}))) for field in dataclasses.fields(kind) for odd in ODD]
    configs = [result for _, result in results if isinstance(result, ClusterConfig)]
    refused = [(name, result) for name, result in results if isinstance(result, TrainingConfigError)]
    for config in configs:
        assert ClusterConfig.from_json(config.to_json()) == config
    for name, error in refused:
        assert error.exit_code == 2
        assert str(error).startswith("cluster.yaml: trainer: ")
        assert name in str(error)
        assert "\n" not in str(error)
    assert len(refused) > len(configs) > 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_workers": "x"}, "cluster: `num_workers`: expected a whole number, found 'x'"),
        ({"num_worker": 2}, "cluster: unknown key `num_worker`. Did you mean `num_workers`"),
        ({"backends": "local"}, "`backends`: expected a list, found 'local'"),
        ({"backends": ["swarm"]}, r"backends has \['swarm'\]; allowed: local, trainjob"),
        ({"peer_exit_seconds": -1}, "peer_exit_seconds is -1.0; expected 0 or more"),
        ({"grace_seconds": math.inf}, "`grace_seconds`: expected a finite number, found inf"),
        ({"first_port": 65535, "num_workers": 2}, "first_port is 65535; expected 0, or 1024 and above with all"),
        ({"env": {"NCCL_DEBUG": 1}}, "`env`: `NCCL_DEBUG`: expected text, found 1"),
        ({"env": {"TF_CONFIG": "{}"}}, "env has TF_CONFIG, which the step sets itself for each worker; leave it out"),
        ({"kubernetes": "x"}, "`kubernetes`: expected a mapping of keys to values, found 'x'"),
        ({"kubernetes": {"image": "x", "num_gpus": "x"}}, "`kubernetes`: `num_gpus`: expected a whole number"),
    ],
)
def test_mistakes_are_named(values, message):
    with pytest.raises(TrainingConfigError, match=message):
        ClusterConfig.from_dict(values, "cluster")


@pytest.mark.parametrize(
    ("trainer", "message"),
    [
        ({"backends": 5}, "`backends`: expected a list, found 5"),
        ({"backends": [["jobset"]]}, r"`backends`\[0\]: expected text, found \['jobset'\]"),
        ({"backends": ["jobset"], "kubernetes": "x"}, "`kubernetes`: expected a mapping of keys to values, found 'x'"),
        ({"backends": ["jobset"], "kubernetes": {"num_gpus": "x"}}, "`num_gpus`: expected a whole number, found 'x'"),
    ],
)
def test_mistakes_in_a_kubeflow_configuration_get_as_far_as_their_message(trainer, message):
    config = KubeflowConfig(image="registry.example/sluice:1a2b3c4", trainer=trainer)
    with pytest.raises(TrainingConfigError, match=message):
        ClusterConfig.from_dict(config.trainer_cluster(), "kubeflow config: trainer")
