"""What the training pods look like and where they may run."""

import dataclasses
from collections.abc import Mapping
from typing import Any

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
        for name, kind in (("volumes", VolumeClaim), ("secret_variables", SecretVariable)):
            items = tuple(_item(item, kind, f"kubernetes: {name}") for item in getattr(self, name))
            object.__setattr__(self, name, items)
        for name in ("image_pull_secrets", "env_from_secrets", "tolerations"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        _require(bool(self.image), "image", self.image, "the image that holds your code and this package")
        _require(self.placement in (PREFERRED, REQUIRED), "placement", self.placement, f"{PREFERRED} or {REQUIRED}")
        _require(self.num_gpus >= 0, "num_gpus", self.num_gpus, "0 or more")
        _require(self.stall_seconds >= 0, "stall_seconds", self.stall_seconds, "0 or more")
        _require(self.termination_grace_seconds > 0, "termination_grace_seconds", self.termination_grace_seconds, "> 0")
        mounts = [volume.mount_path.rstrip("/") for volume in self.volumes if not volume.read_only]
        is_shared = any(self.shared_dir == mount or self.shared_dir.startswith(mount + "/") for mount in mounts)
        _require(not self.shared_dir or is_shared, "shared_dir", self.shared_dir, f"below a writable volume ({mounts})")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str) -> "KubernetesConfig":
        """Builds the configuration from a mapping; `where` goes into the messages.

        Raises:
          TrainingConfigError: a key is unknown or missing, or a value is not allowed.
        """
        return _item(values, cls, where)


def _item(values: Any, kind: type, where: str) -> Any:
    if isinstance(values, kind):
        return values
    known = {field.name for field in dataclasses.fields(kind)}
    if not isinstance(values, Mapping):
        raise TrainingConfigError(f"{where}: expected a mapping with {', '.join(sorted(known))}; got {values!r}")
    unknown = sorted(set(values) - known)
    if unknown:
        raise TrainingConfigError(f"{where}: unknown {', '.join(unknown)}; allowed: {', '.join(sorted(known))}")
    try:
        return kind(**values)
    except TypeError as error:
        raise TrainingConfigError(f"{where}: {error}") from error


def _require(is_valid: bool, field: str, value: object, expected: str) -> None:
    if not is_valid:
        raise TrainingConfigError(f"kubernetes: {field} is {value!r}; expected {expected}")
