"""The life of one model version: loaded, warmed up, used by requests, and unloaded when none uses it any more."""

import enum
import os
import threading
from collections.abc import Mapping, Sequence

import numpy as np

from modules.serving.batching import Batcher
from modules.serving.batching_file import BatchingConfig
from modules.serving.request_log import RequestLog
from modules.serving.saved_model import LoadedModel, Signature
from modules.serving.status import ServingError
from modules.serving.warmup import run_warmup


class State(enum.Enum):
    """TensorFlow Serving's states of a version, with the numbers that the status API sends."""

    START = 10
    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


class ModelVersion:
    """One version of one model. Thread-safe.

    `error` says why the version ended without having been available, or why the last attempt to load it failed.
    `attempts`, `next_attempt`, `busy` and `was_unloaded` belong to the manager, under its lock.
    """

    def __init__(self, name: str, number: int, path: str, log: RequestLog | None = None):
        self.name = name
        self.number = number
        self.path = path
        self._log = log
        self.error: ServingError | None = None
        self.attempts = 0
        self.next_attempt = 0.0  # on the monotonic clock, in seconds
        self.busy = False  # a thread is loading or unloading it
        self.was_unloaded = False
        self._state = State.START
        self._users = 0
        self._changed = threading.Condition()
        self._model: LoadedModel | None = None
        self._batcher: Batcher | None = None

    @property
    def state(self) -> State:
        """Where the version stands in its life."""
        return self._state

    @property
    def has_settled(self) -> bool:
        """Whether it is available, or has failed for good."""
        return self._state is State.AVAILABLE or (self._state is State.END and not self.was_unloaded)

    def move_to(self, state: State, error: ServingError | None = None) -> None:
        """Enter `state`; a version that has ended stays ended."""
        with self._changed:
            if self._state is not State.END:
                self._state = state
                self.error = error

    def load(self, batching: BatchingConfig | None, threads: int, run_timeout: float) -> None:
        """Load and warm up; the version is AVAILABLE afterwards.

        Raises:
          ServingError: when the model cannot be loaded, or a warm-up request fails.
        """
        self.move_to(State.LOADING)
        model = LoadedModel(self.path, threads, run_timeout)
        try:
            run_warmup(model, os.path.join(self.path, "assets.extra"))
        except BaseException:
            model.close()
            raise
        self._model = model
        self._batcher = Batcher(model.run, batching) if batching else None
        self.move_to(State.AVAILABLE)

    def unload(self) -> None:
        """Refuse new requests, wait until those in flight are answered, then free the memory."""
        with self._changed:
            if self._state is not State.END:
                self._state = State.UNLOADING
            self._changed.wait_for(lambda: self._users == 0)
        if self._batcher is not None:
            self._batcher.close()
        if self._model is not None:
            self._model.close()
        self.move_to(State.END, self.error)

    def enter(self) -> bool:
        """Count a request in; False when the version is not available."""
        with self._changed:
            if self._state is not State.AVAILABLE:
                return False
            self._users += 1
            return True

    def leave(self) -> None:
        """Count a request out."""
        with self._changed:
            self._users -= 1
            if not self._users:
                self._changed.notify_all()

    @property
    def model(self) -> LoadedModel:
        """The loaded model; only between `enter` and `leave`."""
        assert self._model is not None
        return self._model

    def run(
        self, signature: Signature, inputs: Mapping[str, np.ndarray], outputs: Sequence[str], timeout: float
    ) -> dict[str, np.ndarray]:
        """Run a signature, in a batch with other requests where batching is on."""
        if self._batcher is not None:
            answer = self._batcher.run(signature, inputs, outputs, timeout)
        else:
            answer = self.model.run(signature, inputs, outputs)
        if self._log is not None:
            self._log.add(self.name, self.number, signature.name, inputs, answer)
        return answer
