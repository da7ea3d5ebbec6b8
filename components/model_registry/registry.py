"""ModelRegistry: `<root>/<name>/versions/<n>/` holds models, `<root>/<name>/aliases/<n>/` the history of the aliases.

    versions/7/entry.json                   lineage, metrics, digest
    versions/7/model/Format-Serving/...     the SavedModel, laid out as a TFX Model artifact
    versions/7/statistics/Split-train/...   statistics of its data, where the registrar was given them
    aliases/00000012/aliases.json           {"aliases": {"stable": 7, "previous": 6}, "why": "promote 7", ...}

Nothing is ever changed in place. The aliases are those of the highest number; whoever publishes the next number first
has changed them, and who comes second looks again. So readers always see one whole state, on any store, without locks.
"""

import datetime
import json
import pathlib
import posixpath
import re
import shutil
from collections.abc import Callable, Mapping

from components.model_registry.entry import MODEL_FOLDER, Lineage, ModelEntry
from components.model_registry.store import Content, Store, TakenError
from components.pusher.content import manifest_of

SERVING_FOLDER = "Format-Serving"  # what tfx.utils.path_utils.serving_model_path looks for
_ENTRY = "entry.json"
_STATISTICS = "statistics"
_ALIASES = "aliases.json"
_ALIAS_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_MAX_ATTEMPTS = 100
_ALIAS_HISTORY = 100
_ABANDONED_S = 24 * 3600.0


class RegistryError(ValueError):
    """The registry does not hold what was asked for, or the request makes no sense."""

    exit_code = 2


class ModelRegistry:
    """The models of one name under a root folder or URL (any fsspec file system)."""

    def __init__(self, root: str, name: str) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            raise RegistryError(f"model name {name!r}: letters, digits, '.', '_' and '-' only")
        self.root, self.name = root, name
        self._store = Store(root)

    def register(
        self,
        model: str | pathlib.Path,
        *,
        lineage: Lineage | None = None,
        metrics: Mapping[str, float] | None = None,
        statistics: str | pathlib.Path | None = None,
    ) -> ModelEntry:
        """Copies a SavedModel folder into the registry, and the folder of its data's statistics if given.

        Registering the same content again returns the entry that is there.
        """
        source = pathlib.Path(model)
        manifest = manifest_of(source)
        lineage = lineage or Lineage(source=str(source))
        for _ in range(_MAX_ATTEMPTS):
            entries = self.entries()
            if same := [entry for entry in entries if entry.digest == manifest.digest]:
                return same[-1]
            version = max([entry.version for entry in entries] + self._numbers("versions"), default=0) + 1
            entry = ModelEntry(
                name=self.name,
                version=version,
                created=_now(),
                digest=manifest.digest,
                size=manifest.size,
                uri=self._model_uri(version),
                lineage=lineage,
                metrics=dict(metrics or {}),
            )
            contents: dict[str, Content] = {
                posixpath.join(MODEL_FOLDER, SERVING_FOLDER): source,
                _ENTRY: entry.to_json().encode(),
            }
            if statistics is not None:
                contents[_STATISTICS] = pathlib.Path(statistics)
            try:
                self._store.publish(self._path("versions", str(version)), contents, _ENTRY)
            except TakenError:
                continue  # another run registered that number first
            return entry
        raise RegistryError(f"{self._store.uri(self.name)}: no version number could be taken; is something looping?")

    def entries(self) -> list[ModelEntry]:
        """Every registered model, oldest first."""
        found = ((number, self._read_entry(number)) for number in self._numbers("versions"))
        return [entry for _, entry in found if entry is not None]

    def aliases(self) -> dict[str, int]:
        """Alias to version, as of now."""
        return self._alias_state()[1]

    def alias_history(self) -> list[dict]:
        """Every alias change still kept, oldest first: {"aliases", "why", "at"}."""
        states = (self._read_aliases(number) for number in self._numbers("aliases"))
        return [state for state in states if state is not None]

    def resolve(self, reference: str | int = "stable") -> ModelEntry:
        """The model that an alias, a version number or "latest" stands for. Raises RegistryError."""
        text = str(reference)
        if text == "latest":
            if not (entries := self.entries()):
                raise RegistryError(f"{self._store.uri(self.name)}: no model is registered")
            return entries[-1]
        aliases = self.aliases()
        version = int(text) if text.isdigit() else aliases.get(text)
        entry = self._read_entry(version) if version is not None else None
        if entry is None:
            known = ", ".join(f"{alias}={number}" for alias, number in sorted(aliases.items())) or "none"
            versions = ", ".join(map(str, self._numbers("versions"))) or "none"
            raise RegistryError(
                f"{self._store.uri(self.name)}: no model {text!r}; aliases: {known}; versions: {versions}"
            )
        return entry

    def promote(self, reference: str | int, alias: str = "stable") -> ModelEntry:
        """Points `alias` at a model. For `stable` the old one becomes `previous`, and `canary` ends if it was this."""
        if not _ALIAS_NAME.fullmatch(alias) or alias == "latest":
            raise RegistryError(f"alias {alias!r}: a letter, then letters, digits, '_' or '-'; and not 'latest'")
        entry = self.resolve(reference)

        def change(aliases: dict[str, int]) -> dict[str, int]:
            changed = {**aliases, alias: entry.version}
            if alias == "stable" and (old := aliases.get("stable")) is not None and old != entry.version:
                changed["previous"] = old
            if alias == "stable" and aliases.get("canary") == entry.version:
                del changed["canary"]
            return changed

        self._change_aliases(change, f"promote {entry.version} to {alias}")
        return entry

    def rollback(self) -> ModelEntry:
        """Makes `previous` the stable model; the stable one becomes `previous`, so that twice is back again."""

        def change(aliases: dict[str, int]) -> dict[str, int]:
            if "previous" not in aliases:
                raise RegistryError(f"{self._store.uri(self.name)}: nothing to roll back to; no alias `previous`")
            self.resolve(aliases["previous"])
            swapped = {**aliases, "stable": aliases["previous"], "previous": aliases.get("stable")}
            return {alias: version for alias, version in swapped.items() if version is not None}

        return self.resolve(self._change_aliases(change, "rollback")["stable"])

    def gc(self, keep: int = 5) -> list[int]:
        """Deletes all but the `keep` newest models and those with an alias; returns the deleted versions."""
        if keep < 1:
            raise RegistryError(f"keep must be at least 1; got {keep}")
        entries = self.entries()
        needed = {entry.version for entry in entries[-keep:]} | set(self.aliases().values())
        deleted = [entry.version for entry in entries if entry.version not in needed]
        for version in deleted:
            self._store.delete(self._path("versions", str(version)), _ENTRY)
        self._store.sweep(self._path("versions"), _ABANDONED_S)
        for number in self._numbers("aliases")[:-_ALIAS_HISTORY]:
            self._store.delete(self._path("aliases", f"{number:08d}"), _ALIASES)
        return deleted

    def fetch(self, reference: str | int, target: str | pathlib.Path) -> ModelEntry:
        """Copies a model to the local folder `target`, laid out as a TFX Model artifact; `target` must not exist.

        Raises RegistryError, and leaves no `target`, where the copy is not what was registered.
        """
        entry = self.resolve(reference)
        self._store.download(self._path("versions", str(entry.version), MODEL_FOLDER), pathlib.Path(target))
        try:
            check_unchanged(pathlib.Path(target), entry)
        except RegistryError:
            shutil.rmtree(target)
            raise
        return entry

    def statistics(self, version: int) -> dict[str, bytes]:
        """Split folder, such as Split-train, to the first file in it; empty where none were kept with the model."""
        folder = self._path("versions", str(version), _STATISTICS)
        found = {}
        for split in self._store.folders(folder):
            names = self._store.folders(posixpath.join(folder, split))
            content = self._store.read(posixpath.join(folder, split, names[0])) if names else None
            if content is not None:
                found[split] = content
        return found

    def _change_aliases(self, change: Callable[[dict[str, int]], dict[str, int]], why: str) -> dict[str, int]:
        for _ in range(_MAX_ATTEMPTS):
            number, aliases = self._alias_state()
            changed = change(aliases)
            if changed == aliases:
                return aliases
            state = json.dumps({"aliases": changed, "why": why, "at": _now()}, sort_keys=True).encode()
            try:
                self._store.publish(self._path("aliases", f"{number + 1:08d}"), {_ALIASES: state}, _ALIASES)
            except TakenError:
                continue  # somebody else changed them: decide again on what is there now
            return changed
        raise RegistryError(f"{self._store.uri(self.name)}: the aliases change faster than they can be changed")

    def _alias_state(self) -> tuple[int, dict[str, int]]:
        for number in reversed(self._numbers("aliases")):
            if (state := self._read_aliases(number)) is not None:
                return number, state["aliases"]
        return 0, {}

    def _read_aliases(self, number: int) -> dict | None:
        text = self._store.read(self._path("aliases", f"{number:08d}", _ALIASES))
        return json.loads(text) if text is not None else None

    def _read_entry(self, version: int) -> ModelEntry | None:
        text = self._store.read(self._path("versions", str(version), _ENTRY))
        return ModelEntry.from_json(text, self._model_uri(version)) if text is not None else None

    def _numbers(self, kind: str) -> list[int]:
        return sorted(int(name) for name in self._store.folders(self._path(kind)) if name.isdigit())

    def _model_uri(self, version: int) -> str:
        return self._store.uri(self._path("versions", str(version), MODEL_FOLDER))

    def _path(self, *parts: str) -> str:
        return posixpath.join(self.name, *parts)


def resolve(root: str, name: str, reference: str | int = "stable") -> ModelEntry | None:
    """The model that `reference` stands for, None where there is none yet: a first run has no baseline.

    Raises RegistryError for an alias of a model that is gone: a baseline that was lost must not look like a first run.
    """
    registry = ModelRegistry(root, name)
    try:
        return registry.resolve(reference)
    except RegistryError:
        if str(reference) in registry.aliases():
            raise
        return None


def check_unchanged(model: pathlib.Path, entry: ModelEntry) -> None:
    """Raises RegistryError unless `model`, laid out as a TFX Model artifact, has the files that were registered."""
    found = manifest_of(model / SERVING_FOLDER).digest
    if found != entry.digest:
        raise RegistryError(
            f"{entry.uri}: not the model that was registered as version {entry.version} (sha256 {found[:12]}..., "
            f"registered {entry.digest[:12]}...): it was damaged or edited; take another version"
        )


def entry_of(model: pathlib.Path) -> ModelEntry | None:
    """The entry of a folder that lies in a registry as `versions/<n>/model`; None for any other folder."""
    path = model.parent / _ENTRY
    if model.name != MODEL_FOLDER or not path.is_file():
        return None
    return ModelEntry.from_json(path.read_text(encoding="utf-8"), str(model))


def names(root: str) -> list[str]:
    """The names of the models that are registered under `root`."""
    store = Store(root)
    return [name for name in store.folders("") if store.folders(posixpath.join(name, "versions"))]


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
