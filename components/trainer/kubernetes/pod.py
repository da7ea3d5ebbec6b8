"""The pod template of one worker."""

from typing import Any

from components.trainer import failure, heartbeat
from components.trainer.kubernetes.config import REQUIRED
from components.trainer.kubernetes.job_spec import JOB_LABEL, PORT, KubernetesJobSpec

CONTAINER = "node"
_SHM = "dshm"


def pod_template(job: KubernetesJobSpec, hosts: str, container: str = CONTAINER) -> dict[str, Any]:
    """A PodTemplateSpec.

    Args:
      job: the cluster.
      hosts: DNS name of a worker, with `{index}` in it; empty where somebody else sets TF_CONFIG.
      container: name of the one container.
    """
    pods = job.pods
    spec: dict[str, Any] = {
        # The whole gang is started again or nobody is: a single worker that comes back would wait for ever.
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": pods.termination_grace_seconds,
        "enableServiceLinks": False,  # the addresses of all services of the namespace are no use here
        "containers": [_container(job, hosts, container)],
    }
    optional = {
        "serviceAccountName": pods.service_account,
        "imagePullSecrets": [{"name": name} for name in pods.image_pull_secrets],
        "nodeSelector": dict(pods.node_selector),
        "tolerations": [dict(toleration) for toleration in pods.tolerations],
        "priorityClassName": pods.priority_class,
        "schedulerName": pods.scheduler_name,
        "affinity": _affinity(job),
        "topologySpreadConstraints": _spread(job),
        "volumes": _volumes(job),
        "securityContext": _pod_security(job),
    }
    spec |= {key: value for key, value in optional.items() if value}
    if pods.host_network:
        spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    # A sidecar proxy would stand between the workers, and would keep the pod alive after training.
    labels = job.labels | {"sidecar.istio.io/inject": "false"}
    annotations = {"sidecar.istio.io/inject": "false"} | _kueue_topology(job)
    return {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}


def _container(job: KubernetesJobSpec, hosts: str, name: str) -> dict[str, Any]:
    pods = job.pods
    container: dict[str, Any] = {
        "name": name,
        "image": pods.image,
        "imagePullPolicy": pods.image_pull_policy,
        "command": ["python", "-m", "components.trainer.cluster_environment", job.spec_path],
        "env": _env(job, hosts),
        "ports": [{"name": "tfjob-port", "containerPort": PORT}],
        "resources": _resources(job),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": _container_security(job),
    }
    if pods.env_from_secrets:
        container["envFrom"] = [{"secretRef": {"name": name}} for name in pods.env_from_secrets]
    mounts = [
        {"name": f"claim-{i}", "mountPath": volume.mount_path} | ({"readOnly": True} if volume.read_only else {})
        for i, volume in enumerate(pods.volumes)
    ]
    if pods.shared_memory:
        mounts.append({"name": _SHM, "mountPath": "/dev/shm"})
    if mounts:
        container["volumeMounts"] = mounts
    if pods.stall_seconds:
        container["livenessProbe"] = {
            "exec": {"command": ["python", "-m", "components.trainer.heartbeat", str(pods.stall_seconds)]},
            "periodSeconds": 60,
            "timeoutSeconds": 30,  # Python has to start on a node that is busy with training
            "failureThreshold": 1,
        }
    return container


def _env(job: KubernetesJobSpec, hosts: str) -> list[dict[str, Any]]:
    env: dict[str, str] = {
        "PYTHONUNBUFFERED": "1",
        "TF_CPP_MIN_LOG_LEVEL": "1",
        "SLUICE_NUM_WORKERS": str(job.cluster.num_workers),
        "SLUICE_WORKER_HOSTS": hosts,
        "SLUICE_WORKER_PORT": str(PORT),
        heartbeat.FILE_VARIABLE: "/tmp/last-step",
        failure.TERMINATION_LOG_VARIABLE: "/dev/termination-log",
        **job.env,
    }
    variables: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in env.items()]
    for secret in job.pods.secret_variables:
        reference = {"name": secret.secret, "key": secret.key}
        variables.append({"name": secret.variable, "valueFrom": {"secretKeyRef": reference}})
    return variables


def _resources(job: KubernetesJobSpec) -> dict[str, Any]:
    # What is not in the scheduler's own hands (GPUs, RDMA devices) must be in limits and needs not be in requests.
    limits = dict(job.pods.limits) | ({job.pods.gpu_resource: str(job.pods.num_gpus)} if job.pods.num_gpus else {})
    return {"requests": dict(job.pods.requests)} | ({"limits": limits} if limits else {})


def _volumes(job: KubernetesJobSpec) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = []
    for i, volume in enumerate(job.pods.volumes):
        claim: dict[str, Any] = {"claimName": volume.claim} | ({"readOnly": True} if volume.read_only else {})
        volumes.append({"name": f"claim-{i}", "persistentVolumeClaim": claim})
    if job.pods.shared_memory:
        volumes.append({"name": _SHM, "emptyDir": {"medium": "Memory", "sizeLimit": job.pods.shared_memory}})
    return volumes


def _affinity(job: KubernetesJobSpec) -> dict[str, Any]:
    """All workers on nodes that share the label: the same rack, the same switch."""
    if not job.pods.pack_by:
        return {}
    term = {"labelSelector": {"matchLabels": {JOB_LABEL: job.name}}, "topologyKey": job.pods.pack_by}
    if job.pods.placement == REQUIRED:
        return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    weighted = {"weight": 100, "podAffinityTerm": term}
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}


def _spread(job: KubernetesJobSpec) -> list[dict[str, Any]]:
    """Workers on nodes that differ in the label."""
    if not job.pods.spread_by:
        return []
    return [
        {
            "maxSkew": 1,
            "topologyKey": job.pods.spread_by,
            "whenUnsatisfiable": "DoNotSchedule" if job.pods.placement == REQUIRED else "ScheduleAnyway",
            "labelSelector": {"matchLabels": {JOB_LABEL: job.name}},
        }
    ]


def _kueue_topology(job: KubernetesJobSpec) -> dict[str, str]:
    level = job.pods.kueue_topology
    return {f"kueue.x-k8s.io/podset-{job.pods.placement}-topology": level} if level else {}


def _pod_security(job: KubernetesJobSpec) -> dict[str, Any]:
    context: dict[str, Any] = {"seccompProfile": {"type": "RuntimeDefault"}}
    if job.pods.run_as_user is not None:
        context |= {"runAsUser": job.pods.run_as_user, "runAsNonRoot": job.pods.run_as_user != 0}
    return context


def _container_security(job: KubernetesJobSpec) -> dict[str, Any]:
    capabilities: dict[str, Any] = {"drop": ["ALL"]} | ({"add": ["IPC_LOCK"]} if job.pods.ipc_lock else {})
    return {"allowPrivilegeEscalation": False, "capabilities": capabilities}
