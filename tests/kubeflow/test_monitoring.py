"""What is watched is there: alerts and dashboards ask for metrics that something exports, monitors find the pods.

With promtool on the PATH (it comes with Prometheus), every expression is read by Prometheus' own parser, and the unit
tests of the alerts run.
"""

import json
import pathlib
import re
import shutil
import subprocess
from typing import Any

import prometheus_client
import pytest
import yaml
from manifest_objects import OVERLAYS, built, find, pod_templates

from components.trainer.cluster_config import ClusterConfig
from components.trainer.kubernetes.config import KubernetesConfig as TrainingPods
from components.trainer.kubernetes.job_spec import KubernetesJobSpec
from components.trainer.kubernetes.manifests import KINDS
from kubeflow import step_metrics
from modules.serving import metrics as serving_metrics
from modules.training import metrics as training_metrics

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1] / "kubeflow"
RULES = yaml.safe_load((ROOT / "manifests" / "monitoring" / "rules.yaml").read_text())["spec"]
ALERTS = [alert for group in RULES["groups"] for alert in group["rules"]]
DASHBOARDS = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "dashboards").glob("*.json"))}
OF_OTHERS = {
    "Argo's workflow controller": {"argo_workflows_count", "argo_workflows_gauge"},
    "NVIDIA's dcgm-exporter": {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED"},
    "kube-state-metrics": {
        "kube_deployment_status_replicas_unavailable",
        "kube_deployment_status_replicas_ready",
        "kube_pod_container_info",
    },
    "the kubelet": {"container_cpu_usage_seconds_total", "container_memory_working_set_bytes"},
}


def expressions() -> list[str]:
    panels = [panel for dashboard in DASHBOARDS.values() for panel in dashboard["panels"]]
    return [alert["expr"] for alert in ALERTS] + [target["expr"] for panel in panels for target in panel["targets"]]


def metrics_of(expression: str) -> set[str]:
    """Names of the metrics that a PromQL expression asks for."""
    text = re.sub(r'__name__="([^"]*)"', r"\1{", expression)  # the long form of a name
    names = set(re.findall(r":[a-z_:]+(?=\{)", text))
    text = re.sub(r'"[^"]*"', "", text)
    text = re.sub(r"\b(by|on|without|group_left|group_right)\s*\([^)]*\)", "", text)
    text = re.sub(r"\{[^}]*\}?", " ", text)
    words = re.findall(r"(?<![\w:$.])[a-zA-Z_][\w]*(?!\w*\s*\()", re.sub(r"\[[^]]*\]|offset \w+", "", text))
    return names | {word for word in words if word not in ("and", "or", "unless", "bool")}


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ('sum by (a, b) (rate(x_total{a="y", b=~"z|w"}[5m])) / 1e6', {"x_total"}),
        ('{__name__=":tensorflow:serving:x", status!="OK"} > 0.5', {":tensorflow:serving:x"}),
        ("a offset 15m and on (pod) b unless c", {"a", "b", "c"}),
        ('label_replace(k{c="d"}, "e", "$1", "f", "(.+)-g") == 3', {"k"}),
    ],
)
def test_names_in_an_expression(expression, names):
    assert metrics_of(expression) == names


class _Gateway:
    """Keeps what would have been pushed."""

    names: set[str] = set()

    @classmethod
    def take(cls, gateway: str, job: str, registry: Any, grouping: dict[str, str], timeout: float) -> None:
        cls.names = {sample.name for metric in registry.collect() for sample in metric.samples}
        assert grouping.keys() == {"pipeline", "step"}


@pytest.fixture
def exported(monkeypatch) -> set[str]:
    """Names that our own exporters really give."""
    monkeypatch.setenv(step_metrics.GATEWAY_VARIABLE, "gateway:9091")
    monkeypatch.setattr(prometheus_client, "pushadd_to_gateway", _Gateway.take)
    step_metrics.push("Trainer", 0, 1.0)
    names = set(_Gateway.names)
    training = training_metrics.PrometheusMetrics("worker:0")
    serving = serving_metrics.ServingMetrics()
    serving.request("taxi", "predict", "REST", 0.001, "OK")
    serving.load("/models/taxi", "success")
    page = (prometheus_client.generate_latest(training._registry) + serving.page()).decode()
    return names | set(re.findall(r"^# TYPE (\S+) ", page, re.MULTILINE)) | set(re.findall(r"^([\w:]+)\{", page, re.M))


def test_metrics_that_are_asked_for_exist(exported):
    others = set().union(*OF_OTHERS.values())
    asked = {name for expression in expressions() for name in metrics_of(expression)}
    assert asked >= {"sluice_step_last_exit_code", "sluice_training_step", ":tensorflow:serving:request_count"}
    assert not asked - exported - others
    assert not others - asked


def test_alerts_are_documented_and_say_what_to_do():
    assert len({alert["alert"] for alert in ALERTS}) == len(ALERTS)
    page = (HERE.parents[1] / "docs" / "kubeflow.md").read_text()
    for alert in ALERTS:
        assert alert["labels"]["severity"] in ("critical", "warning", "info")
        assert alert["annotations"].keys() == {"summary", "description"}
        assert re.search(rf"^\| .*\b{alert['alert']}\b.* \|", page, re.MULTILINE), alert["alert"]


def test_panels_have_ids_of_their_own_and_labels_that_their_sums_keep():
    for dashboard in DASHBOARDS.values():
        identifiers = [panel["id"] for panel in dashboard["panels"]]
        assert len(set(identifiers)) == len(identifiers)
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                kept = re.search(r"\bby \(([^)]*)\)", target["expr"])
                if kept:
                    assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= set(kept[1].split(", "))


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed; it comes with Prometheus")
def test_prometheus_reads_and_evaluates_the_rules(tmp_path):
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(RULES))
    (tmp_path / "test.yaml").write_text((HERE / "prometheus_rules_test.yaml").read_text())
    panels = [{"record": f"panel:{index}", "expr": text} for index, text in enumerate(expressions())]
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": panels}]}))
    for command in (["check", "rules", "rules.yaml", "panels.yaml"], ["test", "rules", "test.yaml"]):
        result = subprocess.run(["promtool", *command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr


def chosen(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether a label selector chooses an object with the labels."""
    for wanted in selector.get("matchExpressions", []):
        assert wanted["operator"] == "Exists"
        if wanted["key"] not in labels:
            return False
    return selector.get("matchLabels", {}).items() <= labels.items()


def kept(relabelings: list[dict[str, Any]], source: dict[str, str]) -> bool:
    """Whether Prometheus keeps a target with these meta labels."""
    for rule in relabelings:
        value = ";".join(source.get(name, "") for name in rule["sourceLabels"])
        matches = re.fullmatch(rule.get("regex", "(.*)"), value) is not None
        if (rule.get("action") == "keep" and not matches) or (rule.get("action") == "drop" and matches):
            return False
    return True


@pytest.mark.parametrize("overlay", ["prod", "gpu"])
def test_every_model_server_is_scraped_once(overlay):
    documents = built(overlay)
    [monitor] = [found for found in find(documents, "ServiceMonitor") if found["metadata"]["name"] == "sluice-serving"]
    [endpoint] = monitor["spec"]["endpoints"]
    for deployment in find(documents, "Deployment"):
        template = deployment["spec"]["template"]
        pod_ports = {port["name"] for container in template["spec"]["containers"] for port in container["ports"]}
        services = [
            service
            for service in find(documents, "Service")
            if chosen(monitor["spec"]["selector"], service["metadata"]["labels"])
            and service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
            and kept(endpoint["relabelings"], {"__meta_kubernetes_service_name": service["metadata"]["name"]})
        ]
        assert [service["metadata"]["name"] for service in services] == [deployment["metadata"]["name"]]
        ports = {port["name"]: port["targetPort"] for port in services[0]["spec"]["ports"]}
        assert ports[endpoint["port"]] in pod_ports
        flags = " ".join(template["spec"]["containers"][0]["args"])
        [settings] = [found for found in find(documents, "ConfigMap") if "monitoring.config" in found["data"]]
        assert "--monitoring_config_file=" in flags
        assert endpoint["path"] in settings["data"]["monitoring.config"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_selectors_choose_the_model_servers_pods(overlay):
    documents = built(overlay)
    [deployment] = find(documents, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
    for budget in find(documents, "PodDisruptionBudget"):
        assert chosen(budget["spec"]["selector"], labels)
    for service in find(documents, "Service"):
        assert service["spec"]["selector"].items() <= labels.items()
    [scaler] = find(documents, "HorizontalPodAutoscaler")
    assert scaler["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    for constraint in deployment["spec"]["template"]["spec"].get("topologySpreadConstraints", []):
        assert chosen(constraint["labelSelector"], labels)
    policies = [found for found in find(documents, "NetworkPolicy") if chosen(found["spec"]["podSelector"], labels)]
    assert [found["metadata"]["name"] for found in policies] == ["sluice-serving"]
    declared = {port["containerPort"] for port in deployment["spec"]["template"]["spec"]["containers"][0]["ports"]}
    assert open_ports(policies[0]) == declared


def open_ports(policy: dict[str, Any]) -> set[int]:
    assert policy["spec"]["policyTypes"] == ["Ingress"], "nothing that pods ask for is cut"
    return {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}


@pytest.mark.parametrize("kind", KINDS)
def test_training_pods_reach_each_other_and_are_scraped(kind):
    documents = built("prod")
    pods = TrainingPods(image="registry.example/sluice:1a2b3c4")
    cluster = ClusterConfig(backends=(kind,), num_workers=2, kubernetes=pods)
    objects = KINDS[kind].build(KubernetesJobSpec(name="job", spec_path="/s", cluster=cluster, pods=pods))
    [template] = [found for made in objects for found in pod_templates(made)]
    labels = template["metadata"]["labels"]
    policies = [found for found in find(documents, "NetworkPolicy") if chosen(found["spec"]["podSelector"], labels)]
    assert [found["metadata"]["name"] for found in policies] == ["sluice-training"]
    [peers, prometheus] = policies[0]["spec"]["ingress"]
    assert chosen(peers["from"][0]["podSelector"], labels)
    ports = {port["name"]: port["containerPort"] for found in template["spec"]["containers"] for port in found["ports"]}
    assert {port["port"] for port in peers["ports"]} == set(ports.values())
    [monitor] = find(documents, "PodMonitor")
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    assert chosen(monitor["spec"]["selector"], labels)
    assert endpoint["port"] in ports
    [address] = [rule for rule in endpoint["relabelings"] if rule.get("targetLabel") == "__address__"]
    assert address["replacement"] == f"$1:{prometheus['ports'][0]['port']}"
    index = "batch_kubernetes_io_job_completion_index" if kind != "tfjob" else "training_kubeflow_org_replica_index"
    scraped = [kept(endpoint["relabelings"], {f"__meta_kubernetes_pod_label_{index}": str(rank)}) for rank in range(12)]
    assert scraped == [True] + [False] * 11, "what worker 0 says is of all of them"


def test_gpu_metrics_keep_the_pod_that_uses_the_gpu():
    [monitor] = [found for found in find(built("gpu"), "ServiceMonitor") if found["metadata"]["name"] == "sluice-gpus"]
    assert all(endpoint["honorLabels"] for endpoint in monitor["spec"]["endpoints"])
