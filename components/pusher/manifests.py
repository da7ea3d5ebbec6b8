"""Kubernetes objects as pure functions: equal settings give equal manifests, and nothing is looked up."""

from typing import Any

from components.pusher.kubernetes_config import KubernetesConfig

REST_PORT, GRPC_PORT = 8501, 8500
METRICS_PATH = "/monitoring/prometheus/metrics"
LIVE_ANNOTATION = "sluice/live-version"
MOUNT_PATH = "/models"
CONFIG_NAME = "models.config"
_SETTINGS_PATH = "/etc/sluice"
Manifest = dict[str, Any]


def inference_service(
    name: str, config: KubernetesConfig, version: int, *, live: int | None, canary_percent: int | None
) -> Manifest:
    """A KServe InferenceService that serves `version`.

    Args:
      name: of the model, and so of the service.
      config: the cluster's side of the target.
      version: its folder under `config.storage_uri` is what is loaded; it holds one version folder.
      live: the version that answers most requests, noted for whoever comes after a crash.
      canary_percent: the share of requests for `version`, None for all of them.
    """
    model = {
        "modelFormat": {"name": "tensorflow"},
        "runtimeVersion": config.runtime_version,
        "storageUri": f"{config.storage_uri.rstrip('/')}/{version}",
        "resources": _resources(config),
    }
    predictor: Manifest = {"minReplicas": config.min_replicas, "maxReplicas": config.max_replicas, "model": model}
    if config.service_account:
        predictor["serviceAccountName"] = config.service_account
    annotations = {LIVE_ANNOTATION: str(live)} if live is not None else {}
    if config.serverless:
        # Every revision gets a URL of its own, so that the canary can be probed before it gets a request.
        annotations["serving.kserve.io/enable-tag-routing"] = "true"
        if canary_percent is not None:
            predictor["canaryTrafficPercent"] = canary_percent
    else:
        annotations["serving.kserve.io/deploymentMode"] = "RawDeployment"
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": _metadata(name, config, annotations),
        "spec": {"predictor": predictor},
    }


def tensorflow_serving(name: str, config: KubernetesConfig) -> list[Manifest]:
    """Everything that a model needs to be served by TensorFlow Serving in a plain Deployment.

    The claim holds the models and the model config file; its root is mounted, read-only, at /models.
    """
    return [
        config_map(name, config),
        deployment(name, config),
        service(name, config),
        headless_service(name, config),
        horizontal_pod_autoscaler(name, config),
        pod_disruption_budget(name, config),
    ]


def config_map(name: str, config: KubernetesConfig) -> Manifest:
    """The batching parameters file and the monitoring config."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(f"{name}-serving", config),
        "data": {
            "batching_parameters.txt": config.batching_parameters().to_text(),
            "monitoring.config": f'prometheus_config {{ enable: true path: "{METRICS_PATH}" }}\n',
        },
    }


def deployment(name: str, config: KubernetesConfig) -> Manifest:
    """TensorFlow Serving under an unprivileged user, with probes for its states, and a drain before it stops."""
    status = {"httpGet": {"path": f"/v1/models/{name}", "port": "rest"}}
    container = {
        "name": "tensorflow-serving",
        "image": f"{config.image}:{config.runtime_version}",
        "command": ["tensorflow_model_server"],
        "args": [
            f"--port={GRPC_PORT}",
            f"--rest_api_port={REST_PORT}",
            f"--model_config_file={MOUNT_PATH}/{CONFIG_NAME}",
            # A pod that starts finds labels in the file whose versions it has not loaded yet.
            "--allow_version_labels_for_unavailable_models=true",
            "--enable_batching=true",
            f"--batching_parameters_file={_SETTINGS_PATH}/batching_parameters.txt",
            f"--monitoring_config_file={_SETTINGS_PATH}/monitoring.config",
        ],
        "ports": [{"name": "grpc", "containerPort": GRPC_PORT}, {"name": "rest", "containerPort": REST_PORT}],
        # Loading a large model takes minutes; only after it do liveness and readiness count.
        "startupProbe": {"tcpSocket": {"port": "grpc"}, "periodSeconds": 5, "failureThreshold": 120},
        "readinessProbe": {**status, "periodSeconds": 5, "failureThreshold": 2},
        "livenessProbe": {"tcpSocket": {"port": "grpc"}, "periodSeconds": 10, "failureThreshold": 6},
        # Endpoints forget the pod first; then it may stop.
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", "10"]}}},
        "resources": _resources(config),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "models", "mountPath": MOUNT_PATH, "readOnly": True},
            {"name": "settings", "mountPath": _SETTINGS_PATH, "readOnly": True},
            {"name": "scratch", "mountPath": "/tmp"},
        ],
    }
    pod: Manifest = {
        "containers": [container],
        "terminationGracePeriodSeconds": 60,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": [
            {"name": "models", "persistentVolumeClaim": {"claimName": config.claim, "readOnly": True}},
            {"name": "settings", "configMap": {"name": f"{name}-serving"}},
            {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
        ],
    }
    if config.service_account:
        pod["serviceAccountName"] = config.service_account
    annotations = {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(REST_PORT),
        "prometheus.io/path": METRICS_PATH,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(name, config),
        "spec": {
            # No `replicas`: they are the autoscaler's.
            "selector": {"matchLabels": _selector(name)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": {"metadata": {"labels": _selector(name), "annotations": annotations}, "spec": pod},
        },
    }


def service(name: str, config: KubernetesConfig) -> Manifest:
    """The address for clients."""
    return _service(name, name, config, {})


def headless_service(name: str, config: KubernetesConfig) -> Manifest:
    """Resolves to every pod, those that are not ready yet included: the deployer asks each one."""
    return _service(f"{name}-replicas", name, config, {"clusterIP": "None", "publishNotReadyAddresses": True})


def horizontal_pod_autoscaler(name: str, config: KubernetesConfig) -> Manifest:
    """Scales on processor load; down slowly, because a new pod has a model to load before it helps."""
    target = {"type": "Utilization", "averageUtilization": config.target_cpu_percent}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": _metadata(name, config),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": config.min_replicas,
            "maxReplicas": config.max_replicas,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 600}},
        },
    }


def pod_disruption_budget(name: str, config: KubernetesConfig) -> Manifest:
    """A node's maintenance takes one replica at a time."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(name, config),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": _selector(name)}},
    }


def _service(service_name: str, name: str, config: KubernetesConfig, extra: Manifest) -> Manifest:
    ports = [{"name": "grpc", "port": GRPC_PORT, "targetPort": "grpc"}, {"name": "rest", "port": REST_PORT}]
    ports[1]["targetPort"] = "rest"
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(service_name, config),
        "spec": {"selector": _selector(name), "ports": ports, **extra},
    }


def _metadata(name: str, config: KubernetesConfig, annotations: dict[str, str] | None = None) -> Manifest:
    metadata: Manifest = {
        "name": name,
        "namespace": config.namespace,
        "labels": {"app.kubernetes.io/name": name, "app.kubernetes.io/managed-by": "sluice"},
    }
    return metadata | ({"annotations": annotations} if annotations else {})


def _selector(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": name, "app.kubernetes.io/component": "model-server"}


def _resources(config: KubernetesConfig) -> Manifest:
    """Requests equal limits for memory: a model server that is killed for memory takes its requests along."""
    return {
        "requests": {"cpu": config.cpu, "memory": config.memory},
        "limits": {"cpu": config.cpu, "memory": config.memory},
    }
