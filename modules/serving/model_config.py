"""Which models are served from where: the command line's folder, or TensorFlow Serving's model config."""

import dataclasses
import os
from collections.abc import Iterable, Mapping

from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from modules.serving.status import Code, ServingError, ServingUsageError, invalid


@dataclasses.dataclass(frozen=True)
class VersionPolicy:
    """Which versions of a base folder are served: the `latest` n, `all` of them, or `specific` ones.

    Attributes:
      kind: "latest", "all" or "specific".
      count: how many, for "latest".
      versions: which, for "specific".
    """

    kind: str = "latest"
    count: int = 1
    versions: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, text: str) -> "VersionPolicy":
        """`latest`, `latest:2`, `all`, or version numbers such as `3,5`."""
        head, _, tail = text.partition(":")
        if head == "all" and not tail:
            return cls("all")
        if head == "latest" and (not tail or (tail.isdecimal() and int(tail) > 0)):
            return cls("latest", count=int(tail or 1))
        numbers = text.split(",")
        if all(number.strip().isdecimal() for number in numbers):
            return cls("specific", versions=frozenset(map(int, numbers)))
        raise ServingUsageError(f"version policy {text!r}: expected latest, latest:N, all, or numbers such as 3,5")

    def choose(self, found: Iterable[int]) -> set[int]:
        """The versions to serve of those `found` on disk."""
        if self.kind == "all":
            return set(found)
        if self.kind == "specific":
            return set(found) & self.versions
        return set(sorted(found)[-self.count :])


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """One model: its name in requests, its base folder, the versions to serve, and names for some of them."""

    name: str
    base_path: str
    policy: VersionPolicy = VersionPolicy()
    labels: Mapping[str, int] = dataclasses.field(default_factory=dict)


def models_under(base: str, name: str = "", policy: VersionPolicy | None = None) -> list[ModelConfig]:
    """The models of a folder: itself when it holds numbered versions, else each subfolder that does; maybe none yet.

    With `name` the folder itself is that model, also before it holds a version.

    Raises:
      ServingUsageError: when there is no such folder.
    """
    if not os.path.isdir(base):
        raise ServingUsageError(f"no folder at {base}: expected a model's base folder, or one that holds several")
    base = os.path.abspath(base)
    policy = policy or VersionPolicy()
    if name or _holds_versions(base):
        return [ModelConfig(name or os.path.basename(base), base, policy)]
    folders = [os.path.join(base, entry) for entry in sorted(os.listdir(base)) if not entry.startswith(".")]
    return [ModelConfig(os.path.basename(path), path, policy) for path in folders if _holds_versions(path)]


def _holds_versions(path: str) -> bool:
    return os.path.isdir(path) and any(version_number(name) is not None for name in os.listdir(path))


def version_number(folder_name: str) -> int | None:
    """The version that a folder name stands for, or None. Digits only, as 64-bit TensorFlow Serving reads them."""
    if not (folder_name.isascii() and folder_name.isdecimal()):
        return None
    number = int(folder_name)
    return number if number < 2**63 else None


def read_model_config(path: str) -> list[ModelConfig]:
    """The models in a text-format ModelServerConfig file, the one that --model_config_file names."""
    config = model_server_config_pb2.ModelServerConfig()
    try:
        with open(path, encoding="utf-8") as stream:
            text_format.Parse(stream.read(), config)
        models = from_proto(config)
    except (OSError, UnicodeDecodeError) as error:
        raise ServingUsageError(f"cannot read the model config {path}: {error}") from None
    except (text_format.ParseError, ServingError) as error:
        raise ServingUsageError(f"{path}: {error}") from None
    return models


def from_proto(config: model_server_config_pb2.ModelServerConfig) -> list[ModelConfig]:
    """The models of a ModelServerConfig message.

    Raises:
      ServingError: INVALID_ARGUMENT, naming the model and the field.
    """
    if config.WhichOneof("config") != "model_config_list":
        raise invalid("ServerModelConfig type not supported. Only ModelConfigList is currently supported")
    models = []
    for entry in config.model_config_list.config:
        if not entry.name or "/" in entry.name or ":" in entry.name:
            raise invalid(f"model name {entry.name!r}: expected a name without '/' and ':'")
        if entry.model_platform != "tensorflow":
            raise invalid(f"model {entry.name}: model_platform is {entry.model_platform!r}, expected 'tensorflow'")
        if not os.path.isabs(entry.base_path):
            problem = f"Expected model {entry.name} to have an absolute path"
            raise invalid(f"{problem}; got base_path()={entry.base_path}")
        policy = _policy_from_proto(entry.name, entry.model_version_policy)
        models.append(ModelConfig(entry.name, os.path.normpath(entry.base_path), policy, dict(entry.version_labels)))
    names = [model.name for model in models]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise invalid(f"Illegal to list model {min(repeated)} multiple times in config list")
    return models


def _policy_from_proto(name: str, policy: object) -> VersionPolicy:
    kind = policy.WhichOneof("policy_choice")  # type: ignore[attr-defined]
    if kind == "all":
        return VersionPolicy("all")
    if kind == "specific":
        versions = frozenset(policy.specific.versions)  # type: ignore[attr-defined]
        if not versions:
            raise invalid(f"model {name}: the specific version policy names no versions")
        return VersionPolicy("specific", versions=versions)
    if kind == "latest":
        return VersionPolicy("latest", count=max(1, policy.latest.num_versions))  # type: ignore[attr-defined]
    return VersionPolicy()


def require_inside(path: str, roots: Iterable[str]) -> None:
    """Refuse a folder that does not lie in one of `roots` once symbolic links are followed.

    Raises:
      ServingError: FAILED_PRECONDITION naming the path; the roots stay out of an answer that a client reads.
    """
    real = os.path.realpath(path)
    for root in roots:
        top = os.path.realpath(root)
        if os.path.commonpath([real, top]) == top:
            return
    raise ServingError(
        Code.FAILED_PRECONDITION, f"{path} lies outside the folders that this server was started for: not served"
    )
