"""A/B split between version labels: the same rule for a client that chooses, and for a gateway that routes."""

import hashlib
from collections.abc import Mapping
from typing import Any

from components.pusher.errors import PushConfigError
from components.pusher.manifests import REST_PORT


def choose_label(key: str, weights: Mapping[str, float], experiment: str = "") -> str:
    """The label for one caller: the same key always gets the same label, on any machine.

    Args:
      key: what stays together, such as a user or session id.
      weights: label to weight, for example {"stable": 90, "canary": 10}; only their ratio matters.
      experiment: another name deals the keys anew, so that two experiments do not share their groups.

    Raises:
      PushConfigError: a negative weight, or no positive one.
    """
    total = _total(weights)
    digest = hashlib.sha256(f"{experiment}\0{key}".encode()).digest()
    point = int.from_bytes(digest[:8]) / 2**64 * total
    chosen = ""
    for label, weight in sorted(weights.items()):
        if weight > 0:
            chosen = label
            if point < weight:
                break
            point -= weight
    return chosen


def http_route(
    name: str, namespace: str, gateway: str, weights: Mapping[str, int], hostnames: tuple[str, ...] = ()
) -> dict[str, Any]:
    """A Gateway API HTTPRoute that sends shares of /v1/models/NAME:predict to labels of the same model.

    It splits request by request. A caller that names a version or label itself is passed on as it is.

    Args:
      name: the model's and its Service's name.
      namespace: of both.
      gateway: name of the Gateway to attach to.
      weights: label to weight, whole numbers.
      hostnames: restricts the route; empty for all.
    """
    _total(weights)
    predict = f"/v1/models/{name}:predict"
    backends = [
        {
            "name": name,
            "port": REST_PORT,
            "weight": weight,
            "filters": [
                {
                    "type": "URLRewrite",
                    "urlRewrite": {
                        "path": {
                            "type": "ReplaceFullPath",
                            "replaceFullPath": f"/v1/models/{name}/labels/{label}:predict",
                        }
                    },
                }
            ],
        }
        for label, weight in sorted(weights.items())
    ]
    split = {"matches": [{"path": {"type": "Exact", "value": predict}, "method": "POST"}], "backendRefs": backends}
    rest = {
        "matches": [{"path": {"type": "PathPrefix", "value": f"/v1/models/{name}"}}],
        "backendRefs": [{"name": name, "port": REST_PORT}],
    }
    spec: dict[str, Any] = {"parentRefs": [{"name": gateway}], "rules": [split, rest]}
    if hostnames:
        spec["hostnames"] = list(hostnames)
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": f"{name}-split", "namespace": namespace},
        "spec": spec,
    }


def _total(weights: Mapping[str, float]) -> float:
    total = sum(weights.values())
    if total <= 0 or any(weight < 0 for weight in weights.values()):
        raise PushConfigError(f"weights {dict(weights)}: none may be negative, and one must be positive")
    return total
