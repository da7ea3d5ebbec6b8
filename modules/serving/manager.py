"""All models of a server: watches their folders, loads and unloads versions, and finds the one a request means."""

import concurrent.futures
import dataclasses
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from modules.serving.batching_file import BatchingConfig
from modules.serving.model_config import ModelConfig, require_inside, version_number
from modules.serving.request_log import RequestLog
from modules.serving.status import Code, ServingError, ServingUsageError, invalid
from modules.serving.versions import ModelVersion, State

_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class ModelRef:
    """Which model a request means: the highest available version, a `version`, or the one that `label` names."""

    name: str
    version: int | None = None
    label: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoadingConfig:
    """How versions are found and loaded.

    Attributes:
      poll_seconds: how often folders are looked at.
      max_retries: further attempts after a failed load; then the version has ended with its error.
      retry_seconds: pause between attempts. (TensorFlow Serving's default is 60.)
      threads: threads of a model's session; 0 lets TensorFlow choose.
      run_timeout: seconds after which one session call is given up; 0 waits for ever.
      batching: how requests are batched; None runs each alone.
      log: takes a share of the answered requests; None logs nothing.
    """

    poll_seconds: float = 1.0
    max_retries: int = 5
    retry_seconds: float = 2.0
    threads: int = 0
    run_timeout: float = 30.0
    batching: BatchingConfig | None = None
    log: RequestLog | None = None


class ModelManager:
    """Keeps the served versions equal to what the folders hold and the policies choose.

    A new version is loaded and warmed up before an old one is let go, and an old one is closed only after its last
    request is answered: nobody who asks without a version sees a swap.

    Args:
      models: what to serve at first.
      roots: folders outside of which nothing is ever loaded.
      loading: how.
      on_load: called with (folder, error or None) after each attempt to load a version.
      discover: finds the models there are, asked at every look until a reload replaces the list; None: `models` only.
    """

    def __init__(
        self,
        models: Sequence[ModelConfig],
        roots: Sequence[str],
        loading: LoadingConfig | None = None,
        on_load: Callable[[str, ServingError | None], None] | None = None,
        discover: Callable[[], Sequence[ModelConfig]] | None = None,
    ):
        self._roots = tuple(roots)
        self._loading = loading or LoadingConfig()
        self._on_load = on_load or (lambda *_: None)
        self._discover = discover
        self._lock = threading.Condition()  # guards the three below, and tells waiters about changed states
        self._configs: dict[str, ModelConfig] = {}
        self._versions: dict[str, dict[int, ModelVersion]] = {}
        self._labels: dict[str, dict[str, int]] = {}
        self._loaders = concurrent.futures.ThreadPoolExecutor(2, thread_name_prefix="load")
        # Apart from the loaders: an old version that waits for a slow request must not hold up a new one.
        self._unloaders = concurrent.futures.ThreadPoolExecutor(8, thread_name_prefix="unload")
        self._stopped = threading.Event()
        self._look = threading.Event()
        self._poller = threading.Thread(target=self._poll_forever, name="poll", daemon=True)
        for model in models:
            require_inside(model.base_path, self._roots)
        self._configs = {model.name: model for model in models}

    def start(self, timeout: float = 300.0) -> None:
        """Load what there is and wait until every version is available or has failed; then set labels."""
        configs = list(self._configs.values())
        self._poller.start()
        if not self._wait(lambda: all(self._settled(config.name, every=True) for config in configs), timeout):
            raise ServingError(Code.UNAVAILABLE, f"models are still loading after {timeout:g} s")
        with self._lock:
            for config in configs:
                self._labels[config.name] = self._checked_labels(config)

    def stop(self) -> None:
        """Unload everything; requests in flight are answered first."""
        self._stopped.set()
        self._look.set()
        if self._poller.is_alive():
            self._poller.join()
        with self._lock:
            served = [version for versions in self._versions.values() for version in versions.values()]
        for version in served:
            if version.state is not State.END:
                self._unloaders.submit(version.unload)
        self._loaders.shutdown(wait=True)
        self._unloaders.shutdown(wait=True)

    @contextmanager
    def use(self, ref: ModelRef) -> Iterator[ModelVersion]:
        """The version that `ref` means, held until the block ends.

        Raises:
          ServingError: NOT_FOUND when it is not served, INVALID_ARGUMENT for an unknown label.
        """
        with self._lock:
            version = self._find(ref)
            entered = version is not None and version.enter()
        if version is None or not entered:
            number = ref.version if version is None else version.number
            wanted = f"Latest({ref.name})" if number is None else f"Specific({ref.name}, {number})"
            raise ServingError(Code.NOT_FOUND, f"Servable not found for request: {wanted}")
        try:
            yield version
        finally:
            version.leave()

    def _find(self, ref: ModelRef) -> ModelVersion | None:
        if not ref.name:
            raise invalid("ModelSpec has no name specified.")
        versions = self._versions.get(ref.name, {})
        if ref.label:
            try:
                return versions.get(self._labels[ref.name][ref.label])
            except KeyError:
                raise invalid(f"Unrecognized servable version label: {ref.label}") from None
        if ref.version is not None:
            return versions.get(ref.version)
        available = [number for number, version in versions.items() if version.state is State.AVAILABLE]
        return versions[max(available)] if available else None

    def status(self, ref: ModelRef) -> list[ModelVersion]:
        """The versions that `ref` means and their states, highest first.

        Raises:
          ServingError: NOT_FOUND when there is none, INVALID_ARGUMENT for an unknown label.
        """
        with self._lock:
            if ref.label or ref.version is not None:
                version = self._find(ref)
                if version is None:
                    wanted = ref.version if ref.version is not None else ref.label
                    raise ServingError(Code.NOT_FOUND, f"Could not find version {wanted} of model {ref.name}")
                return [version]
            versions = self._versions.get(ref.name, {})
            if not versions:
                raise ServingError(Code.NOT_FOUND, f"Could not find any versions of model {ref.name}")
            return [versions[number] for number in sorted(versions, reverse=True)]

    def models(self) -> Mapping[str, ModelConfig]:
        """What is served, by model name."""
        with self._lock:
            return dict(self._configs)

    def reload(self, models: Sequence[ModelConfig], timeout: float = 300.0) -> None:
        """Serve exactly `models` from now on, as TensorFlow Serving's ReloadConfig does.

        Labels are checked against the versions that are available now, so a version and its label need two reloads.
        Returns when the models that are new are available; new versions of known models load in the background.

        Raises:
          ServingError: FAILED_PRECONDITION for a label on a version that is not available, or a folder outside the
            roots; UNAVAILABLE when a new model cannot be loaded. The first two leave everything as it was.
        """
        for model in models:
            require_inside(model.base_path, self._roots)
        with self._lock:
            labels = {model.name: self._checked_labels(model) for model in models}
            new = [model.name for model in models if model.name not in self._configs]
            self._configs = {model.name: model for model in models}
            self._discover = None
            self._labels = labels
            for name in new:  # an error that a removed model left behind says nothing about the new one
                versions = self._versions.get(name, {})
                self._versions[name] = {n: v for n, v in versions.items() if v.state is not State.END}
        self._look.set()
        self._wait(lambda: all(self._settled(name) for name in new), timeout)
        failed = [name for name in new if not self._is_available(name)]
        if failed:
            raise ServingError(Code.UNAVAILABLE, f"models did not become available: {', '.join(failed)}")

    def _checked_labels(self, model: ModelConfig) -> dict[str, int]:
        versions = self._versions.get(model.name, {})
        for number in model.labels.values():
            if number not in versions or versions[number].state is not State.AVAILABLE:
                raise ServingError(
                    Code.FAILED_PRECONDITION,
                    f"Request to assign label to version {number} of model {model.name}, "
                    "which is not currently available for inference",
                )
        return dict(model.labels)

    def _wait(self, condition: Callable[[], bool], timeout: float) -> bool:
        with self._lock:
            return self._lock.wait_for(lambda: self._stopped.is_set() or condition(), timeout)

    def _settled(self, name: str, every: bool = False) -> bool:
        """Whether the newest chosen version (or each) is available or has failed; true when there is none to load."""
        config = self._configs.get(name)
        chosen = sorted((self._chosen(config) if config else {}) or {})
        versions = self._versions.get(name, {})
        return all(number in versions and versions[number].has_settled for number in (chosen if every else chosen[-1:]))

    def _is_available(self, name: str) -> bool:
        with self._lock:
            return any(version.state is State.AVAILABLE for version in self._versions.get(name, {}).values())

    def _chosen(self, config: ModelConfig) -> dict[int, str] | None:
        """The versions to serve and their folders; None when the base folder cannot be read."""
        found = {}
        try:
            for name in sorted(os.listdir(config.base_path)):
                number = version_number(name)
                if number is not None:
                    found[number] = os.path.join(config.base_path, name)
        except OSError as error:
            _LOG.warning("Could not find base path %s for servable %s: %s", config.base_path, config.name, error)
            return None
        return {number: found[number] for number in config.policy.choose(found)}

    def _poll_forever(self) -> None:
        while not self._stopped.is_set():
            try:
                self._poll()
            except Exception:
                _LOG.exception("looking for versions failed; trying again")
            with self._lock:
                self._lock.notify_all()
            self._look.wait(self._loading.poll_seconds)
            self._look.clear()

    def _discovered(self) -> Sequence[ModelConfig]:
        try:
            return self._discover() if self._discover else ()
        except (OSError, ServingUsageError) as error:  # the folder is away for a moment
            _LOG.warning("Could not look for models: %s", error)
            return ()

    def _poll(self) -> None:
        discovered = self._discovered()
        with self._lock:
            for model in discovered:
                if model.name not in self._configs and self._discover:
                    _LOG.info("Found model %s in %s", model.name, model.base_path)
                    self._configs[model.name] = model
            configs = dict(self._configs)
            gone = [name for name in self._versions if name not in configs]
        for name in gone:
            self._retire(name, keep=set())
        for config in configs.values():
            chosen = self._chosen(config)
            if chosen is None:
                continue  # a base folder that is away for a moment must not unload its models; an empty one does
            self._begin(config.name, chosen)
            self._retire(config.name, keep=set(chosen))

    def _begin(self, name: str, chosen: Mapping[int, str]) -> None:
        """Start loading the versions that are new, and those whose next attempt is due."""
        now = time.monotonic()
        for number, path in sorted(chosen.items()):
            with self._lock:
                versions = self._versions.setdefault(name, {})
                version = versions.get(number)
                if version is None or (version.state is State.END and version.was_unloaded):
                    version = versions[number] = ModelVersion(name, number, path, self._loading.log)
                due = version.state in (State.START, State.LOADING) and not version.busy and version.next_attempt <= now
                if due:
                    version.busy = True
            if due:
                self._loaders.submit(self._load, version)

    def _load(self, version: ModelVersion) -> None:
        version.attempts += 1
        started = time.monotonic()
        error: ServingError | None = None
        try:
            require_inside(version.path, self._roots)
            version.load(self._loading.batching, self._loading.threads, self._loading.run_timeout)
        except ServingError as failure:
            error = failure
        except Exception as failure:  # a damaged model can fail in any way; the server lives on
            error = ServingError(Code.INTERNAL, f"{type(failure).__name__}: {failure}")
        seconds = time.monotonic() - started
        if error is None:
            _LOG.info("Loaded servable version {name: %s version: %d} in %.1f s", version.name, version.number, seconds)
        elif not os.path.isdir(version.path):
            # Renamed away while it was looked for, or since: no attempt at this model. Gone for good, it is retired.
            version.attempts -= 1
            version.move_to(State.LOADING, error)
            version.next_attempt = time.monotonic() + self._loading.retry_seconds
        elif version.attempts > self._loading.max_retries:
            _LOG.error("Giving up on {name: %s version: %d}: %s", version.name, version.number, error)
            version.move_to(State.END, error)
        else:
            _LOG.warning("Loading {name: %s version: %d} failed: %s", version.name, version.number, error)
            version.move_to(State.LOADING, error)
            version.next_attempt = time.monotonic() + self._loading.retry_seconds
        self._on_load(version.path, error)
        if self._stopped.is_set():
            version.unload()
        with self._lock:
            version.busy = False
            self._lock.notify_all()
        self._look.set()  # what this version replaces can go now

    def _retire(self, name: str, keep: set[int]) -> None:
        """Unload the versions that are not chosen, once those that replace them are available or have failed."""
        with self._lock:
            versions = self._versions.get(name, {})
            replacements = [versions[number] for number in keep if number in versions]
            if any(version.state in (State.START, State.LOADING) for version in replacements):
                return
            if keep and not any(version.state is State.AVAILABLE for version in replacements):
                return  # every new version failed: the old one serves on
            leaving = [v for number, v in versions.items() if number not in keep and not v.busy]
            leaving = [version for version in leaving if version.state is not State.UNLOADING]
            for version in leaving:
                if version.state is State.END:
                    version.was_unloaded = True  # its folder went away: should it return, it is tried anew
                else:
                    version.busy = True
                    version.move_to(State.UNLOADING)
        for version in leaving:
            if version.state is State.UNLOADING:
                self._unloaders.submit(self._unload, version)

    def _unload(self, version: ModelVersion) -> None:
        version.unload()
        with self._lock:
            version.was_unloaded = True
            version.busy = False
            self._lock.notify_all()
        _LOG.info("Unloaded servable version {name: %s version: %d}", version.name, version.number)
