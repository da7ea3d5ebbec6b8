"""From a PushTarget to the deployer that serves its kind."""

from typing import Any

from components.pusher.config import PushTarget
from components.pusher.deployer import Deployer


def make_deployer(target: PushTarget, **overrides: Any) -> Deployer:
    """The deployer for `target`; `overrides` are Deployer's own keyword arguments."""
    return Deployer(target, **overrides)
