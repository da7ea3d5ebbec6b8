"""Who takes part: TF_CONFIG read and checked, and peers named when they cannot be reached."""

import contextlib
import dataclasses
import json
import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping

from modules.training.errors import PeerLostError, TrainingConfigError

_CONNECT_TIMEOUT_S = 0.5
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
    def rank_on_host(self) -> int:
        """How many of the workers before this one are on the same machine; pods have an address of their own each."""
        hosts = [_host(address) for role in ("chief", "worker") for address in self.tasks.get(role, ())]
        return hosts[: self.worker_rank].count(hosts[self.worker_rank]) if hosts and self.role != "evaluator" else 0

    @property
    def is_chief(self) -> bool:
        """Whether this task saves checkpoints, writes telemetry and exports."""
        return self.role in ("chief", "worker") and self.worker_rank == 0

    @property
    def has_parameter_servers(self) -> bool:
        return bool(self.tasks.get("ps"))

    def peers(self) -> list[tuple[str, str]]:
        """The other members, each as ("worker 1", "host:port")."""
        everybody = [(r, i, address) for r, addresses in self.tasks.items() for i, address in enumerate(addresses)]
        return [(f"{r} {i}", address) for r, i, address in everybody if (r, i) != (self.role, self.index)]

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
    if not isinstance(value["cluster"], dict):
        raise TrainingConfigError(f"TF_CONFIG: 'cluster' must map task types to addresses, got {value['cluster']!r}")
    tasks = {role: _addresses(role, hosts) for role, hosts in value["cluster"].items()}
    _check_duplicates(tasks)
    _check_roles(tasks)
    task = value.get("task")
    if not isinstance(task, dict) or "type" not in task or "index" not in task:
        raise TrainingConfigError("TF_CONFIG: 'task' must say which member this process is: {'type': .., 'index': ..}")
    role, index = task["type"], task["index"]
    if role not in [*tasks, "evaluator"]:
        raise TrainingConfigError(f"TF_CONFIG: task type {role!r} is not in the cluster, which has {', '.join(tasks)}")
    if role == "evaluator" and "ps" not in tasks:
        raise TrainingConfigError("TF_CONFIG: an evaluator needs parameter servers; other workers evaluate together")
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
        is_port = port.isascii() and port.isdigit() and 0 < int(port) < 65536
        if not host or "/" in host or not is_port:
            raise TrainingConfigError(f"TF_CONFIG: {address!r} in cluster.{role} is not 'host:port'")
    return tuple(hosts)


def _check_roles(tasks: Mapping[str, tuple[str, ...]]) -> None:
    if len(tasks.get("chief", ())) > 1:
        raise TrainingConfigError(f"TF_CONFIG: there can be one chief, got {', '.join(tasks['chief'])}")
    if "ps" in tasks and not ("chief" in tasks and "worker" in tasks):
        raise TrainingConfigError(
            f"TF_CONFIG: parameter servers need a chief and workers; there are {', '.join(tasks)}"
        )


def _check_duplicates(tasks: Mapping[str, tuple[str, ...]]) -> None:
    seen: dict[str, str] = {}
    for role, addresses in tasks.items():
        for index, address in enumerate(addresses):
            member = f"{role} {index}"
            if address in seen:
                raise TrainingConfigError(f"TF_CONFIG: {seen[address]} and {member} have the same address {address}")
            seen[address] = member


def _host(address: str) -> str:
    return address.rpartition(":")[0]


@contextlib.contextmanager
def own_port(cluster: ClusterSpec) -> Iterator[None]:
    """Listens on this task's port during the block, so that peers see that it is there.

    Raises:
      TrainingConfigError: another program has the port.
    """
    addresses = cluster.tasks.get(cluster.role, ())
    if not addresses:
        yield
        return
    port = int(addresses[cluster.index].rpartition(":")[2])
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))
            listener.listen(socket.SOMAXCONN)  # nothing is accepted: whoever looks stays in the queue
        except OSError as error:
            raise TrainingConfigError(
                f"{cluster.name}: port {port} is taken ({error.strerror}); free it or choose another in TF_CONFIG"
            ) from None
        yield


def unreachable_peers(cluster: ClusterSpec, peers: Iterable[tuple[str, str]] | None = None) -> dict[str, str]:
    """Of `peers` (of all, if None) those that accept no connection now: "worker 1 (host:port)" to the reason."""
    missing = {}
    for name, address in cluster.peers() if peers is None else peers:
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_TIMEOUT_S).close()
        except OSError as error:
            missing[f"{name} ({address})"] = error.strerror or str(error)
    return missing


def wait_for_peers(cluster: ClusterSpec, timeout_s: float) -> None:
    """Waits until every peer has been seen to listen.

    TensorFlow waits for its peers itself, but for an hour, without a name, and in native code that keeps Python's lock,
    so that not even the watchdog can put an end to it.

    Raises:
      PeerLostError: some peers did not come up in time; names each of them.
    """
    deadline = time.monotonic() + timeout_s
    awaited = cluster.peers()
    while missing := unreachable_peers(cluster, awaited):
        awaited = [(name, address) for name, address in awaited if f"{name} ({address})" in missing]
        if time.monotonic() > deadline:
            who = "; ".join(f"{peer}: {reason}" for peer, reason in missing.items())
            raise PeerLostError(f"{cluster.name}: no answer for {timeout_s:.0f} s from {who}")
        time.sleep(0.1)
