"""Manifests: every overlay builds, fits Kubernetes' schemas, passes pod security `restricted`, and grants little."""

import hashlib
import os
import pathlib
import shutil
import subprocess
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from manifest_objects import GOLDENS, OVERLAYS, built, find

from components.pusher import manifests
from components.pusher.kubernetes_config import KubernetesConfig
from components.trainer.cluster_config import ClusterConfig
from components.trainer.kubernetes.config import KubernetesConfig as TrainingPods
from components.trainer.kubernetes.job_spec import KubernetesJobSpec
from components.trainer.kubernetes.manifests import KINDS

ROOT = pathlib.Path(__file__).parents[2] / "kubeflow"
CUSTOM = ("monitoring.coreos.com/v1",)
SCHEMAS = yaml.safe_load((pathlib.Path(__file__).parent / "monitoring_schemas.yaml").read_text())
_VOLUME_KINDS = {"configMap", "emptyDir", "persistentVolumeClaim", "secret", "projected", "csi", "ephemeral"}


def sources() -> str:
    """What the goldens were made from: one line that changes with any file that kustomize may read."""
    digest = hashlib.sha256()
    for folder in ("manifests", "dashboards"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file():
                digest.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return f"# kubectl kustomize, of sources with sha256 {digest.hexdigest()}\n"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_goldens_are_of_these_sources(overlay):
    """Without kubectl the goldens stand for its output; they must then be of the sources that lie here."""
    with (GOLDENS / f"{overlay}.yaml").open() as golden:
        assert golden.readline() == sources(), "SLUICE_UPDATE_GOLDENS=1 makes them anew, where kubectl is installed"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed: the goldens stand for it")
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_goldens_are_what_kubectl_builds(overlay):
    command = ["kubectl", "kustomize", str(ROOT / "manifests" / "overlays" / overlay)]
    made = sources() + subprocess.run(command, check=True, capture_output=True, text=True).stdout
    path = GOLDENS / f"{overlay}.yaml"
    if os.environ.get("SLUICE_UPDATE_GOLDENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(made)
    assert list(yaml.safe_load_all(made)) == list(yaml.safe_load_all(path.read_text()))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_overlay_fits_the_schemas(overlay):
    documents = built(overlay)
    assert documents
    for document in documents:
        assert document["metadata"]["namespace"]
        if document["apiVersion"] in CUSTOM:
            jsonschema.validate(document["spec"], SCHEMAS[document["kind"]])
        else:
            kubernetes_validate.validate(document, "1.32", strict=True)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_two_objects_share_a_name(overlay):
    names = [(document["kind"], document["metadata"]["name"]) for document in built(overlay)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_are_restricted(overlay):
    for deployment in find(built(overlay), "Deployment"):
        check_restricted(deployment["spec"]["template"]["spec"])


def check_restricted(pod: dict[str, Any]) -> None:
    """Kubernetes' pod security standard `restricted`, version 1.32."""
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        assert not pod.get(key)
    context = pod.get("securityContext", {})
    for volume in pod.get("volumes", []):
        assert volume.keys() & _VOLUME_KINDS
    for container in [*pod["containers"], *pod.get("initContainers", [])]:
        own = container.get("securityContext", {})
        assert own["allowPrivilegeEscalation"] is False
        assert own["capabilities"]["drop"] == ["ALL"]
        assert set(own["capabilities"].get("add", [])) <= {"NET_BIND_SERVICE"}
        assert not own.get("privileged")
        assert own.get("runAsNonRoot", context.get("runAsNonRoot")) is True
        assert own.get("runAsUser", context.get("runAsUser", 1)) != 0
        profile = own.get("seccompProfile", context.get("seccompProfile", {}))
        assert profile.get("type") in ("RuntimeDefault", "Localhost")
        assert not any(port.get("hostPort") for port in container.get("ports", []))


@pytest.mark.parametrize("kind", ["trainjob", "jobset", "indexed-job"])
def test_training_pods_are_restricted_when_the_namespace_wants_it(kind):
    pods = TrainingPods(image="registry.example/sluice:1a2b3c4", run_as_user=65532)
    cluster = ClusterConfig(backends=(kind,), num_workers=2, kubernetes=pods)
    objects = KINDS[kind].build(KubernetesJobSpec(name="job", spec_path="/s", cluster=cluster, pods=pods))
    found = [pod for made in objects for pod in pod_specs(made)]
    assert found
    for pod in found:
        check_restricted(pod)


def pod_specs(value: Any) -> list[dict[str, Any]]:
    """Everything below `value` that has containers."""
    if isinstance(value, dict):
        own = [value] if "containers" in value else []
        return own + [pod for item in value.values() for pod in pod_specs(item)]
    return [pod for item in value for pod in pod_specs(item)] if isinstance(value, list) else []


def test_serving_is_what_the_pusher_would_create():
    """Set SLUICE_UPDATE_GOLDENS=1 to write the manifest anew."""
    objects = manifests.tensorflow_serving("taxi", KubernetesConfig(claim="sluice"))
    for made in objects:
        made["metadata"].pop("namespace")  # the overlay's
    path = ROOT / "manifests" / "base" / "serving.yaml"
    head = "# TensorFlow Serving for the model `taxi`, as the Pusher creates it for a target of kind `deployment`.\n"
    text = head + yaml.safe_dump_all(objects, sort_keys=False)
    if os.environ.get("SLUICE_UPDATE_GOLDENS"):
        path.write_text(text)
    assert path.read_text() == text


def test_rights_are_the_least():
    documents = built("prod")
    rules = [(role["metadata"]["name"], rule) for role in find(documents, "Role") for rule in role["rules"]]
    assert not find(documents, "ClusterRole")
    for name, rule in rules:
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
        if "secrets" in rule["resources"]:
            assert (name, rule["verbs"], len(rule["resourceNames"])) == ("sluice-runner", ["get"], 1)
        assert not set(rule["resources"]) & {"pods/exec", "pods/attach", "roles", "rolebindings", "serviceaccounts"}
        if "pods" in rule["resources"]:
            assert set(rule["verbs"]) <= {"get", "list", "watch"}
    deleted = {(name, *rule["resources"]) for name, rule in rules if "delete" in rule["verbs"]}
    assert {found for found in deleted if found[0] != "sluice-trainer"} == {("sluice-deployer", "inferenceservices")}


def test_the_pusher_may_do_what_its_calls_need_and_no_more():
    """Server-side apply is create and patch; only the undoing of a first InferenceService deletes."""
    documents = yaml.safe_load_all((ROOT / "manifests" / "base" / "deployer-role.yaml").read_text())
    [role] = find(list(documents), "Role")
    rights = {name: set(rule["verbs"]) for rule in role["rules"] for name in rule["resources"]}
    made = {document["kind"] for document in manifests.tensorflow_serving("taxi", KubernetesConfig(claim="sluice"))}
    plurals = {f"{kind.lower()}s" for kind in made}
    assert rights.pop("inferenceservices") == {"create", "get", "patch", "delete"}
    assert rights == {plural: {"create", "get", "patch"} for plural in plurals}


def test_the_trainer_may_create_every_kind_of_job_that_it_knows():
    documents = yaml.safe_load_all((ROOT / "manifests" / "base" / "trainer-role.yaml").read_text())
    [role] = find(list(documents), "Role")
    allowed = {(group, name) for rule in role["rules"] for group in rule["apiGroups"] for name in rule["resources"]}
    assert {(kind.group, kind.plural) for kind in KINDS.values()} <= allowed
    rights = {name: set(rule["verbs"]) for rule in role["rules"] for name in rule["resources"]}
    assert rights.pop("pods") == {"get", "list"}
    assert rights.pop("pods/log") == {"get"}
    assert rights.pop("services") == {"create", "get", "patch", "delete"}
    assert {frozenset(verbs) for verbs in rights.values()} == {frozenset(("create", "get", "watch", "patch", "delete"))}
