"""One worker of the communication measurement: training_worker.py SPEC.json, with TF_CONFIG; prints {case: numbers}.

Every worker has each model twice: once as a part of the cluster, once for itself. They take turns, and all workers
begin each turn together, so that both ways share the machine alike and a slow minute hits both.
"""

import json
import pathlib
import statistics
import sys
import time
from typing import Any

import numpy as np
import tensorflow as tf
from training_models import WORKLOADS, Engine

from modules.training.cluster import ClusterSpec, read_cluster
from modules.training.config import TrainingConfig
from modules.training.strategy import build_strategy

ALONE = ClusterSpec(tasks={})


def meet(folder: pathlib.Path, name: str, cluster: ClusterSpec) -> None:
    """Waits until all workers have come here."""
    (folder / f"{name}.{cluster.index}").touch()
    deadline = time.monotonic() + 300
    while len(list(folder.glob(f"{name}.*"))) < cluster.num_workers:
        if time.monotonic() > deadline:
            raise TimeoutError(f"not all of {cluster.num_workers} workers came to {name}")
        time.sleep(0.005)


def measure(spec: dict[str, Any], case: dict[str, Any], cluster: ClusterSpec, together: tf.distribute.Strategy) -> dict:
    """Seconds per step by way and round, and what the engine itself takes for the share of its all-reduce."""
    workload, data, folder = WORKLOADS[case["workload"]], pathlib.Path(spec["data"]), pathlib.Path(spec["folder"])
    settings = {"steps_per_loop": case["steps"], **case["settings"]}
    engines = {
        "apart": Engine(workload, data, tf.distribute.OneDeviceStrategy("/cpu:0"), ALONE, **settings),
        "together": Engine(workload, data, together, cluster, **settings),
    }
    for engine in engines.values():
        engine.run(3)
    seconds: dict[str, list[float]] = {way: [] for way in engines}
    reduce_share = []
    for number in range(spec["rounds"]):
        for way in sorted(engines, reverse=bool(number % 2)):
            meet(folder, f"{case['name']}-{number}-{way}", cluster)
            records = engines[way].run(case["steps"])
            steps_s = np.concatenate([r.step_s for r in records])
            seconds[way].append(float(steps_s.mean()))
            if way == "together":
                reduce_share.append(float(sum(r.reduce_s.sum() for r in records) / steps_s.sum()))
    return {**seconds, "reduce_share": statistics.median(reduce_share)}


def main() -> None:
    spec, cluster = json.loads(pathlib.Path(sys.argv[1]).read_text()), read_cluster()
    strategy = build_strategy(TrainingConfig(), cluster)
    print(json.dumps({case["name"]: measure(spec, case, cluster, strategy) for case in spec["cases"]}))


if __name__ == "__main__":
    main()
