"""TF_CONFIG: what one task of a TensorFlow cluster must know about the others.

Standard library only: containers call this before anything heavy is imported.
"""

import json
import os
import sys
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


def from_kubernetes(environ: Mapping[str, str]) -> str | None:
    """TF_CONFIG of a pod of an Indexed Job or a JobSet: its index and its peers' DNS names are all it takes.

    Args:
      environ: has SLUICE_NUM_WORKERS, SLUICE_WORKER_HOSTS (a host name with `{index}`), SLUICE_WORKER_PORT, and
        JOB_COMPLETION_INDEX, which Kubernetes sets.

    Returns:
      None for a single worker, and where somebody else (the TFJob operator) sets TF_CONFIG.
    """
    num_workers = int(environ.get("SLUICE_NUM_WORKERS", "1"))
    hosts = environ.get("SLUICE_WORKER_HOSTS", "")
    if num_workers == 1 or not hosts:
        return None
    if "JOB_COMPLETION_INDEX" not in environ:
        raise ValueError("JOB_COMPLETION_INDEX is not set: the pod is not one of an Indexed Job or JobSet")
    addresses = [f"{hosts.format(index=i)}:{environ['SLUICE_WORKER_PORT']}" for i in range(num_workers)]
    return tf_config({"worker": addresses}, "worker", int(environ["JOB_COMPLETION_INDEX"]))


def main(arguments: Sequence[str]) -> None:
    """Entry point of a training pod: sets TF_CONFIG, then becomes the worker, so that signals reach it."""
    config = from_kubernetes(os.environ)
    if config is not None:
        os.environ["TF_CONFIG"] = config
    os.execv(sys.executable, [sys.executable, "-m", "components.trainer.worker", *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
