"""What a deployer asks of whoever serves the folder. The simplest answer: nobody does."""

from collections.abc import Callable
from typing import Any, Protocol

from components.pusher.base_folder import BaseFolder
from components.pusher.journal import State


class Rollout(Protocol):
    """The servers' side of a deployment. Every method may be called again after a crash and must then do no harm."""

    def snapshot(self) -> dict[str, Any]:
        """What to restore if the deployment fails, as JSON; `live` is the version that serves now, or None."""

    def highest_version(self) -> int:
        """The highest version that any server knows of, 0 if none."""

    def live_version(self) -> int | None:
        """The version that stable (or, without labels, all) requests are meant to go to now."""

    def steps(self) -> dict[State, Callable[[int], None]]:
        """What to do for AVAILABLE, PROBED, CANARY and PROMOTED, where the servers know of such a thing.

        Each takes the version, returns once the state is reached, and raises PushError where it cannot be.
        """

    def release(self, version: int) -> set[int]:
        """Lets the servers go of what `version` replaced; returns the versions that must stay in the folder."""

    def restore(self, snapshot: dict[str, Any], failed: int) -> None:
        """Points the servers back at the snapshot's live version and confirms that it answers."""

    def after_withdrawal(self, snapshot: dict[str, Any]) -> None:
        """Confirms that the live version answers once the failed folder is out of sight."""


class Unobserved:
    """A folder whose servers, if any, are not ours to ask: the highest version is the live one."""

    def __init__(self, folder: BaseFolder) -> None:
        self._folder = folder

    def snapshot(self) -> dict[str, Any]:
        return {"live": self.live_version()}

    def highest_version(self) -> int:
        return 0

    def live_version(self) -> int | None:
        return max(self._folder.versions(), default=None)

    def steps(self) -> dict[State, Callable[[int], None]]:
        return {}

    def release(self, version: int) -> set[int]:
        return set()

    def restore(self, snapshot: dict[str, Any], failed: int) -> None:
        """Nothing but the folder to restore, and the deployer does that."""

    def after_withdrawal(self, snapshot: dict[str, Any]) -> None:
        """Nobody to ask."""
