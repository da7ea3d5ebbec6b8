"""One worker of the communication measurement: training_worker.py SPEC.json INDEX; prints {"step_s": ...}.

All workers start to measure together, whether or not they talk to each other, so that both ways share the machine
alike.
"""

import json
import pathlib
import sys
import time

import numpy as np
from training_models import WORKLOADS, Engine

from modules.training.cluster import read_cluster
from modules.training.config import TrainingConfig
from modules.training.strategy import build_strategy


def meet(folder: pathlib.Path, name: str, index: int, count: int) -> None:
    """Waits until all workers have come here."""
    (folder / f"{name}-{index}").touch()
    deadline = time.monotonic() + 300
    while len(list(folder.glob(f"{name}-*"))) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"not all of {count} workers came to {name}")
        time.sleep(0.01)


def main() -> None:
    spec, index = json.loads(pathlib.Path(sys.argv[1]).read_text()), int(sys.argv[2])
    folder, count = pathlib.Path(spec["folder"]), spec["workers"]
    cluster = read_cluster()
    strategy = build_strategy(TrainingConfig(), cluster)
    results = {}
    for number, case in enumerate(spec["cases"]):
        engine = Engine(
            WORKLOADS[case["workload"]],
            pathlib.Path(spec["data"]),
            strategy,
            cluster,
            steps_per_loop=spec["steps"],
            **case["settings"],
        )
        engine.run(3)
        meet(folder, f"{'together' if cluster.num_workers > 1 else 'apart'}-{number}", index, count)
        records = engine.run(spec["steps"])
        results[case["name"]] = {
            "step_s": float(np.mean(np.concatenate([r.step_s for r in records]))),
            "all_reduce_share": float(sum(r.reduce_s.sum() for r in records) / sum(r.step_s.sum() for r in records)),
        }
    print(json.dumps(results))


if __name__ == "__main__":
    main()
