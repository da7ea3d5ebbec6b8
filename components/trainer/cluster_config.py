"""How many processes train, where they run, and how often they may be started again."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from components import config_reader
from components.trainer.errors import TrainingConfigError
from components.trainer.kubernetes.config import KubernetesConfig

LOCAL = "local"
BACKENDS = (LOCAL, "trainjob", "jobset", "indexed-job", "tfjob")
_MAX_PORT = 65535
_AT_LEAST_0 = (
    *("num_parameter_servers", "max_restarts", "grace_seconds", "peer_exit_seconds"),
    *("restart_backoff_seconds", "max_restart_backoff_seconds"),
)
_OWN_VARIABLES = ("TF_CONFIG", "JOB_COMPLETION_INDEX")


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
        object.__setattr__(self, "backends", tuple(self.backends))  # a list is as good in Python code
        unknown = [name for name in self.backends if name not in BACKENDS]
        if unknown or not self.backends:
            raise TrainingConfigError(f"backends has {unknown or 'nothing'}; allowed: {', '.join(BACKENDS)}")
        self._require("num_workers", self.num_workers >= 1, "at least 1")
        for name in _AT_LEAST_0:
            self._require(name, getattr(self, name) >= 0, "0 or more")
        last_port = self.first_port + sum(self.task_counts().values()) - 1
        is_port = self.first_port == 0 or (self.first_port >= 1024 and last_port <= _MAX_PORT)
        self._require("first_port", is_port, f"0, or 1024 and above with all workers' ports up to {_MAX_PORT}")
        self._require("deadline_seconds", self.deadline_seconds is None or self.deadline_seconds > 0, "more than 0")
        for name in _OWN_VARIABLES:
            if name in self.env:
                raise TrainingConfigError(f"env has {name}, which the step sets itself for each worker; leave it out")
        if self.kubernetes is None and self.backends != (LOCAL,):
            raise TrainingConfigError(f"backends {', '.join(self.backends)} need kubernetes with an image")
        if self.evaluator and not self.num_parameter_servers:
            raise TrainingConfigError("evaluator needs num_parameter_servers of at least 1")

    def _require(self, field: str, is_valid: bool, expected: str) -> None:
        if not is_valid:
            raise TrainingConfigError(f"{field} is {getattr(self, field)}; expected {expected}")

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
          TrainingConfigError: a key is unknown, or a value is of the wrong kind or not allowed; names it.
        """
        return config_reader.read(cls, values, where, TrainingConfigError)
