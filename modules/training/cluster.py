"""Who takes part: TF_CONFIG read and checked, and peers named when they cannot be reached."""

import dataclasses
import json
import os
import socket
import time
from collections.abc import Mapping

from modules.training.errors import PeerLostError, TrainingConfigError

_ROLES = ("chief", "worker", "ps", "evaluator")


@dataclasses.dataclass(frozen=True)
class ClusterSpec:
    """One task's view of the cluster. Without TF_CONFIG: a cluster of this process alone."""

    tasks: Mapping[str, tuple[str, ...]]
    """Role to addresses, each "host:port"."""
    role: str = "worker"
    index: int = 0

    @property
    def num_workers(self) -> int:
        """Processes that compute gradients under MultiWorkerMirroredStrategy."""
        return max(1, len(self.tasks.get("chief", ())) + len(self.tasks.get("worker", ())))

    @property
    def worker_rank(self) -> int:
        """Position among the workers, the chief first; TensorFlow numbers replicas the same way."""
        return self.index + (len(self.tasks.get("chief", ())) if self.role == "worker" else 0)

    @property
    def is_chief(self) -> bool:
        """Whether this task saves checkpoints, writes telemetry and exports."""
        return self.role in ("chief", "worker") and self.worker_rank == 0

    @property
    def has_parameter_servers(self) -> bool:
        return bool(self.tasks.get("ps"))

    @property
    def name(self) -> str:
        """For messages, e.g. "worker 1 (10.0.0.7:2222)"."""
        addresses = self.tasks.get(self.role, ())
        return f"{self.role} {self.index}" + (f" ({addresses[self.index]})" if addresses else "")


def read_cluster(environ: Mapping[str, str] | None = None) -> ClusterSpec:
    """Reads TF_CONFIG.

    Args:
      environ: where to look; None means the process environment.

    Raises:
      TrainingConfigError: TF_CONFIG is there but cannot be right; the message says which part.
    """
    text = (os.environ if environ is None else environ).get("TF_CONFIG", "").strip()
    if not text:
        return ClusterSpec(tasks={})
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise TrainingConfigError(f"TF_CONFIG is not JSON ({error}): {text[:80]!r}") from None
    if not isinstance(value, dict):
        raise TrainingConfigError(f"TF_CONFIG: expected an object with 'cluster' and 'task', got {text[:80]!r}")
    if not value.get("cluster"):
        return ClusterSpec(tasks={})
    tasks = {role: _addresses(role, hosts) for role, hosts in value["cluster"].items()}
    _check_duplicates(tasks)
    task = value.get("task")
    if not isinstance(task, dict) or "type" not in task or "index" not in task:
        raise TrainingConfigError("TF_CONFIG: 'task' must say which member this process is: {'type': .., 'index': ..}")
    role, index = task["type"], task["index"]
    if role not in tasks and role != "evaluator":
        raise TrainingConfigError(f"TF_CONFIG: task type {role!r} is not in the cluster, which has {', '.join(tasks)}")
    if not isinstance(index, int) or isinstance(index, bool):
        raise TrainingConfigError(f"TF_CONFIG: task index is {index!r}; expected a whole number")
    if role in tasks and not 0 <= index < len(tasks[role]):
        raise TrainingConfigError(
            f"TF_CONFIG: task index {index} of {role!r} is outside the cluster, which has {len(tasks[role])} of them"
        )
    return ClusterSpec(tasks=tasks, role=role, index=index)


def _addresses(role: str, hosts: object) -> tuple[str, ...]:
    if role not in _ROLES:
        raise TrainingConfigError(f"TF_CONFIG: unknown task type {role!r} in cluster; allowed are {', '.join(_ROLES)}")
    if not isinstance(hosts, list) or not hosts:
        raise TrainingConfigError(f"TF_CONFIG: cluster.{role} must be a list of 'host:port', got {hosts!r}")
    for address in hosts:
        host, _, port = str(address).rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise TrainingConfigError(f"TF_CONFIG: {address!r} in cluster.{role} is not 'host:port'")
    return tuple(hosts)


def _check_duplicates(tasks: Mapping[str, tuple[str, ...]]) -> None:
    seen: dict[str, str] = {}
    for role, addresses in tasks.items():
        for index, address in enumerate(addresses):
            member = f"{role} {index}"
            if address in seen:
                raise TrainingConfigError(f"TF_CONFIG: {seen[address]} and {member} have the same address {address}")
            seen[address] = member


def check_own_port(cluster: ClusterSpec) -> None:
    """Fails early, and plainly, when another program holds this task's port.

    Raises:
      TrainingConfigError: the port cannot be bound.
    """
    addresses = cluster.tasks.get(cluster.role, ())
    if not addresses:
        return
    address = addresses[cluster.index]
    port = int(address.rpartition(":")[2])
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            raise TrainingConfigError(
                f"{cluster.name}: port {port} is taken ({error.strerror}); free it or choose another in TF_CONFIG"
            ) from None


def unreachable_peers(cluster: ClusterSpec, connect_timeout_s: float = 0.5) -> list[str]:
    """Members that accept no TCP connection right now, each as "worker 1 (host:port): reason"."""
    missing = []
    for role, addresses in cluster.tasks.items():
        for index, address in enumerate(addresses):
            if (role, index) == (cluster.role, cluster.index):
                continue
            host, _, port = address.rpartition(":")
            try:
                socket.create_connection((host.strip("[]"), int(port)), timeout=connect_timeout_s).close()
            except OSError as error:
                missing.append(f"{role} {index} ({address}): {error.strerror or error}")
    return missing


def wait_for_peers(cluster: ClusterSpec, timeout_s: float) -> None:
    """Waits until every peer listens.

    Called once this task's own server listens, so that peers which do the same see each other.

    Raises:
      PeerLostError: some peers did not come up in time; names each of them.
    """
    deadline = time.monotonic() + timeout_s
    while missing := unreachable_peers(cluster):
        if time.monotonic() > deadline:
            raise PeerLostError(f"{cluster.name}: no answer for {timeout_s:.0f} s from {'; '.join(missing)}")
        time.sleep(0.2)
