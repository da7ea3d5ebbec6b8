"""The objects of the overlays, for the tests of manifests and of monitoring."""

import pathlib
from typing import Any

import yaml

OVERLAYS = ("dev", "prod", "gpu")
GOLDENS = pathlib.Path(__file__).parent / "goldens" / "manifests"


def built(overlay: str) -> list[dict[str, Any]]:
    """The objects of an overlay, as kubectl has built them into the golden."""
    return [document for document in yaml.safe_load_all((GOLDENS / f"{overlay}.yaml").read_text()) if document]


def find(documents: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [document for document in documents if document["kind"] == kind]


def pod_templates(value: Any) -> list[dict[str, Any]]:
    """Every template below `value` that pods are made from: what has metadata, and containers in its spec."""
    if isinstance(value, list):
        return [found for item in value for found in pod_templates(item)]
    if not isinstance(value, dict):
        return []
    own = [value] if "containers" in (value.get("spec") or {}) and "metadata" in value else []
    return own + [found for item in value.values() for found in pod_templates(item)]
