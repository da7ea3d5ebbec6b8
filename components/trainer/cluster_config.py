"""How many processes train, where they run, and how often they may be started again."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from components.trainer.errors import TrainingConfigError
from components.trainer.kubernetes.config import KubernetesConfig

LOCAL = "local"
BACKENDS = (LOCAL, "trainjob", "jobset", "indexed-job", "tfjob")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterConfig:
    """The cluster that one training step starts.

    One worker means one plain process without TF_CONFIG. Several workers train as tasks `worker 0..N-1`, of which
    worker 0 is the chief. With parameter servers there is a `chief` as well, and `worker` counts the others.
    """

    backends: tuple[str, ...] = (LOCAL,)  # tried in this order until one is available
    num_workers: int = 1
    num_parameter_servers: int = 0
    evaluator: bool = False  # one more task that evaluates checkpoints; only with parameter servers
    max_restarts: int = 3  # of the whole gang, after a lost worker, a crash or a preemption
    restart_backoff_seconds: float = 1.0  # doubled after each restart
    max_restart_backoff_seconds: float = 60.0
    grace_seconds: float = 30.0  # between SIGTERM and SIGKILL, for a last checkpoint
    peer_exit_seconds: float = 15.0  # how long the others may take to notice a lost worker before they are killed
    # (and four times as long to end after the chief)
    deadline_seconds: float | None = None  # for the whole job, restarts included
    first_port: int = 0  # worker i listens on first_port + i; 0 takes free ports
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    kubernetes: KubernetesConfig | None = None  # needed by every backend but local

    def __post_init__(self) -> None:
        # Lists come from JSON and YAML; a tuple keeps the frozen class hashable in spirit and in fact.
        object.__setattr__(self, "backends", tuple(self.backends))
        unknown = [name for name in self.backends if name not in BACKENDS]
        if unknown or not self.backends:
            raise TrainingConfigError(f"cluster: backends has {unknown or 'nothing'}; allowed: {', '.join(BACKENDS)}")
        self._require("num_workers", self.num_workers >= 1, "at least 1")
        self._require("num_parameter_servers", self.num_parameter_servers >= 0, "0 or more")
        self._require("max_restarts", self.max_restarts >= 0, "0 or more")
        self._require("restart_backoff_seconds", self.restart_backoff_seconds >= 0, "0 or more")
        self._require("grace_seconds", self.grace_seconds >= 0, "0 or more")
        self._require("first_port", self.first_port == 0 or 1024 <= self.first_port <= 65000, "0, or 1024 to 65000")
        self._require("deadline_seconds", self.deadline_seconds is None or self.deadline_seconds > 0, "more than 0")
        if isinstance(self.kubernetes, Mapping):
            object.__setattr__(self, "kubernetes", KubernetesConfig.from_dict(self.kubernetes, "cluster: kubernetes"))
        if self.kubernetes is None and self.backends != (LOCAL,):
            raise TrainingConfigError(f"cluster: backends {', '.join(self.backends)} need kubernetes with an image")
        if self.evaluator and not self.num_parameter_servers:
            raise TrainingConfigError("cluster: evaluator needs num_parameter_servers of at least 1")

    def _require(self, field: str, is_valid: bool, expected: str) -> None:
        if not is_valid:
            raise TrainingConfigError(f"cluster: {field} is {getattr(self, field)}; expected {expected}")

    @property
    def is_distributed(self) -> bool:
        """Whether the processes need TF_CONFIG to find each other."""
        return self.num_workers > 1 or self.num_parameter_servers > 0

    def task_counts(self) -> dict[str, int]:
        """Task type to number of tasks, as TF_CONFIG's cluster has them, plus the evaluator."""
        if not self.num_parameter_servers:
            return {"worker": self.num_workers}
        counts = {"chief": 1, "worker": self.num_workers, "ps": self.num_parameter_servers}
        return counts | ({"evaluator": 1} if self.evaluator else {})

    def to_json(self) -> str:
        """One JSON object with sorted keys, so that equal configurations hit the cache."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "ClusterConfig":
        """Reads what `to_json` wrote."""
        return cls.from_dict(json.loads(text or "{}"), where="cluster")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str) -> "ClusterConfig":
        """Builds the configuration from a mapping; `where` (file and section) goes into the messages.

        Raises:
          TrainingConfigError: a key is unknown or a value is not allowed.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise TrainingConfigError(f"{where}: unknown {', '.join(unknown)}; allowed: {', '.join(sorted(known))}")
        try:
            return cls(**values)
        except TypeError as error:
            raise TrainingConfigError(f"{where}: {error}") from error
