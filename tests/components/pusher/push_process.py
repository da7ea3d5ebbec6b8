"""A push in a process of its own, to be killed: `python push_process.py '{"base": ..., "model": ..., ...}'`.

Keys: base, name, model (None: rollback), kill_at (boundary to die at by SIGKILL), fill_at (boundary at which the
disk is filled to the last byte), servers_fail (the servers never load the version), lock_timeout_s, keep_versions.
Prints {"outcome", "version"} or {"error"} as JSON. Loading the model is left out: other tests do that.
"""

import json
import os
import pathlib
import signal
import sys

from components.pusher.base_folder import BaseFolder
from components.pusher.config import PushTarget
from components.pusher.deployer import Deployer
from components.pusher.errors import PushError
from components.pusher.journal import State
from components.pusher.rollout import Unobserved


class Servers(Unobserved):
    """Servers that load what is published at once, or never."""

    def __init__(self, folder: BaseFolder, fail: bool) -> None:
        super().__init__(folder)
        self._fail = fail

    def steps(self):
        return {State.AVAILABLE: self._load, State.PROBED: lambda version: None, State.PROMOTED: lambda version: None}

    def _load(self, version: int) -> None:
        if self._fail:
            raise PushError(f"version {version} was not loaded")


def fill_disk(folder: pathlib.Path) -> None:
    with open(folder / "filler", "wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            return


def main(request: dict) -> dict:
    target = PushTarget(
        base=request["base"],
        name=request.get("name", "line"),
        lock_timeout_s=request.get("lock_timeout_s", 60.0),
        keep_versions=request.get("keep_versions", 2),
    )

    def boundary(name: str) -> None:
        if name == request.get("fill_at"):
            fill_disk(pathlib.Path(target.base))
        if name == request.get("kill_at"):
            os.kill(os.getpid(), signal.SIGKILL)

    folder = BaseFolder(target.base, target.name)
    rollout = Servers(folder, request.get("servers_fail", False))
    deployer = Deployer(target, rollout=rollout, verify=lambda staging, target: {}, boundary=boundary)
    try:
        result = deployer.push(request["model"]) if request.get("model") else deployer.rollback()
    except PushError as error:
        return {"error": str(error)}
    return {"outcome": result.outcome, "version": result.version}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
