"""KServe and Deployments, against an HTTP server that speaks the Kubernetes API (see fake_cluster.py)."""

import contextlib
import importlib.util
import json
import pathlib

import fsspec
import pytest
import yaml

from components.pusher import ab_split, manifests
from components.pusher.config import PushTarget
from components.pusher.errors import PushConfigError, PushError
from components.pusher.kserve import why_not_ready
from components.pusher.kube_deployment import why_not_rolled_out
from components.pusher.kubernetes_config import BatchingParameters, KubernetesConfig
from components.pusher.targets import make_deployer

DATA = "variables/variables.data-00000-of-00001"
GOLDENS = pathlib.Path(__file__).with_name("goldens")


class CrashError(BaseException):
    """Stands for a crash at a boundary: nothing in the deployer catches it."""


def _load_fake_cluster():
    spec = importlib.util.spec_from_file_location("fake_cluster", pathlib.Path(__file__).with_name("fake_cluster.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def cluster(tmp_path):
    (tmp_path / "claim").mkdir()
    with _load_fake_cluster().FakeCluster(tmp_path / "claim", tmp_path / "scratch") as running:
        yield running


def kserve_target(cluster, tmp_path, **changes) -> PushTarget:
    settings = {"api_server": cluster.url, "storage_uri": "pvc://claim/line", "namespace": "models", **changes}
    return PushTarget(
        base=str(tmp_path / "claim"), name="line", kind="kserve", kubernetes=settings, available_timeout_s=10.0
    )


def push(target: PushTarget, model: pathlib.Path, **overrides):
    return make_deployer(target, **{"verify": lambda *_: {}, **overrides}).push(model)


def service(cluster) -> dict:
    return cluster.objects["inferenceservices", "line"]


def test_first_version_gets_all_requests(cluster, exported, tmp_path):
    result = push(kserve_target(cluster, tmp_path), exported["double"])
    assert result.observed
    assert (pathlib.Path(result.destination) / str(result.version) / "saved_model.pb").exists()
    spec = service(cluster)["spec"]["predictor"]
    assert spec["model"]["storageUri"] == f"pvc://claim/line/{result.version}"
    assert spec["model"]["runtimeVersion"] == "2.19.0"
    assert "canaryTrafficPercent" not in spec


def test_later_version_gets_no_requests_then_a_share_then_all(cluster, exported, tmp_path):
    first = push(kserve_target(cluster, tmp_path), exported["double"])
    cluster.applied.clear()
    second = push(kserve_target(cluster, tmp_path), exported["triple"])
    assert [applied["spec"]["predictor"].get("canaryTrafficPercent") for applied in cluster.applied] == [0, 10, None]
    lives = [applied["metadata"]["annotations"][manifests.LIVE_ANNOTATION] for applied in cluster.applied]
    assert lives == [str(first.version), str(first.version), str(second.version)]
    assert [revision["rolled_out"] for revision in cluster.revisions] == [False, True]


def test_same_model_is_not_applied_again(cluster, exported, tmp_path):
    push(kserve_target(cluster, tmp_path), exported["double"])
    cluster.applied.clear()
    assert push(kserve_target(cluster, tmp_path), exported["double"]).outcome == "unchanged"
    assert cluster.applied == []


@pytest.mark.parametrize("problem", ["cannot load", "answers wrongly"])
def test_failed_revision_never_gets_requests(problem, cluster, exported, models, tmp_path):
    first = push(kserve_target(cluster, tmp_path), exported["triple"])
    if problem == "cannot load":
        (models["double"] / DATA).write_bytes(b"short")
    else:
        golden = models["double"] / "assets.extra" / "golden_predictions.json"
        golden.write_text((exported["triple"] / "assets.extra" / "golden_predictions.json").read_text())
    cluster.applied.clear()
    with pytest.raises(
        PushError, match=r"BlockedByFailedLoad: the model server did not load|differs from the trainer's"
    ):
        push(kserve_target(cluster, tmp_path), models["double"])
    assert all(applied["spec"]["predictor"].get("canaryTrafficPercent", 0) == 0 for applied in cluster.applied)
    assert service(cluster)["spec"]["predictor"]["model"]["storageUri"].endswith(f"/{first.version}")
    assert cluster.revisions[-1]["uri"].endswith(f"/{first.version}")


def test_failed_first_version_leaves_no_service(cluster, models, tmp_path):
    (models["double"] / DATA).write_bytes(b"short")
    with pytest.raises(PushError, match="BlockedByFailedLoad"):
        push(kserve_target(cluster, tmp_path), models["double"])
    assert ("inferenceservices", "line") not in cluster.objects


def test_rollback(cluster, exported, tmp_path):
    target = kserve_target(cluster, tmp_path)
    first = push(target, exported["double"])
    push(target, exported["triple"])
    assert make_deployer(target).rollback().version == first.version
    assert service(cluster)["spec"]["predictor"]["model"]["storageUri"].endswith(f"/{first.version}")
    assert make_deployer(target).rollout.live_version() == first.version


@pytest.mark.parametrize("state", ["PUBLISHED", "AVAILABLE", "PROBED", "CANARY", "PROMOTED", "DONE"])
def test_crash_around_any_state_is_finished_by_the_next_push(state, cluster, exported, tmp_path):
    target = kserve_target(cluster, tmp_path)
    push(target, exported["double"])

    def crash(name: str) -> None:
        if name == f"within {state}":
            raise CrashError

    with contextlib.suppress(CrashError):
        push(target, exported["triple"], boundary=crash)
    result = push(target, exported["triple"])
    assert result.outcome == "unchanged"
    assert service(cluster)["spec"]["predictor"]["model"]["storageUri"].endswith(f"/{result.version}")
    assert "canaryTrafficPercent" not in service(cluster)["spec"]["predictor"]


def test_without_knative_there_is_no_canary(cluster, exported, tmp_path):
    target = kserve_target(cluster, tmp_path, serverless=False)
    push(target, exported["double"])
    push(target, exported["triple"])
    assert not any("canaryTrafficPercent" in applied["spec"]["predictor"] for applied in cluster.applied)
    annotations = cluster.applied[-1]["metadata"]["annotations"]
    assert annotations["serving.kserve.io/deploymentMode"] == "RawDeployment"


def test_object_store_gets_the_manifest_last_and_old_versions_go(cluster, exported, tmp_path):
    memory = fsspec.filesystem("memory")
    target = kserve_target(cluster, tmp_path, storage_uri="memory://versions/line")
    results = [push(target, exported[name]) for name in ("double", "triple", "double", "triple")]
    stored = {int(path.rsplit("/", 1)[1]) for path in memory.ls("/versions/line", detail=False)}
    assert {result.version for result in results[-2:]} <= stored
    assert results[0].version not in stored
    newest = f"/versions/line/{results[-1].version}/{results[-1].version}"
    listed = json.loads(memory.cat_file(f"{newest}/sluice-manifest.json"))
    assert all(memory.size(f"{newest}/{name}") == file["size"] for name, file in listed.items())


def test_interrupted_upload_is_done_again(exported, tmp_path):
    from components.pusher import content, object_store

    memory = fsspec.filesystem("memory")
    memory.pipe_file("/bucket/half/7/left-over", b"x")
    manifest = content.manifest_of(exported["double"])
    assert not object_store.is_complete("memory://bucket/half/7", manifest)
    object_store.upload(exported["double"], "memory://bucket/half/7", manifest)
    assert object_store.is_complete("memory://bucket/half/7", manifest)
    assert not memory.exists("/bucket/half/7/left-over")
    with pytest.raises(PushError, match="cannot read the object store"):
        object_store.upload(exported["double"], "no-such-store://bucket", manifest)


def test_ready_of_the_generation_before_does_not_count():
    ready = {"type": "Ready", "status": "True"}
    revisions = {"latestCreatedRevision": "line-2", "latestReadyRevision": "line-2"}
    status = {"observedGeneration": 1, "conditions": [ready], "components": {"predictor": revisions}}
    isvc = {"metadata": {"name": "line", "generation": 2}, "status": status}
    assert "generation 2 is not observed yet" in why_not_ready(isvc, serverless=True)
    status["observedGeneration"] = 2
    assert why_not_ready(isvc, serverless=True) == ""
    revisions["latestReadyRevision"] = "line-1"
    assert why_not_ready(isvc, serverless=True) == "revision line-2 is not ready (latest ready: line-1)"
    assert why_not_ready(isvc, serverless=False) == ""
    ready |= {"status": "False", "reason": "Pending", "message": "no node"}
    assert why_not_ready(isvc, serverless=False) == "not Ready: Pending no node"


@pytest.mark.parametrize(
    ("status", "message"),
    [(403, "the account lacks the right"), (401, "not logged in"), (422, "refuses the object"), (500, "500")],
)
def test_refusals_of_the_api_server_say_what_to_do(status, message, cluster, exported, tmp_path):
    cluster.refuse = status
    with pytest.raises(PushError, match=message):
        push(kserve_target(cluster, tmp_path), exported["double"])


def test_api_server_that_is_not_there(exported, tmp_path):
    settings = {"api_server": "http://127.0.0.1:9", "storage_uri": "pvc://claim/line"}
    target = PushTarget(base=str(tmp_path), name="line", kind="kserve", kubernetes=settings)
    with pytest.raises(PushError, match="the Kubernetes API does not answer"):
        push(target, exported["double"])


def test_deployment_is_applied_then_told_to_load(cluster, exported, tmp_path):
    """The pods of the Deployment are one development server, which reads the model config file as they would."""
    from modules.serving.manager import LoadingConfig
    from modules.serving.server import ModelServer, ServerConfig

    base = tmp_path / "claim"
    (base / "line").mkdir()
    config = ServerConfig(rest_port=0, grpc_port=0, drain_seconds=1.0, loading=LoadingConfig(poll_seconds=0.05))
    with ModelServer([], config, roots=["/"]) as server:
        target = PushTarget(
            base=str(base),
            name="line",
            kind="deployment",
            servers=(server.grpc_address,),
            model_config_file=str(base / "models.config"),
            kubernetes={"api_server": cluster.url, "claim": "models"},
            available_timeout_s=10.0,
        )
        first = push(target, exported["double"])
        second = push(target, exported["triple"])
    assert {kind for kind, _ in cluster.objects} == {
        "configmaps",
        "deployments",
        "services",
        "horizontalpodautoscalers",
        "poddisruptionbudgets",
    }
    assert second.version > first.version
    assert f'key: "stable"\n      value: {second.version}' in (base / "models.config").read_text()


def test_deployment_of_the_generation_before_does_not_count():
    counts = {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 1}
    deployment = {
        "metadata": {"name": "line", "generation": 3},
        "spec": {"replicas": 2},
        "status": {"observedGeneration": 2, **counts},
    }
    assert "generation 3 is not observed yet" in why_not_rolled_out(deployment, ready=True)
    deployment["status"]["observedGeneration"] = 3
    assert why_not_rolled_out(deployment, ready=False) == ""
    assert why_not_rolled_out(deployment, ready=True) == "availableReplicas 1 of 2"


def test_manifests_are_valid_and_as_agreed():
    """The golden file is read by people who deploy by hand; change it with the manifests, on purpose."""
    config = KubernetesConfig(claim="models", service_account="serving")
    made = manifests.tensorflow_serving("taxi", config)
    made.append(
        manifests.inference_service(
            "taxi", KubernetesConfig(storage_uri="s3://models/taxi"), 7, live=6, canary_percent=10
        )
    )
    made.append(ab_split.http_route("taxi", "default", "public", {"stable": 90, "canary": 10}, ("models.example",)))
    golden = GOLDENS / "manifests.yaml"
    assert list(yaml.safe_load_all(golden.read_text())) == made
    assert manifests.tensorflow_serving("taxi", config) == made[:6]


def test_manifests_fit_kubernetes_own_schemas():
    import kubernetes_validate

    for manifest in manifests.tensorflow_serving("taxi", KubernetesConfig(claim="models")):
        kubernetes_validate.validate(manifest, "1.30", strict=True)


def test_batching_parameters_are_what_the_model_server_parses(tmp_path):
    from modules.serving import batching_file

    path = tmp_path / "batching.txt"
    path.write_text(BatchingParameters().to_text())
    assert "max_batch_size { value: 32 }" in path.read_text()
    assert "batch_timeout_micros { value: 100000 }" in path.read_text()
    parsed = batching_file.read_batching_file(str(path))
    assert (parsed.max_batch_size, parsed.batch_timeout_micros, parsed.num_batch_threads) == (32, 100_000, 4)


def test_ab_split_is_stable_and_in_proportion():
    weights = {"stable": 90, "canary": 10}
    labels = [ab_split.choose_label(f"user-{number}", weights) for number in range(5000)]
    assert labels == [ab_split.choose_label(f"user-{number}", weights) for number in range(5000)]
    assert 0.08 < labels.count("canary") / len(labels) < 0.12
    others = [ab_split.choose_label(f"user-{number}", weights, experiment="second") for number in range(5000)]
    assert others != labels
    assert {ab_split.choose_label(str(number), {"stable": 1, "canary": 0}) for number in range(100)} == {"stable"}


@pytest.mark.parametrize("weights", [{}, {"stable": 0}, {"stable": 1, "canary": -1}])
def test_ab_split_refuses_weights_that_mean_nothing(weights):
    with pytest.raises(PushConfigError, match="weights"):
        ab_split.choose_label("user", weights)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"name": "n"}, "push: base must be given"),
        ({"base": "b", "bases": 1}, "unknown key 'bases'; allowed: available_timeout_s, base,"),
        ({"base": "b", "name": "7"}, r"push\.name: must be letters"),
        ({"base": "b", "name": "a/b"}, r"push\.name: must be letters"),
        ({"base": "b", "kind": "magic"}, r"push\.kind: must be one of folder, model_config, kserve, deployment"),
        ({"base": "s3://b"}, r"push\.base: must be a folder"),
        ({"base": "b", "keep_versions": 0}, r"push\.keep_versions: must be at least 1"),
        ({"base": "b", "keep_versions": True}, r"push\.keep_versions: expected int, got True"),
        ({"base": "b", "servers": "x:1"}, r"push\.servers: expected a list of str"),
        ({"base": "b", "warmup_batch_sizes": [0]}, r"push\.warmup_batch_sizes"),
        ({"base": "b", "hold_canary": True}, r"push\.hold_canary: kind 'folder' has no canary to hold"),
        (
            {"base": "b", "kind": "model_config", "servers": ["http://x:1"], "model_config_file": "f"},
            r"push\.servers: 'model_config' reloads the model config, which is gRPC only",
        ),
        ({"base": "b", "kind": "kserve"}, r"kubernetes\.storage_uri: kind 'kserve' needs it"),
        ({"base": "b", "kubernetes": {"replica": 1}}, "kubernetes: unknown key 'replica'"),
        ({"base": "b", "kubernetes": {"min_replicas": 9}}, r"kubernetes\.min_replicas: must be at least 1"),
        ({"base": "b", "kubernetes": {"batching": {"size": 1}}}, "batching: unknown key 'size'"),
    ],
)
def test_wrong_targets_are_named(target, message):
    with pytest.raises(PushConfigError, match=message):
        PushTarget.from_dict(target)


def test_target_from_yaml_values():
    target = PushTarget.from_dict({"base": "b", "verify_timeout_s": 5, "warmup_batch_sizes": [1, 2]})
    assert (target.verify_timeout_s, target.warmup_batch_sizes) == (5.0, (1, 2))
