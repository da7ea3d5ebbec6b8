"""The `platforms.kubernetes` document: what a pod needs that the pipeline spec has no field for."""

from typing import Any

from google.protobuf import json_format
from kfp.kubernetes import kubernetes_executor_config_pb2 as kubernetes_pb

from kubeflow.config import KubeflowConfig, StepConfig


def executor_config(step: StepConfig, config: KubeflowConfig) -> dict[str, Any]:
    """The Kubernetes executor config of one step, in JSON form, checked against its protocol buffer.

    Each name is written both ways: as the plain field that older backends read, and as the runtime value that newer
    ones prefer.
    """
    values: dict[str, Any] = {
        "imagePullPolicy": config.image_pull_policy,
        "imagePullSecret": [{"secretName": name, **_both("secretName", name)} for name in config.image_pull_secrets],
        "pvcMount": [_volume(volume) for volume in step.volumes],
        "secretAsEnv": [_secret(secret) for secret in step.secrets],
        "nodeSelector": {"labels": step.node_selector} if step.node_selector else None,
        "tolerations": [_toleration(toleration) for toleration in step.tolerations],
        "podMetadata": _present(labels=step.labels, annotations=step.annotations),
        "activeDeadlineSeconds": str(step.timeout_seconds) if step.timeout_seconds else None,
        "enabledSharedMemory": _shared_memory(step),
    }
    return as_json({key: value for key, value in values.items() if value})


def as_json(values: dict[str, Any]) -> dict[str, Any]:
    """`values` as KubernetesExecutorConfig would print them; raises where it has no such field."""
    message = json_format.ParseDict(values, kubernetes_pb.KubernetesExecutorConfig())
    return json_format.MessageToDict(message)


def document(executors: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The second YAML document, for executor configs by executor label."""
    return {"platforms": {"kubernetes": {"deploymentSpec": {"executors": executors}}}}


def _both(field: str, value: str) -> dict[str, Any]:
    return {f"{field}Parameter": {"runtimeValue": {"constant": value}}}


def _volume(volume: Any) -> dict[str, Any]:
    return {
        "constant": volume.claim,
        **_both("pvcName", volume.claim),
        "mountPath": volume.path,
        **_present(subPath=volume.sub_path),
    }


def _secret(secret: Any) -> dict[str, Any]:
    keys = [{"secretKey": key, "envVar": variable} for key, variable in secret.env.items()]
    return {
        "secretName": secret.name,
        **_both("secretName", secret.name),
        "keyToEnv": keys,
        **_present(optional=secret.optional),
    }


def _toleration(toleration: Any) -> dict[str, Any]:
    return _present(key=toleration.key, operator=toleration.operator, value=toleration.value, effect=toleration.effect)


def _shared_memory(step: StepConfig) -> dict[str, str] | None:
    return {"volumeName": "shared-memory", "size": step.shared_memory} if step.shared_memory else None


def _present(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}
