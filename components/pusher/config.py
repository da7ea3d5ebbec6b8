"""PushTarget: where a model goes, who serves it there, and how careful to be on the way."""

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

from components.pusher.errors import PushConfigError

KINDS = ("folder", "model_config", "kserve", "deployment")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PushTarget:
    """A place to serve a model from.

    Raises PushConfigError (exit code 2) when a field has a value that cannot work.
    """

    base: str
    """Folder that holds one folder per model; the model is published as `<base>/<name>/<version>`.
    An object store URL (s3://, gs://, memory://) is accepted for kind "kserve" only."""

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

    lock_timeout_s: float = 600.0
    """Seconds to wait for another push to the same folder to end."""

    model_config_file: str = ""
    """model_config, deployment: the ModelServerConfig text file that the servers read at start."""

    server_base: str = ""
    """model_config, deployment: `base` as the servers see it, when it is mounted elsewhere there."""

    kubernetes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """kserve, deployment: the fields of KubernetesConfig (namespace, canary_percent, ...)."""

    def __post_init__(self) -> None:
        _require(bool(self.base), "base", "must name the folder to publish under")
        _require(self.kind in KINDS, "kind", f"must be one of {', '.join(KINDS)}; got {self.kind!r}")
        _require(
            bool(_NAME.fullmatch(self.name)) and not self.name.isdigit(),
            "name",
            f"must be letters, digits, '.', '_' or '-', and not a number alone; got {self.name!r}",
        )
        _require(self.keep_versions >= 1, "keep_versions", f"must be at least 1; got {self.keep_versions}")
        _require(
            all(size >= 1 for size in self.warmup_batch_sizes) and len(self.warmup_batch_sizes) <= 100,
            "warmup_batch_sizes",
            f"must be at most 100 positive numbers; got {self.warmup_batch_sizes}",
        )
        for field in ("verify_timeout_s", "available_timeout_s", "probe_timeout_s"):
            _require(getattr(self, field) > 0, field, f"must be positive; got {getattr(self, field)}")
        _require(self.canary_probes >= 1, "canary_probes", f"must be at least 1; got {self.canary_probes}")
        _require(
            self.kind == "kserve" or "://" not in self.base,
            "base",
            f"an object store ({self.base}) cannot be published to by a rename: use kind 'kserve', or a folder",
        )
        _require(
            self.kind != "model_config" or bool(self.servers and self.model_config_file),
            "kind",
            "'model_config' needs `servers` and `model_config_file`",
        )

    def to_json(self) -> str:
        """The target as one JSON object, keys sorted, so that equal targets are equal strings."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "PushTarget":
        return cls.from_dict(json.loads(text), where="push target")

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any], where: str = "push") -> "PushTarget":
        """Builds a target from parsed YAML or JSON; `where` names the place in messages."""
        fields = {field.name: field for field in dataclasses.fields(cls)}
        for key in mapping:
            if key not in fields:
                raise PushConfigError(f"{where}: unknown key {key!r}; allowed: {', '.join(sorted(fields))}")
        values = {key: _convert(fields[key], value, f"{where}.{key}") for key, value in mapping.items()}
        if "base" not in values:
            raise PushConfigError(f"{where}: `base` is missing: the folder to publish under, e.g. build/serving")
        try:
            return cls(**values)
        except PushConfigError as error:
            raise PushConfigError(f"{where}.{error}") from None


def _convert(field: dataclasses.Field, value: Any, where: str) -> Any:
    """Checks a parsed value against the field's type; lists become tuples, ints pass for floats."""
    kind = field.type if isinstance(field.type, type) else str(field.type)
    if "tuple" in str(kind):
        element = int if "int" in str(kind) else str
        if not isinstance(value, (list, tuple)) or not all(type(item) is element for item in value):
            raise PushConfigError(f"{where}: expected a list of {element.__name__}, got {value!r}")
        return tuple(value)
    if kind is float and type(value) in (int, float):
        return float(value)
    if "Mapping" in str(kind):
        expected: type = dict
    else:
        expected = kind if isinstance(kind, type) else str
    if type(value) is not expected:
        raise PushConfigError(f"{where}: expected {expected.__name__}, got {value!r}")
    return value


def _require(condition: bool, field: str, message: str) -> None:
    if not condition:
        raise PushConfigError(f"{field}: {message}")
