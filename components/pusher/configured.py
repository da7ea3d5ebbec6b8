"""Model servers that are told what to serve: a ModelServerConfig file and ReloadConfig, with version labels.

What TensorFlow Serving makes of a reload shapes the order here. It replaces the whole list of models, so the other
models' entries are kept. It checks labels before it loads anything, so a version and its label never come in one
reload. It does not wait for versions, so we do.
"""

import contextlib
import fcntl
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from components.pusher.base_folder import BaseFolder
from components.pusher.config import PushTarget
from components.pusher.content import fsync_path
from components.pusher.errors import PushError, explained
from components.pusher.golden import read_golden
from components.pusher.journal import State
from components.pusher.servers import Servers

STABLE, CANARY = "stable", "canary"


class ModelConfigFile:
    """The servers' model config file; read at their start, and sent to them at every change."""

    def __init__(self, path: str, name: str, base_path: str) -> None:
        self._path = pathlib.Path(path)
        self._name = name
        self._base_path = base_path

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Deployers of other models change the same file."""
        with explained(self._path, "lock the model config"), open(f"{self._path}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def read(self) -> model_server_config_pb2.ModelServerConfig:
        """The whole config; an empty list where there is no file yet. Raises PushError for one that does not parse."""
        config = model_server_config_pb2.ModelServerConfig()
        if self._path.exists():
            try:
                text_format.Parse(self._path.read_text(encoding="utf-8"), config)
            except text_format.ParseError as error:
                raise PushError(f"{self._path}: not a ModelServerConfig in text form: {error}") from None
        config.model_config_list.SetInParent()
        return config

    def entry(self) -> model_server_config_pb2.ModelConfig | None:
        """Our model's entry, if there is one."""
        return next((entry for entry in self.read().model_config_list.config if entry.name == self._name), None)

    def write(self, entry: model_server_config_pb2.ModelConfig | None) -> model_server_config_pb2.ModelServerConfig:
        """Replaces our model's entry, or removes it; every other entry stays as it is. Returns the whole config."""
        config = self.read()
        others = [other for other in config.model_config_list.config if other.name != self._name]
        del config.model_config_list.config[:]
        config.model_config_list.config.extend(others + ([entry] if entry is not None else []))
        partial = self._path.with_name(f".{self._path.name}.partial")
        with explained(self._path, "write the model config"):
            partial.write_text(text_format.MessageToString(config), encoding="utf-8")
            fsync_path(partial)
            os.replace(partial, self._path)
        return config

    def ensure_exists(self) -> None:
        """A server does not start without its file."""
        with self.locked():
            if not self._path.exists():
                self.write(None)

    def new_entry(self, versions: set[int], labels: Mapping[str, int]) -> model_server_config_pb2.ModelConfig:
        """An entry that serves exactly `versions`, with `labels`."""
        entry = self.entry() or model_server_config_pb2.ModelConfig(
            name=self._name, base_path=self._base_path, model_platform="tensorflow"
        )
        entry.model_version_policy.specific.versions[:] = sorted(versions)
        entry.version_labels.clear()
        entry.version_labels.update(labels)
        return entry


class ConfiguredServers:
    """TensorFlow Serving with --model_config_file."""

    def __init__(self, target: PushTarget, folder: BaseFolder, servers: Servers) -> None:
        self._target = target
        self._folder = folder
        self._servers = servers
        base_path = os.path.join(target.server_base, target.name) if target.server_base else str(folder.path)
        self._file = ModelConfigFile(target.model_config_file, target.name, base_path)

    def snapshot(self) -> dict[str, Any]:
        entry = self._file.entry()
        return {"live": self.live_version(), "entry": text_format.MessageToString(entry) if entry else None}

    def highest_version(self) -> int:
        return self._servers.highest_version()

    def live_version(self) -> int | None:
        """The stable label's version; before there are labels, the highest that is served."""
        entry = self._file.entry()
        if entry is None:
            return None
        served = self._versions()
        return entry.version_labels.get(STABLE) or max(served or self._folder.versions(), default=None)

    def steps(self) -> dict[State, Callable[[int], None]]:
        return {
            State.AVAILABLE: self._make_available,
            State.PROBED: lambda version: self._servers.probe(self._golden(version), version=version),
            State.CANARY: self._canary,
            State.PROMOTED: self._promote,
        }

    def release(self, version: int) -> set[int]:
        """Unloads what `version` replaced: two models in memory are for the time of the change only."""
        labels = {label: labelled for label, labelled in self._labels().items() if labelled == version}
        self._apply(self._versions(), labels)
        self._apply({version}, labels)
        return {version}

    def restore(self, snapshot: dict[str, Any], failed: int) -> None:
        """Stable answers from the version before, before anything is taken away from the failed one."""
        live = snapshot.get("live")
        if live is None or live not in self._folder.versions():
            self._send(None)
            return
        labels = {label: version for label, version in self._labels().items() if version not in (failed, live)}
        # Until `live` is loaded again, labels stay on the failed version if it answers at all.
        kept = self._labels() if self._servers.has_available(failed) else labels
        self._apply(self._versions() | {live}, kept)
        self._servers.wait_available(live)
        labels |= {STABLE: live, CANARY: live}
        self._apply(self._versions(), labels)
        self._servers.probe(self._golden(live), label=STABLE)
        self._apply(self._versions() - {failed}, labels)

    def after_withdrawal(self, snapshot: dict[str, Any]) -> None:
        """Only now may an entry come back whose policy would pick up the failed version from the folder."""
        live = snapshot.get("live")
        if live is None or live not in self._folder.versions():
            return
        if before := snapshot.get("entry"):
            self._send(text_format.Parse(before, model_server_config_pb2.ModelConfig()))
        self._servers.wait_available(live)
        self._servers.probe(self._golden(live), version=live)

    def _make_available(self, version: int) -> None:
        live = self.live_version()
        served = self._versions() | {version} | ({live} if live is not None else set())
        self._apply(served & set(self._folder.versions()), self._labels())
        self._servers.wait_available(version)

    def _canary(self, version: int) -> None:
        live = self._labels().get(STABLE) or next(
            (old for old in sorted(self._versions(), reverse=True) if old < version), None
        )
        labels = self._labels() | {CANARY: version} | ({STABLE: live} if live is not None else {})
        self._apply(self._versions(), labels)
        self._servers.probe(self._golden(version), label=CANARY, rounds=self._target.canary_probes)

    def _promote(self, version: int) -> None:
        self._apply(self._versions(), self._labels() | {STABLE: version, CANARY: version})
        self._servers.probe(self._golden(version), label=STABLE)

    def _versions(self) -> set[int]:
        entry = self._file.entry()
        return set(entry.model_version_policy.specific.versions) if entry else set()

    def _labels(self) -> dict[str, int]:
        entry = self._file.entry()
        return dict(entry.version_labels) if entry else {}

    def _golden(self, version: int) -> Any:
        return read_golden(self._folder.model_path(version))

    def _apply(self, versions: set[int], labels: Mapping[str, int]) -> None:
        served = {label: version for label, version in labels.items() if version in versions}
        self._send(self._file.new_entry(versions, served))

    def _send(self, entry: model_server_config_pb2.ModelConfig | None) -> None:
        """The file first, so that a server that restarts right now starts with what the others are told."""
        with self._file.locked():
            config = self._file.write(entry)
            self._servers.reload(config)
