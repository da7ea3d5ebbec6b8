"""KubernetesConfig: the cluster's side of a push target of kind "kserve" or "deployment"."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from components.pusher import settings

# What Sluice's manifests are written for. KServe's own default image is years older than the models' TensorFlow.
SERVING_VERSION = "2.19.0"


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchingParameters:
    """TensorFlow Serving's batching parameters file; the defaults are the start that its guide documents."""

    max_batch_size: int = 32
    batch_timeout_micros: int = 100_000
    num_batch_threads: int = 4
    max_enqueued_batches: int = 100

    def to_text(self) -> str:
        """The file's content, a protocol buffer in text form."""
        return "".join(f"{name} {{ value: {value} }}\n" for name, value in dataclasses.asdict(self).items())


@dataclasses.dataclass(frozen=True, kw_only=True)
class KubernetesConfig:
    """Where in a cluster a model is served, and with how much. Raises PushConfigError for values that cannot work."""

    namespace: str = "default"
    api_server: str = ""
    """URL of the API server; empty: the service account of this pod, or else the current kubeconfig."""

    claim: str = ""
    """deployment: the persistent volume claim that holds the serving folder and the model config file."""

    storage_uri: str = ""
    """kserve: the model's folder as the cluster sees it. pvc://CLAIM/PATH is `<base>/<name>` on that claim; to an
    object store (s3://, gs://) every version is uploaded, manifest last, before the InferenceService is changed."""

    serverless: bool = True
    """kserve: whether KServe runs on Knative. Without it there is no canaryTrafficPercent, and no canary."""

    canary_percent: int = 10
    """kserve: the share of requests that the canary gets."""

    ingress: str = ""
    """kserve: base URL to reach services by, with their host name in the Host header; empty: their own URLs."""

    runtime_version: str = SERVING_VERSION
    """The tag of the TensorFlow Serving image."""

    image: str = "tensorflow/serving"
    """deployment: the image without its tag."""

    service_account: str = ""
    min_replicas: int = 2
    max_replicas: int = 6
    target_cpu_percent: int = 70
    """deployment: the load at which the autoscaler adds replicas."""

    cpu: str = "2"
    memory: str = "4Gi"
    """Twice the model and more: a new version is loaded beside the old one."""

    batching: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """deployment: fields of BatchingParameters."""

    def __post_init__(self) -> None:
        settings.require(
            1 <= self.min_replicas <= self.max_replicas,
            "min_replicas",
            f"must be at least 1 and at most max_replicas; got {self.min_replicas} and {self.max_replicas}",
        )
        settings.require(
            0 <= self.canary_percent <= 100, "canary_percent", f"must be 0 to 100; got {self.canary_percent}"
        )
        self.batching_parameters()

    def batching_parameters(self) -> BatchingParameters:
        return settings.build(BatchingParameters, self.batching, "batching")

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any], where: str = "kubernetes") -> "KubernetesConfig":
        return settings.build(cls, mapping, where)
