"""Manifests: compared with goldens, and valid by Kubernetes' published schemas and the CRDs' own rules.

After a deliberate change: UPDATE_GOLDENS=1 pytest tests/components/trainer/kubernetes, then read the diff.
"""

import copy
import dataclasses
import json
import os
import pathlib
import re

import jsonschema
import kubernetes_validate
import pytest
import yaml

from components.trainer.cluster_config import ClusterConfig
from components.trainer.errors import TrainingConfigError
from components.trainer.kubernetes.config import KubernetesConfig, SecretVariable, VolumeClaim
from components.trainer.kubernetes.job_spec import MAX_NAME_LENGTH, KubernetesJobSpec, Owner, job_name
from components.trainer.kubernetes.manifests import KINDS

HERE = pathlib.Path(__file__).parent
SCHEMAS = yaml.safe_load((HERE / "crd_schemas.yaml").read_text())
KUBERNETES_VERSION = "1.33"

SMALL = KubernetesJobSpec(
    name="taxi-0123456789",
    spec_path="/shared/jobs/taxi/spec.json",
    cluster=ClusterConfig(
        backends=("trainjob",), num_workers=2, kubernetes=KubernetesConfig(image="registry.example/sluice:1")
    ),
    pods=KubernetesConfig(image="registry.example/sluice:1"),
)
FULL = dataclasses.replace(
    SMALL,
    cluster=dataclasses.replace(
        SMALL.cluster,
        num_workers=16,
        max_restarts=5,
        deadline_seconds=86400,
        env={"NCCL_IB_HCA": "mlx5", "NCCL_DEBUG": "INFO"},
    ),
    owner=Owner(name="taxi-run-trainer-1", uid="0b6c5d1e-9f7a-4c55-8d0e-3c1a2b4d5e6f"),
    pods=KubernetesConfig(
        image="registry.example/sluice@sha256:" + "0" * 64,
        image_pull_policy="Always",
        image_pull_secrets=("registry",),
        service_account="trainer",
        requests={"cpu": "12", "memory": "96Gi"},
        limits={"memory": "96Gi", "rdma/hca_shared": "1"},
        num_gpus=8,
        shared_memory="16Gi",
        ipc_lock=True,
        host_network=True,
        volumes=(
            VolumeClaim(claim="artifacts", mount_path="/shared"),
            VolumeClaim(claim="data", mount_path="/data", read_only=True),
        ),
        shared_dir="/shared/training",
        env_from_secrets=("object-store",),
        secret_variables=(SecretVariable(variable="WANDB_API_KEY", secret="wandb", key="api-key"),),
        run_as_user=1000,
        node_selector={"nvidia.com/gpu.product": "H100"},
        tolerations=({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},),
        priority_class="training",
        scheduler_name="gang-scheduler",
        queue_name="research",
        gang_timeout_seconds=600,
        pack_by="topology.example/rack",
        spread_by="kubernetes.io/hostname",
        placement="required",
        kueue_topology="topology.example/rack",
        labels={"team": "pricing"},
        annotations={"contact": "pricing@example.com"},
    ),
)
CASES = [(kind, size, job) for kind in KINDS for size, job in (("small", SMALL), ("full", FULL))]


@pytest.mark.parametrize(("kind", "size", "job"), CASES)
def test_golden(kind, size, job):
    path = HERE / "goldens" / f"{kind}-{size}.yaml"
    text = yaml.safe_dump_all(KINDS[kind].build(job), sort_keys=False)
    if os.environ.get("UPDATE_GOLDENS"):
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize(("kind", "size", "job"), CASES)
def test_every_object_is_valid(kind, size, job):
    for manifest in KINDS[kind].build(job):
        assert len(json.dumps(manifest)) < 100_000
        if manifest["kind"] in SCHEMAS:
            jsonschema.validate(manifest, SCHEMAS[manifest["kind"]])
        else:
            kubernetes_validate.validate(manifest, KUBERNETES_VERSION, strict=True)


@pytest.mark.parametrize(("kind", "size", "job"), CASES)
def test_what_a_crd_embeds_is_valid_kubernetes(kind, size, job):
    embedded = [found for manifest in KINDS[kind].build(job) for found in _embedded(manifest)]
    assert embedded
    for manifest in embedded:
        kubernetes_validate.validate(manifest, KUBERNETES_VERSION, strict=True)


def _embedded(manifest):
    """The Jobs and pods inside an object, as objects of their own."""
    spec = manifest["spec"]
    jobs = spec.get("replicatedJobs") or spec.get("template", {}).get("spec", {}).get("replicatedJobs") or []
    for job in jobs:
        yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, **copy.deepcopy(job["template"])}
    templates = [job["template"]["spec"]["template"] for job in jobs]
    templates += [replica["template"] for replica in spec.get("tfReplicaSpecs", {}).values()]
    templates += [spec["template"]] if manifest["kind"] == "Job" else []
    for template in templates:
        yield {"apiVersion": "v1", "kind": "Pod", **copy.deepcopy(template)}


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("trainjob", lambda job: job[1]["spec"].update(numWorkers=2)),
        ("trainjob", lambda job: job[1]["spec"]["trainer"].update(numNodes="2")),
        ("jobset", lambda job: job[0]["spec"]["failurePolicy"].update(restartStrategy="Sometimes")),
        ("jobset", lambda job: job[0]["spec"].pop("replicatedJobs")),
        ("tfjob", lambda job: job[0]["spec"]["tfReplicaSpecs"]["Worker"].update(restartPolicy="Perhaps")),
        ("tfjob", lambda job: job[0]["spec"].pop("tfReplicaSpecs")),
    ],
)
def test_the_schemas_refuse_what_is_wrong(kind, change):
    manifests = copy.deepcopy(KINDS[kind].build(SMALL))
    change(manifests)
    with pytest.raises(jsonschema.ValidationError):
        _validate_custom(manifests)


def _validate_custom(manifests):
    for manifest in manifests:
        jsonschema.validate(manifest, SCHEMAS[manifest["kind"]])


def test_the_job_that_tells_how_it_goes_comes_last_and_knows_its_owner():
    for kind in KINDS.values():
        *others, job = kind.build(FULL)
        assert job["apiVersion"] == f"{kind.group}/{kind.version}"
        assert job["kind"].lower() + "s" == kind.plural
        for manifest in [*others, job]:
            assert manifest["metadata"]["ownerReferences"] == [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": "taxi-run-trainer-1",
                    "uid": "0b6c5d1e-9f7a-4c55-8d0e-3c1a2b4d5e6f",
                }
            ]
        assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "research"


def test_the_probe_is_looser_than_the_engines_watchdog():
    from modules.training.config import TrainingConfig

    assert KubernetesConfig(image="x").stall_seconds > TrainingConfig().stall_timeout_s


def test_only_tfjob_has_parameter_servers():
    cluster = dataclasses.replace(SMALL.cluster, num_parameter_servers=2, evaluator=True)
    job = dataclasses.replace(SMALL, cluster=cluster)
    [manifest] = KINDS["tfjob"].build(job)
    counts = {name: replica["replicas"] for name, replica in manifest["spec"]["tfReplicaSpecs"].items()}
    assert counts == {"Chief": 1, "Worker": 2, "PS": 2, "Evaluator": 1}
    for kind in ("trainjob", "jobset", "indexed-job"):
        with pytest.raises(TrainingConfigError, match="no parameter servers; use backend local or tfjob"):
            KINDS[kind].build(job)


@pytest.mark.parametrize(
    "prefix", ["taxi", "A long pipeline name, (1) Ünicode and 2 more, to be cut", "9lives", "---", ""]
)
def test_names(prefix):
    name = job_name(prefix, "gs://bucket/run/1/model")
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)
    assert len(name) <= MAX_NAME_LENGTH < 45
    assert len(f"{name}-node-0-999-abcde") <= 63
    assert name == job_name(prefix, "gs://bucket/run/1/model") != job_name(prefix, "gs://bucket/run/2/model")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, "workload.yaml: train: kubernetes: missing key `image`"),
        ({"image": ""}, "image is ''; expected the image that holds your code"),
        ({"image": "x", "gpus": 1}, "unknown key `gpus`. Did you mean `num_gpus`"),
        ({"image": "x", "placement": "close"}, "placement is 'close'; expected preferred or required"),
        ({"image": "x", "num_gpus": "x"}, "`num_gpus`: expected a whole number, found 'x'"),
        ({"image": "x", "volumes": ["data"]}, r"`volumes`\[0\]: expected a mapping of keys to values, found 'data'"),
        ({"image": "x", "volumes": [{"claim": "a"}]}, r"`volumes`\[0\]: missing key `mount_path`"),
        ({"image": "x", "node_selector": {"gpu": True}}, "`node_selector`: `gpu`: expected text, found True"),
        ({"image": "x", "shared_dir": "/shared"}, "shared_dir is '/shared'; expected below a writable volume"),
    ],
)
def test_mistakes_in_the_configuration_are_named(values, expected):
    with pytest.raises(TrainingConfigError, match=expected):
        KubernetesConfig.from_dict(values, "workload.yaml: train: kubernetes")


def test_a_configuration_survives_json():
    assert ClusterConfig.from_json(FULL.cluster.to_json()) == FULL.cluster
    with_pods = dataclasses.replace(FULL.cluster, kubernetes=FULL.pods)
    assert ClusterConfig.from_json(with_pods.to_json()) == with_pods


def test_a_cluster_backend_needs_an_image():
    with pytest.raises(TrainingConfigError, match="backends trainjob need kubernetes with an image"):
        ClusterConfig(backends=("trainjob",))
