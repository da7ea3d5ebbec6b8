"""All replicas of a model server: a version is available when it is on every one, and right when every one says so."""

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

from components.pusher.config import PushTarget
from components.pusher.errors import PushConfigError, PushError
from components.pusher.golden import Golden, GoldenError
from components.pusher.replica import Replica, ReplicaError, connect

_POLL_S = 0.2


class Servers:
    """The replicas behind the target's addresses, looked up anew whenever they are asked: an autoscaler adds some."""

    def __init__(self, target: PushTarget, clock: Callable[[], float] = time.monotonic) -> None:
        self._target = target
        self._clock = clock
        self._connected: dict[str, Replica] = {}

    def replicas(self) -> list[Replica]:
        """Every replica there is now. Raises PushError when a host name resolves to nothing."""
        addresses = [resolved for address in self._target.servers for resolved in resolve(address)]
        for address in addresses:
            if address not in self._connected:
                self._connected[address] = connect(address, self._target.probe_timeout_s)
        return [self._connected[address] for address in addresses]

    def highest_version(self) -> int:
        """The highest version that any replica knows of; 0 if they know none. Raises PushError if one is not there."""
        try:
            return max((max(replica.status(self._target.name), default=0) for replica in self.replicas()), default=0)
        except ReplicaError as error:
            raise PushError(f"nothing was pushed, because a model server does not answer: {error}") from None

    def wait_available(self, version: int) -> None:
        """Returns when every replica has `version` AVAILABLE; raises PushError when one gives up or at the deadline."""
        deadline = self._clock() + self._target.available_timeout_s
        while waiting := list(self._not_available(version)):
            if self._clock() >= deadline:
                raise PushError(
                    f"version {version} of {self._target.name} is not available on every replica after "
                    f"{self._target.available_timeout_s:g} s: {'; '.join(waiting)}"
                )
            time.sleep(_POLL_S)

    def reload(self, config: Any) -> None:
        """Tells every replica its models. One that restarts right now is told again until the deadline."""
        deadline = self._clock() + self._target.available_timeout_s
        for replica in self.replicas():
            while True:
                try:
                    replica.reload(config, max(1.0, deadline - self._clock()))
                    break
                except ReplicaError as error:
                    if error.code != "UNAVAILABLE" or self._clock() >= deadline:
                        raise PushError(f"the model config was not accepted: {error}") from None
                    time.sleep(_POLL_S)

    def has_available(self, version: int) -> bool:
        """Whether every replica serves `version` now."""
        try:
            return not list(self._not_available(version))
        except PushError:
            return False

    def wait_gone(self, version: int) -> None:
        """Returns when no replica serves `version` any more."""
        deadline = self._clock() + self._target.available_timeout_s
        while any(self._state(replica, version) in ("AVAILABLE", "UNLOADING") for replica in self.replicas()):
            if self._clock() >= deadline:
                raise PushError(f"version {version} of {self._target.name} is still loaded on some replica")
            time.sleep(_POLL_S)

    def probe(self, golden: Golden | None, *, version: int | None = None, label: str = "", rounds: int = 1) -> None:
        """Asks every replica and compares the answers with the trainer's. Raises PushError."""
        for replica in self.replicas() * rounds:
            probe(replica, self._target.name, golden, version=version, label=label)

    def _not_available(self, version: int) -> Iterator[str]:
        for replica in self.replicas():
            state = self._state(replica, version)
            if state != "AVAILABLE":
                yield f"{replica.address}: {state}"

    def _state(self, replica: Replica, version: int) -> str:
        try:
            status = replica.status(self._target.name).get(version)
        except ReplicaError as error:
            if error.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED"):
                return str(error)  # starting, or restarting: wait for it
            raise PushError(f"{self._target.name}: {error}") from None
        if status is None:
            return "unknown there"
        if status.has_failed:
            raise PushError(
                f"version {version} of {self._target.name} failed to load on {replica.address}: {status.error}"
            )
        return status.state


def probe(replica: Replica, name: str, golden: Golden | None, *, version: int | None = None, label: str = "") -> None:
    """Asks one replica the golden examples, or, without any, for its signatures. Raises PushError."""
    asked = f"version {version}" if version is not None else f"label {label!r}" if label else "the default version"
    try:
        if golden is None:
            replica.check_metadata(name, version=version, label=label)
        else:
            golden.compare(replica.predict(name, golden, version=version, label=label))
    except (ReplicaError, GoldenError) as error:
        raise PushError(f"{name}, {asked}, on {replica.address}: {error}") from None


def resolve(address: str) -> list[str]:
    """Every address behind one: a headless Service's name stands for all its pods. REST names are kept (TLS, hosts)."""
    if "://" in address:
        scheme, _, rest = address.partition("://")
        if scheme == "https":
            return [address]
        return [f"{scheme}://{resolved}" for resolved in resolve(rest.rstrip("/"))]
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise PushConfigError(f"server {address!r}: expected HOST:PORT (gRPC) or http://HOST:PORT (REST)")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        raise PushError(f"server {address!r}: its name does not resolve: {error.strerror}") from None
    addresses = sorted({str(entry[4][0]) for entry in found})
    if host == "localhost" and len(addresses) > 1:
        return [address]  # one server on two protocols, not two servers
    return [f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}" for ip in addresses]
