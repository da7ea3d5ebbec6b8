"""PushTarget: where a model goes, who serves it there, and how careful to be on the way."""

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

from components.pusher import settings
from components.pusher.kubernetes_config import KubernetesConfig

KINDS = ("folder", "model_config", "kserve", "deployment")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PushTarget:
    """A place to serve a model from.

    Raises PushConfigError (exit code 2) when a field has a value that cannot work.
    """

    base: str
    """Folder that holds one folder per model; the model is published as `<base>/<name>/<version>`."""

    name: str = "model"
    """The model's name: its folder under `base` and its name in the model server."""

    kind: str = "folder"
    """"folder": a model server watches the folder. "model_config": a model server is told by a config file and
    ReloadConfig, with version labels. "deployment": the same in a Kubernetes Deployment of ours. "kserve": an
    InferenceService."""

    servers: tuple[str, ...] = ()
    """Every replica to wait for and probe: "host:port" for gRPC, "http://host:port" for REST. A host name that
    resolves to several addresses (a headless Service) stands for all of them. Empty: nobody is asked, and the push
    ends when the folder is published."""

    keep_versions: int = 2
    """Versions that stay in the folder, the live one included; rollback needs at least 2."""

    require_golden: bool = False
    """Refuse a model that carries no golden predictions to compare with."""

    warmup_batch_sizes: tuple[int, ...] = (1, 32)
    """Batch sizes of the warm-up requests written into the model; empty writes none."""

    verify_timeout_s: float = 900.0
    """Seconds the verifying process may take to load the model and predict."""

    available_timeout_s: float = 300.0
    """Seconds every replica has to report the version AVAILABLE."""

    probe_timeout_s: float = 30.0
    """Seconds for one probing request."""

    canary_probes: int = 3
    """Probing rounds through the canary label before stable moves (model_config, deployment, kserve)."""

    hold_canary: bool = False
    """Stop at the canary (model_config, deployment, kserve): an A/B test runs until `sluice push --promote` makes the
    canary stable, or `--rollback` ends it."""

    lock_timeout_s: float = 600.0
    """Seconds to wait for another push to the same folder to end."""

    model_config_file: str = ""
    """model_config, deployment: the ModelServerConfig text file that the servers read at start."""

    server_base: str = ""
    """model_config, deployment: `base` as the servers see it, when it is mounted elsewhere there."""

    kubernetes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """kserve, deployment: the fields of KubernetesConfig (namespace, canary_percent, ...)."""

    def __post_init__(self) -> None:
        settings.require(bool(self.base), "base", "must name the folder to publish under")
        settings.require(self.kind in KINDS, "kind", f"must be one of {', '.join(KINDS)}; got {self.kind!r}")
        settings.require(
            bool(_NAME.fullmatch(self.name)) and not self.name.isdigit(),
            "name",
            f"must be letters, digits, '.', '_' or '-', and not a number alone; got {self.name!r}",
        )
        settings.require(self.keep_versions >= 1, "keep_versions", f"must be at least 1; got {self.keep_versions}")
        settings.require(
            all(size >= 1 for size in self.warmup_batch_sizes) and len(self.warmup_batch_sizes) <= 100,
            "warmup_batch_sizes",
            f"must be at most 100 positive numbers; got {self.warmup_batch_sizes}",
        )
        for field in ("verify_timeout_s", "available_timeout_s", "probe_timeout_s"):
            settings.require(getattr(self, field) > 0, field, f"must be positive; got {getattr(self, field)}")
        settings.require(self.canary_probes >= 1, "canary_probes", f"must be at least 1; got {self.canary_probes}")
        settings.require(
            "://" not in self.base,
            "base",
            f"must be a folder, where one rename publishes; got {self.base}. An object store is named in "
            "kubernetes.storage_uri (kind kserve)",
        )
        settings.require(
            self.kind not in ("model_config", "deployment") or bool(self.servers and self.model_config_file),
            "kind",
            f"{self.kind!r} needs `servers` and `model_config_file`",
        )
        by_labels = self.kind in ("model_config", "deployment")
        settings.require(
            not by_labels or not any("://" in server for server in self.servers),
            "servers",
            f"{self.kind!r} reloads the model config, which is gRPC only: give host:port; got {list(self.servers)}",
        )
        settings.require(
            not self.hold_canary or by_labels or self.kind == "kserve",
            "hold_canary",
            f"kind {self.kind!r} has no canary to hold",
        )
        cluster = self.cluster()
        settings.require(
            self.kind != "kserve" or bool(cluster.storage_uri), "kubernetes.storage_uri", "kind 'kserve' needs it"
        )
        settings.require(
            self.kind != "deployment" or bool(cluster.claim), "kubernetes.claim", "kind 'deployment' needs it"
        )

    def cluster(self) -> KubernetesConfig:
        """The typed form of `kubernetes`."""
        return KubernetesConfig.from_dict(self.kubernetes)

    def to_json(self) -> str:
        """The target as one JSON object, keys sorted, so that equal targets are equal strings."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "PushTarget":
        return cls.from_dict(json.loads(text), where="push target")

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any], where: str = "push") -> "PushTarget":
        """Builds a target from parsed YAML or JSON; `where` names the place in messages."""
        return settings.build(cls, mapping, where)
