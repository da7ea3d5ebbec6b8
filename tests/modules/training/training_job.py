"""A training job that tests start, disturb, and start again."""

import json
from pathlib import Path

import numpy as np


class Job:
    """One training job: its settings file, its folders, and a way to start its workers."""

    STEPS = 60

    def __init__(self, gang, trips, root: Path):
        self.gang, self.trips, self.root = gang, trips, root
        self.run_dir, self.model_dir = root / "run", root / "model" / "Format-Serving"

    def start(self, num_workers=2, trouble=None, ports=None, tasks=None, late=False, only=None, **config):
        settings = {
            "batch_size": 32 // num_workers,
            "sharding": "data",
            "learning_rate": 0.01,
            "steps_per_loop": 5,
            "log_every": 10,
            **config,
        }
        settings.setdefault("checkpoint_every_steps", 20)
        fn_args = {
            "train_files": self.trips.train,
            "eval_files": self.trips.evaluation,
            "train_steps": self.STEPS,
            "transform_graph_path": self.trips.graph,
            "serving_model_dir": str(self.model_dir),
            "model_run_dir": str(self.run_dir),
            "custom_config": {"training": settings},
        }
        path = self.root / "settings.json"
        values = {"fn_args": fn_args, "result": str(self.root / "result.json")}
        if trouble:
            values["trouble"] = {"marker": str(self.root / "marker"), **trouble}
        path.write_text(json.dumps(values))
        return self.gang("trip", [str(path)], num_workers, ports=ports, tasks=tasks, late=late, order=only)

    @property
    def marked(self) -> bool:
        return (self.root / "marker").exists()

    def checkpoints(self):
        folder = self.run_dir / "checkpoints"
        return sorted(p.parent.name for p in folder.glob("*/state.json")) if folder.exists() else []

    def result(self):
        return json.loads((self.root / "result.json").read_text())

    def assert_same_weights(self, other):
        """Compares with another job's result."""
        for one, expected in zip(self.result()["weights"], other["weights"], strict=True):
            np.testing.assert_allclose(one, expected, atol=2e-5)
