"""Dynamic batching: requests that arrive together run as one session call."""

import collections
import concurrent.futures
import dataclasses
import threading
import time
from collections.abc import Mapping, Sequence

import numpy as np

from modules.serving.batching_file import BatchingConfig
from modules.serving.model_api import Runner
from modules.serving.saved_model import Signature
from modules.serving.status import Code, ServingError, invalid

# Only requests that agree in all of these can share a session call.
_Key = tuple[str, tuple[str, ...], tuple[tuple[str, str, tuple[int, ...]], ...]]
_Arrays = dict[str, np.ndarray]
# Failures that no single request caused: running the requests again one by one would only make all of them late.
_NOBODYS_FAULT = (Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE)


@dataclasses.dataclass
class _Task:
    signature: Signature
    inputs: Mapping[str, np.ndarray]
    outputs: tuple[str, ...]
    rows: int
    enqueued: float
    future: "concurrent.futures.Future[_Arrays]"


class _Queue:
    """Requests that can share a session call, in order of arrival, and how many rows they hold."""

    def __init__(self) -> None:
        self.tasks: collections.deque[_Task] = collections.deque()
        self.rows = 0

    def put(self, task: _Task) -> None:
        self.tasks.append(task)
        self.rows += task.rows

    def take(self, limit: int) -> list[_Task]:
        """The oldest requests that together hold at most `limit` rows, less those that nobody waits for any more."""
        batch: list[_Task] = []
        rows = 0
        while self.tasks and rows + self.tasks[0].rows <= limit:
            task = self.tasks.popleft()
            self.rows -= task.rows
            if task.future.set_running_or_notify_cancel():
                rows += task.rows
                batch.append(task)
        return batch


class Batcher:
    """Queues requests by what they ask for and runs each queue in batches on a few threads.

    A batch runs when it is full, or when its oldest request has waited `batch_timeout_micros` and a thread is free.
    Batches are padded up to the next allowed size with copies of their first row. When a batch fails, its requests
    run one by one, so that a bad request fails alone, unless time ran out. (TensorFlow Serving fails the whole batch.)

    Args:
      run: runs a signature on arrays.
      config: sizes, timeout and threads.
    """

    def __init__(self, run: Runner, config: BatchingConfig):
        self._run = run
        self._config = config
        self._queues: dict[_Key, _Queue] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"batch-{number}", daemon=True)
            for number in range(config.num_batch_threads)
        ]
        for thread in self._threads:
            thread.start()

    def run(
        self, signature: Signature, inputs: Mapping[str, np.ndarray], outputs: Sequence[str] = (), timeout: float = 3600
    ) -> _Arrays:
        """Outputs for `inputs`, computed in a batch with others. Blocks the caller.

        Raises:
          ServingError: UNAVAILABLE when the queue is full, DEADLINE_EXCEEDED after `timeout` seconds.
        """
        rows = _num_rows(inputs)
        limit = self._config.max_batch_size
        if rows <= limit:
            return self._enqueue(signature, inputs, tuple(outputs), rows).result(timeout)
        if not self._config.enable_large_batch_splitting:
            raise invalid(
                f"Task size {rows} is larger than maximum input batch size {limit}: send fewer rows in one request, "
                "or set enable_large_batch_splitting in the batching parameters"
            )
        deadline = time.monotonic() + timeout
        parts = [
            self._enqueue(signature, _rows(inputs, start, start + limit), tuple(outputs), min(limit, rows - start))
            for start in range(0, rows, limit)
        ]
        answers = [part.result(max(0.0, deadline - time.monotonic())) for part in parts]
        return {alias: np.concatenate([answer[alias] for answer in answers]) for alias in answers[0]}

    def close(self) -> None:
        """Finish what is queued, then end the threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _enqueue(
        self, signature: Signature, inputs: Mapping[str, np.ndarray], outputs: tuple[str, ...], rows: int
    ) -> "_Pending":
        shapes = tuple((alias, value.dtype.str, value.shape[1:]) for alias, value in sorted(inputs.items()))
        task = _Task(signature, inputs, outputs, rows, time.monotonic(), concurrent.futures.Future())
        with self._changed:
            if self._closed:
                raise ServingError(Code.UNAVAILABLE, "this model version is being unloaded")
            queue = self._queues.setdefault((signature.name, outputs, shapes), _Queue())
            if queue.rows + rows > self._config.max_enqueued_batches * self._config.max_batch_size:
                raise ServingError(
                    Code.UNAVAILABLE, "The batch scheduling queue to which this task was submitted is full"
                )
            queue.put(task)
            if len(queue.tasks) == 1 or queue.rows >= self._config.max_batch_size:  # else a thread wakes in time anyway
                self._changed.notify()
        return _Pending(task)

    def _work(self) -> None:
        while True:
            batch = self._next_batch()
            if batch is None:
                return
            self._run_batch(batch)

    def _next_batch(self) -> list[_Task] | None:
        """The next batch that may run, once there is one; None when the batcher is closed and empty."""
        with self._changed:
            while True:
                now = time.monotonic()
                key, due = self._most_urgent(now)
                if key is not None and due <= now:
                    return self._take(key)
                if key is None and self._closed:
                    return None
                self._changed.wait(None if key is None else due - now)

    def _most_urgent(self, now: float) -> tuple[_Key | None, float]:
        """The queue that is due first, and when: now for a full one or a closing batcher."""
        best: tuple[_Key | None, float] = (None, float("inf"))
        for key, queue in self._queues.items():
            due = queue.tasks[0].enqueued + self._config.batch_timeout_micros / 1e6
            if self._closed or queue.rows >= self._config.max_batch_size:
                due = min(due, now)
            if due < best[1]:
                best = (key, due)
        return best

    def _take(self, key: _Key) -> list[_Task]:
        queue = self._queues[key]
        batch = queue.take(self._config.max_batch_size)
        if not queue.tasks:
            del self._queues[key]
        if self._queues:
            self._changed.notify()  # what is left may be due for a thread that sleeps without a deadline
        return batch

    def _run_batch(self, batch: list[_Task]) -> None:
        try:
            self._run_together(batch)
        except BaseException as error:  # a thread that dies would leave every later caller waiting
            if len(batch) > 1 and not (isinstance(error, ServingError) and error.code in _NOBODYS_FAULT):
                for task in batch:
                    self._run_batch([task])
                return
            for task in batch:
                task.future.set_exception(error)

    def _run_together(self, batch: list[_Task]) -> None:
        if not batch:
            return
        first = batch[0]
        rows = sum(task.rows for task in batch)
        inputs = {alias: self._joined([task.inputs[alias] for task in batch], rows) for alias in first.inputs}
        outputs = self._run(first.signature, inputs, first.outputs)
        size = self._config.padded(rows)
        for alias, value in outputs.items():
            if value.ndim == 0 or value.shape[0] != size:
                raise ServingError(
                    Code.FAILED_PRECONDITION,
                    f"Batched output tensor {alias!r} has shape {list(value.shape)}: its 0th dimension does not equal "
                    f"the sum of the 0th dimension sizes of the input tensors ({size}); serve it without batching",
                )
        start = 0
        for task in batch:
            task.future.set_result({alias: value[start : start + task.rows] for alias, value in outputs.items()})
            start += task.rows

    def _joined(self, parts: list[np.ndarray], rows: int) -> np.ndarray:
        padding = self._config.padded(rows) - rows
        if padding:
            parts = [*parts, np.repeat(parts[0][:1], padding, axis=0)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


class _Pending:
    """A request in the queue, waited for with a deadline."""

    def __init__(self, task: _Task):
        self._future = task.future

    def result(self, timeout: float) -> _Arrays:
        try:
            return self._future.result(timeout)
        except concurrent.futures.TimeoutError:
            self._future.cancel()
            raise ServingError(Code.DEADLINE_EXCEEDED, f"no answer within {timeout:.3g} s") from None


def _num_rows(inputs: Mapping[str, np.ndarray]) -> int:
    sizes = {alias: value.shape[0] if value.ndim else None for alias, value in inputs.items()}
    if not sizes:
        raise invalid("Batching needs at least one input tensor")
    if len(set(sizes.values())) > 1 or None in sizes.values():
        raise invalid(f"Batching input tensors must have equal 0th dimension sizes, got {sizes}")
    rows = next(iter(sizes.values()))
    if not rows:
        raise invalid("Batching input tensors must have at least one row")
    return rows


def _rows(inputs: Mapping[str, np.ndarray], start: int, stop: int) -> _Arrays:
    return {alias: value[start:stop] for alias, value in inputs.items()}
