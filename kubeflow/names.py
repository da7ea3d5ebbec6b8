"""Names that Argo and the API server accept, made from TFX's."""

import re

from kubeflow.errors import CompileError

PIPELINE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_MAX_TASK_NAME = 60
"""Argo makes pod names of the workflow's and the task's name; Kubernetes ends at 253 and labels at 63."""
RESERVED = ("entrypoint", "executor", "pipeline", "root", "report-outcome", "run-summary")
"""Nodes of Kubeflow's own in every workflow, and steps that the compiler adds."""


def task_name(node_id: str) -> str:
    """Kebab case of a TFX node id: `CsvExampleGen` is `csv-example-gen`, `latest_model` is `latest-model`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", node_id)
    return re.sub(r"[^a-z0-9]+", "-", spaced.lower()).strip("-")


def task_names(node_ids: list[str]) -> dict[str, str]:
    """Task name of each node.

    Raises:
      CompileError: where two nodes would get one name, or a name is empty or too long.
    """
    names: dict[str, str] = {}
    owners: dict[str, str] = {}
    for node_id in node_ids:
        name = task_name(node_id)
        if not name or len(name) > _MAX_TASK_NAME:
            raise CompileError(
                f"step {node_id!r}: Kubeflow needs a name of 1 to {_MAX_TASK_NAME} letters, digits and dashes; "
                f"this one becomes {name!r}. Give it another id with `.with_id()`."
            )
        if name in RESERVED or name.endswith("-driver"):
            raise CompileError(
                f"step {node_id!r} becomes {name!r}, a name that Kubeflow or the compiler needs. "
                "Give it another id with `.with_id()`."
            )
        if name in owners:
            raise CompileError(
                f"steps {owners[name]!r} and {node_id!r} both become {name!r}: Kubeflow's names have no capitals and "
                "no underscores. Give one of them another id with `.with_id()`."
            )
        owners[name] = node_id
        names[node_id] = name
    return names


def check_added(made: list[str], of_nodes: dict[str, str]) -> None:
    """Raises CompileError where a step that the compiler adds has the name of one of the pipeline's own."""
    for name in made:
        if made.count(name) > 1:
            node_id = next(node_id for node_id, task in of_nodes.items() if task == name)
            raise CompileError(
                f"step {node_id!r} becomes {name!r}, which is the name of a step that the compiler adds. "
                "Give it another id with `.with_id()`."
            )


def check_pipeline_name(name: str) -> None:
    """Raises CompileError unless the API server takes `name`."""
    if not PIPELINE_NAME.fullmatch(name) or len(name) > 128:
        raise CompileError(
            f"pipeline name {name!r}: Kubeflow takes at most 128 lower-case letters, digits and dashes that start and "
            "end with a letter or digit"
        )
