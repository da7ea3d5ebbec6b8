"""The one description from which every kind of Kubernetes job is made."""

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from typing import Any

from components.trainer.cluster_config import ClusterConfig
from components.trainer.kubernetes.config import KubernetesConfig

MAX_NAME_LENGTH = 44  # pods add "-node-0-12" and a suffix, and a host name has 63 characters at most
PORT = 2222
JOB_LABEL = "sluice/training-job"
SPEC_HASH_ANNOTATION = "sluice/spec-hash"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Owner:
    """The object with which the job is garbage-collected: the step's pod."""

    name: str
    uid: str
    api_version: str = "v1"
    kind: str = "Pod"

    def reference(self) -> dict[str, Any]:
        """As it is in metadata.ownerReferences."""
        return {"apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid}


@dataclasses.dataclass(frozen=True, kw_only=True)
class KubernetesJobSpec:
    """A training cluster on Kubernetes."""

    name: str
    spec_path: str  # the TrainingSpec file, as the pods see it
    cluster: ClusterConfig
    pods: KubernetesConfig
    owner: Owner | None = None

    @property
    def labels(self) -> dict[str, str]:
        """On every object of the job and on its pods."""
        return {JOB_LABEL: self.name, "app.kubernetes.io/managed-by": "sluice", **self.pods.labels}

    @property
    def env(self) -> Mapping[str, str]:
        """Variables of every worker: the cluster's, which may set anything, such as NCCL's."""
        return self.cluster.env

    def metadata(self, spec_hash: str = "") -> dict[str, Any]:
        """metadata of a top-level object."""
        labels = dict(self.labels)
        if self.pods.queue_name:
            labels["kueue.x-k8s.io/queue-name"] = self.pods.queue_name
        metadata: dict[str, Any] = {"name": self.name, "labels": labels}
        annotations = dict(self.pods.annotations) | ({SPEC_HASH_ANNOTATION: spec_hash} if spec_hash else {})
        if annotations:
            metadata["annotations"] = annotations
        if self.owner:
            metadata["ownerReferences"] = [self.owner.reference()]
        return metadata


def job_name(prefix: str, identity: str) -> str:
    """A name that is the same for the same step execution, so that a repeated step finds the job it has started.

    Args:
      prefix: for people, such as the pipeline's name; whatever a name may not hold is replaced.
      identity: what makes this execution different from all others, such as the URI of its Model artifact.
    """
    digest = hashlib.sha256(identity.encode()).hexdigest()[:10]
    readable = re.sub(r"[^a-z0-9]+", "-", prefix.lower()).strip("-")[: MAX_NAME_LENGTH - len(digest) - 1].strip("-")
    # A name starts with a letter, says RFC 1035.
    readable = readable if readable[:1].isalpha() else f"train-{readable}"[: MAX_NAME_LENGTH - len(digest) - 1]
    return f"{readable.strip('-')}-{digest}"
