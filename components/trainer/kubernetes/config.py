"""What the training pods look like and where they may run."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from components import config_reader
from components.trainer.errors import TrainingConfigError

PREFERRED = "preferred"
REQUIRED = "required"


@dataclasses.dataclass(frozen=True, kw_only=True)
class VolumeClaim:
    """A PersistentVolumeClaim that every worker mounts; it must allow as many readers or writers as there are pods."""

    claim: str
    mount_path: str
    read_only: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class SecretVariable:
    """An environment variable whose value is one key of a Secret."""

    variable: str
    secret: str
    key: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class KubernetesConfig:
    """The pods of a training cluster."""

    image: str
    namespace: str = ""  # that of the step's own pod, else of the kubeconfig context
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    service_account: str = ""

    # --- resources of one worker ---
    requests: Mapping[str, str] = dataclasses.field(default_factory=lambda: {"cpu": "1", "memory": "4Gi"})
    limits: Mapping[str, str] = dataclasses.field(default_factory=dict)  # such as memory, or rdma/hca
    num_gpus: int = 0
    gpu_resource: str = "nvidia.com/gpu"
    shared_memory: str = ""  # size of /dev/shm, which NCCL needs between GPUs of one node; such as "8Gi"
    ipc_lock: bool = False  # may pin memory, which RDMA needs
    host_network: bool = False  # for RDMA without a secondary network

    # --- files, secrets ---
    volumes: tuple[VolumeClaim, ...] = ()
    # A folder on one of the volumes, mounted alike in the step's own pod. Inputs that are only on the step's own disk
    # are copied there, and the model is brought back from there.
    shared_dir: str = ""
    env_from_secrets: tuple[str, ...] = ()  # every key becomes a variable
    secret_variables: tuple[SecretVariable, ...] = ()
    run_as_user: int | None = None

    # --- where the pods may run ---
    node_selector: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    priority_class: str = ""
    scheduler_name: str = ""
    queue_name: str = ""  # Kueue's LocalQueue: all pods are admitted together
    gang_timeout_seconds: int = 0  # without Kueue: schedule all pods together, or give up after this long
    pack_by: str = ""  # node label that all workers should share: the same rack or switch
    spread_by: str = ""  # node label by which workers should differ: kubernetes.io/hostname for one a node
    placement: str = PREFERRED  # or required: rather wait than train across racks
    kueue_topology: str = ""  # level of a Kueue Topology within which all pods must fit (placement applies as well)

    # --- life and death ---
    termination_grace_seconds: int = 120  # for a last checkpoint
    stall_seconds: int = 900  # a worker without a step for so long is killed; 0 for never. Looser than the watchdog
    ttl_seconds: int = 86400  # finished jobs are kept this long, for their logs
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        _require(bool(self.image), "image", self.image, "the image that holds your code and this package")
        _require(self.placement in (PREFERRED, REQUIRED), "placement", self.placement, f"{PREFERRED} or {REQUIRED}")
        for name in ("num_gpus", "gang_timeout_seconds", "stall_seconds", "ttl_seconds"):
            _require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        _require(self.run_as_user is None or self.run_as_user >= 0, "run_as_user", self.run_as_user, "0 or more")
        _require(self.termination_grace_seconds > 0, "termination_grace_seconds", self.termination_grace_seconds, "> 0")
        mounts = [volume.mount_path.rstrip("/") for volume in self.volumes if not volume.read_only]
        is_shared = any(self.shared_dir == mount or self.shared_dir.startswith(mount + "/") for mount in mounts)
        _require(not self.shared_dir or is_shared, "shared_dir", self.shared_dir, f"below a writable volume ({mounts})")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str) -> "KubernetesConfig":
        """Builds the configuration from a mapping; `where` goes into the messages.

        Raises:
          TrainingConfigError: a key is unknown or missing, or a value is of the wrong kind or not allowed; names it.
        """
        return config_reader.read(cls, values, where, TrainingConfigError)


def _require(is_valid: bool, field: str, value: object, expected: str) -> None:
    if not is_valid:
        raise TrainingConfigError(f"{field} is {value!r}; expected {expected}")
