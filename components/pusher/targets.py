"""From a PushTarget to the deployer that serves its kind."""

from typing import Any

from components.pusher.base_folder import BaseFolder
from components.pusher.config import PushTarget
from components.pusher.deployer import Deployer
from components.pusher.rollout import Rollout, Unobserved
from components.pusher.servers import Servers


def make_deployer(target: PushTarget, **overrides: Any) -> Deployer:
    """The deployer for `target`; `overrides` are Deployer's own keyword arguments."""
    return Deployer(target, **{"rollout": make_rollout(target), **overrides})


def make_rollout(target: PushTarget) -> Rollout:
    """The servers' side of a deployment to `target`. Imports what that side needs, and no more."""
    folder = BaseFolder(target.base, target.name, nested=target.kind == "kserve")
    if target.kind == "kserve":
        from components.pusher.kserve import KServe
        from components.pusher.kube_api import KubernetesApi

        return KServe(target, folder, KubernetesApi(target.cluster()))
    if target.kind == "deployment":
        from components.pusher.kube_api import KubernetesApi
        from components.pusher.kube_deployment import KubernetesDeployment

        return KubernetesDeployment(target, folder, Servers(target), KubernetesApi(target.cluster()))
    if target.kind == "model_config":
        from components.pusher.configured import ConfiguredServers

        return ConfiguredServers(target, folder, Servers(target))
    if target.servers:
        from components.pusher.polled import PolledServers

        return PolledServers(target, folder, Servers(target))
    return Unobserved(folder)
