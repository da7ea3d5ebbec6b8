"""Kubernetes objects of a training cluster, one function for each kind of job. No function here talks to anybody."""

import dataclasses
import hashlib
import json
from collections.abc import Callable
from typing import Any

from components.trainer import exit_codes
from components.trainer.errors import TrainingConfigError
from components.trainer.kubernetes.job_spec import PORT, KubernetesJobSpec
from components.trainer.kubernetes.pod import CONTAINER, pod_template

Manifest = dict[str, Any]

# The label by which Kubeflow Trainer finds, in a runtime, the job that trains.
_TRAINER_STEP = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}


@dataclasses.dataclass(frozen=True)
class JobKind:
    """A kind of job that a cluster may or may not know.

    `build` returns the objects to create, in that order; the last one is the job whose conditions tell how it goes.
    """

    name: str
    group: str
    version: str
    plural: str
    succeeded: str  # type of the condition that says so; a failure is always "Failed"
    restarts_itself: bool  # whether the whole gang is started again without our help
    build: Callable[[KubernetesJobSpec], list[Manifest]]


def train_job(job: KubernetesJobSpec) -> list[Manifest]:
    """Kubeflow Trainer: a TrainingRuntime of our own, because Trainer has no policy for TensorFlow, and a TrainJob."""
    _no_parameter_servers(job, "trainjob")
    policy: Manifest = {"numNodes": job.cluster.num_workers}
    runtime: Manifest = {"mlPolicy": policy, "template": {"spec": _job_set_spec(job, _TRAINER_STEP)}}
    if job.pods.gang_timeout_seconds:
        scheduling = {"scheduleTimeoutSeconds": job.pods.gang_timeout_seconds}
        runtime["podGroupPolicy"] = {"coscheduling": scheduling}
    train: Manifest = {
        "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": job.name},
        "trainer": {"numNodes": job.cluster.num_workers},
    }
    api_version = "trainer.kubeflow.org/v1alpha1"
    # The queue belongs to the job alone: Kueue would not know what to do with a runtime.
    runtime_metadata = job.metadata() | {"labels": job.labels}
    return [
        {"apiVersion": api_version, "kind": "TrainingRuntime", "metadata": runtime_metadata, "spec": runtime},
        {"apiVersion": api_version, "kind": "TrainJob", "metadata": job.metadata(_hash(runtime)), "spec": train},
    ]


def job_set(job: KubernetesJobSpec) -> list[Manifest]:
    """A JobSet: what Trainer makes of a TrainJob, without Trainer."""
    _no_parameter_servers(job, "jobset")
    spec = _job_set_spec(job, {})
    metadata = job.metadata(_hash(spec))
    return [{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}]


def indexed_job(job: KubernetesJobSpec) -> list[Manifest]:
    """Plain Kubernetes: an Indexed Job, and a headless Service that gives its pods names."""
    _no_parameter_servers(job, "indexed-job")
    service = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,  # the workers look for each other before any of them is ready
        "selector": {"batch.kubernetes.io/job-name": job.name},
        "ports": [{"name": "grpc", "port": PORT}],
    }
    spec = _job_spec(job, f"{job.name}-{{index}}.{job.name}")
    spec["template"]["spec"]["subdomain"] = job.name
    spec["ttlSecondsAfterFinished"] = job.pods.ttl_seconds
    service_metadata = job.metadata() | {"labels": job.labels}
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": service_metadata, "spec": service},
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": job.metadata(_hash(spec)), "spec": spec},
    ]


def tf_job(job: KubernetesJobSpec) -> list[Manifest]:
    """The Training Operator's TFJob, in maintenance only. It sets TF_CONFIG itself, parameter servers included."""
    replicas = {
        {"chief": "Chief", "worker": "Worker", "ps": "PS", "evaluator": "Evaluator"}[task]: {
            "replicas": count,
            "restartPolicy": "Never",
            # The operator looks for the container by this name.
            "template": pod_template(job, hosts="", container="tensorflow"),
        }
        for task, count in job.cluster.task_counts().items()
    }
    policy: Manifest = {
        "cleanPodPolicy": "Running",
        "backoffLimit": 0,
        "ttlSecondsAfterFinished": job.pods.ttl_seconds,
    }
    if job.cluster.deadline_seconds:
        policy["activeDeadlineSeconds"] = int(job.cluster.deadline_seconds)
    if job.pods.gang_timeout_seconds:
        scheduling = {"minAvailable": sum(job.cluster.task_counts().values())}
        policy["schedulingPolicy"] = scheduling | {"scheduleTimeoutSeconds": job.pods.gang_timeout_seconds}
    # With a chief, its end is the job's end. Without one every worker must have ended well.
    success = "" if "Chief" in replicas else "AllWorkers"
    spec = {"runPolicy": policy, "successPolicy": success, "tfReplicaSpecs": replicas}
    metadata = job.metadata(_hash(spec))
    return [{"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": metadata, "spec": spec}]


def _job_set_spec(job: KubernetesJobSpec, job_labels: dict[str, str]) -> Manifest:
    # The pod's name is <job set>-<replicated job>-<job index>-<pod index>, and the subdomain is the job set's name.
    template: Manifest = {"spec": _job_spec(job, f"{job.name}-{CONTAINER}-0-{{index}}.{job.name}")}
    if job_labels:
        template["metadata"] = {"labels": job_labels}
    return {
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "successPolicy": {"operator": "All"},
        "failurePolicy": {
            "maxRestarts": job.cluster.max_restarts,
            # All pods must be gone before the next attempt: one of the last would answer in a new one's name.
            "restartStrategy": "BlockingRecreate",
            "rules": [
                {
                    "name": "permanent",
                    "action": "FailJobSet",
                    "onJobFailureReasons": ["PodFailurePolicy", "DeadlineExceeded"],
                }
            ],
        },
        "ttlSecondsAfterFinished": job.pods.ttl_seconds,
        "replicatedJobs": [{"name": CONTAINER, "replicas": 1, "template": template}],
    }


def _job_spec(job: KubernetesJobSpec, hosts: str) -> Manifest:
    spec: Manifest = {
        "completionMode": "Indexed",
        "completions": job.cluster.num_workers,
        "parallelism": job.cluster.num_workers,
        # One lost pod ends this attempt: the others could not go on without it.
        "backoffLimit": 0,
        "podFailurePolicy": {
            "rules": [
                {
                    "action": "FailJob",
                    "onExitCodes": {
                        "containerName": CONTAINER,
                        "operator": "NotIn",
                        "values": list(exit_codes.RETRYABLE),
                    },
                }
            ]
        },
        "template": pod_template(job, hosts),
    }
    if job.cluster.deadline_seconds:
        spec["activeDeadlineSeconds"] = int(job.cluster.deadline_seconds)
    return spec


def _no_parameter_servers(job: KubernetesJobSpec, kind: str) -> None:
    if job.cluster.num_parameter_servers:
        raise TrainingConfigError(
            f"cluster: {kind} has workers only, no parameter servers; use backend local or tfjob for those"
        )


def _hash(spec: Manifest) -> str:
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]


KINDS: dict[str, JobKind] = {
    kind.name: kind
    for kind in (
        JobKind("trainjob", "trainer.kubeflow.org", "v1alpha1", "trainjobs", "Complete", True, train_job),
        JobKind("jobset", "jobset.x-k8s.io", "v1alpha2", "jobsets", "Completed", True, job_set),
        JobKind("indexed-job", "batch", "v1", "jobs", "Complete", False, indexed_job),
        JobKind("tfjob", "kubeflow.org", "v1", "tfjobs", "Succeeded", False, tf_job),
    )
}
