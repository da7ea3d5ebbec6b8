"""How large a compiled pipeline is, against the two limits that people run into."""

import dataclasses
import json
from typing import Any

from kubeflow.errors import CompileError

GRPC_LIMIT = 4 * 1024 * 1024
"""Largest request that the API server takes, in bytes (kubeflow/pipelines#10968)."""
WORKFLOW_LIMIT = 256 * 1024
"""Largest Argo workflow before clusters start to refuse or to offload it, in bytes (kubeflow/pipelines#12453)."""

# Fitted to what the API server of Kubeflow 2.17 itself makes of the pipelines in tests/kubeflow/goldens and of the taxi
# workload: between 0.5 % too small and 4 % too large. Of the 146 workflows that Kubeflow's own tests keep, none is
# larger than its estimate, and the median is 14 % smaller.
_WORKFLOW_BASE = 9_000
_WORKFLOW_TASK = 1_650
_WORKFLOW_POD_METADATA = 6_500
"""Labels or annotations: Kubeflow writes a pair of templates for each number of them."""


@dataclasses.dataclass(frozen=True)
class Size:
    """Bytes of a compiled pipeline."""

    request: int
    """What is sent to the API server."""
    workflow: int
    """About what the API server makes of it for Argo."""
    request_limit: int = GRPC_LIMIT
    workflow_limit: int = WORKFLOW_LIMIT


def measure(pipeline_spec: dict[str, Any], platform_spec: dict[str, Any]) -> Size:
    """Sizes of a compiled pipeline; the workflow's is an estimate."""
    request = _bytes({"pipeline_spec": pipeline_spec, "platform_spec": platform_spec})
    dags = [pipeline_spec["root"], *pipeline_spec["components"].values()]
    tasks = [task for component in dags for task in component.get("dag", {}).get("tasks", {}).values()]
    parts = [*dags, *pipeline_spec["deploymentSpec"]["executors"].values(), *tasks]
    platform = platform_spec["platforms"]["kubernetes"]["deploymentSpec"]["executors"].values()
    parts += platform
    # the workflow holds each part as JSON inside a JSON string, where every quote is escaped
    quoted = sum(_bytes(json.dumps(part, separators=(",", ":"))) for part in parts)
    metadata = [executor["podMetadata"] for executor in platform if "podMetadata" in executor]
    shapes = {(len(item.get("labels", {})), len(item.get("annotations", {}))) for item in metadata}
    fixed = _WORKFLOW_BASE + _WORKFLOW_TASK * len(tasks) + _WORKFLOW_POD_METADATA * len(shapes)
    return Size(request, fixed + quoted)


def check(pipeline_spec: dict[str, Any], platform_spec: dict[str, Any]) -> Size:
    """The sizes.

    Raises:
      CompileError: with the figure and the largest step, where one is over its limit.
    """
    size = measure(pipeline_spec, platform_spec)
    for what, value, limit in (
        ("request", size.request, GRPC_LIMIT),
        ("Argo workflow", size.workflow, WORKFLOW_LIMIT),
    ):
        if value > limit:
            raise CompileError(
                f"the {what} would have {value:,} bytes, and Kubeflow takes {limit:,}. The largest step is "
                f"{_largest(pipeline_spec)}. Move long configuration into a file of the image or of the shared "
                "storage, or split the pipeline."
            )
    return size


def _largest(pipeline_spec: dict[str, Any]) -> str:
    sizes: dict[str, int] = {}
    for component in [pipeline_spec["root"], *pipeline_spec["components"].values()]:
        for name, task in component.get("dag", {}).get("tasks", {}).items():
            label = pipeline_spec["components"][task["componentRef"]["name"]].get("executorLabel", "")
            executor = pipeline_spec["deploymentSpec"]["executors"].get(label, {})
            sizes[name] = _bytes(task) + _bytes(executor)
    name = max(sizes, key=lambda key: sizes[key])
    return f"{name!r} with {sizes[name]:,} bytes"


def _bytes(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":")).encode())
