"""A folder that model servers poll: what is published there, they load; we wait, and ask."""

from collections.abc import Callable
from typing import Any

from components.pusher.base_folder import BaseFolder
from components.pusher.config import PushTarget
from components.pusher.errors import PushError
from components.pusher.golden import read_golden
from components.pusher.journal import State
from components.pusher.rollout import Unobserved
from components.pusher.servers import Servers


class PolledServers(Unobserved):
    """TensorFlow Serving with --model_base_path: the highest version serves, and replaces the one before by itself."""

    def __init__(self, target: PushTarget, folder: BaseFolder, servers: Servers) -> None:
        super().__init__(folder)
        self._target = target
        self._servers = servers

    def highest_version(self) -> int:
        """With an empty folder the server may not even listen yet: TensorFlow Serving waits for its first model."""
        try:
            return self._servers.highest_version()
        except PushError:
            if self._folder.versions():
                raise
            return 0

    def steps(self) -> dict[State, Callable[[int], None]]:
        return {
            State.AVAILABLE: self._servers.wait_available,
            State.PROBED: self._probe,
            State.PROMOTED: self._probe_default,
        }

    def after_withdrawal(self, snapshot: dict[str, Any]) -> None:
        """The version before is loaded again, if it was unloaded at all, and answers."""
        live = snapshot.get("live")
        if live in self._folder.versions():  # else somebody emptied the folder, and there is nothing to go back to
            self._servers.wait_available(live)
            self._probe(live)

    def _probe(self, version: int) -> None:
        self._servers.probe(read_golden(self._folder.model_path(version)), version=version)

    def _probe_default(self, version: int) -> None:
        self._servers.probe(read_golden(self._folder.model_path(version)))
