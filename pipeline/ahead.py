"""Starts the processes of steps to come while the steps before them leave a core idle."""

from components import prestart
from components.pusher import verification
from components.trainer import local_job
from components.trainer.cluster_config import ClusterConfig
from pipeline.config import PipelineConfig


class Ahead:
    """Told of each step's end, it starts what the Trainer and the Pusher will need: a cached step needs nothing."""

    def __init__(self, config: PipelineConfig, names: list[str], to_step: str | None):
        last = names.index(to_step) if to_step else len(names)
        self._coming = {name for name in names[: last + 1] if name in ("Trainer", "Pusher")}
        self._cluster = ClusterConfig(num_workers=config.workload.train.num_workers)

    def on_step(self, name: str, state: str) -> None:
        """Starts processes once a step has really run: what follows it has new inputs and will run too."""
        if state == "running":
            self._coming.discard(name)
        if state != "ran":
            return
        if "Trainer" in self._coming:
            self._coming.discard("Trainer")
            local_job.prestart_workers(self._cluster)
        elif name == "Trainer" and "Pusher" in self._coming:
            self._coming.discard("Pusher")
            verification.prestart_verifier()

    def close(self) -> None:
        """Ends what was not needed: a step in between has failed, or the model was not blessed."""
        prestart.close()
