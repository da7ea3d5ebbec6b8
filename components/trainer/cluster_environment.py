"""TF_CONFIG: what one task of a TensorFlow cluster must know about the others.

Standard library only: containers call this before anything heavy is imported.
"""

import json
from collections.abc import Mapping, Sequence


def tf_config(addresses: Mapping[str, Sequence[str]], task_type: str, task_index: int) -> str:
    """The TF_CONFIG of one task.

    Args:
      addresses: task type ("worker", "chief", "ps") to its `host:port` list, in task order. An evaluator is not in it.
      task_type: the type of this task.
      task_index: its index within the type.
    """
    cluster = {kind: list(hosts) for kind, hosts in addresses.items() if kind != "evaluator"}
    return json.dumps({"cluster": cluster, "task": {"type": task_type, "index": task_index}})


def is_chief(task_type: str, task_index: int, task_types: Sequence[str]) -> bool:
    """Whether this task exports the model: the `chief`, or worker 0 in a cluster that has no chief."""
    if "chief" in task_types:
        return task_type == "chief"
    return task_type == "worker" and task_index == 0
