"""Logs a share of the answered requests as PredictionLogs, to be compared with what the model was trained on."""

import logging
import os
import queue
import random
import threading
import time
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from modules.serving.proto_tensors import outputs_to_protos

_LOG = logging.getLogger(__name__)
_CAPACITY = 1000  # requests that may wait to be written; beyond them the log has gaps, and no request waits
_FILE_BYTES = 64 * 1024 * 1024
_Entry = tuple[str, int, str, Mapping[str, np.ndarray], Mapping[str, np.ndarray]]


class RequestLog:
    """Writes TFRecord files of PredictionLogs from a thread of its own, one folder for each model.

    Args:
      folder: where; made when it is missing.
      share: of all answered requests, between 0 and 1.
      file_bytes: a file that has grown to this size is closed and a new one begun.
    """

    def __init__(self, folder: str, share: float = 1.0, file_bytes: int = _FILE_BYTES):
        self._folder = folder
        self._share = share
        self._file_bytes = file_bytes
        self._queue: queue.Queue[_Entry | None] = queue.Queue(_CAPACITY)
        self._writers: dict[str, tuple[tf.io.TFRecordWriter, int]] = {}
        self._num_files = 0
        self.dropped = 0
        os.makedirs(folder, exist_ok=True)
        self._thread = threading.Thread(target=self._write_forever, name="request-log", daemon=True)
        self._thread.start()

    def add(
        self,
        model: str,
        version: int,
        signature: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Mapping[str, np.ndarray],
    ) -> None:
        """Log one request, if chance takes it. Never waits and never fails."""
        if random.random() >= self._share:
            return
        try:
            self._queue.put_nowait((model, version, signature, inputs, outputs))
        except queue.Full:
            self.dropped += 1

    def close(self) -> None:
        """Write what is waiting and close the files."""
        self._queue.put(None)
        self._thread.join()
        if self.dropped:
            _LOG.warning("%d requests were not logged: they came faster than they could be written", self.dropped)

    def _write_forever(self) -> None:
        while (entry := self._queue.get()) is not None:
            try:
                self._write(entry)
            except (tf.errors.OpError, OSError) as error:  # such as a full disk: serving goes on without the log
                self.dropped += 1
                _LOG.warning("cannot log a request: %s", error)
            if self._queue.empty():
                for writer, _ in self._writers.values():
                    writer.flush()
        for writer, _ in self._writers.values():
            writer.close()

    def _write(self, entry: _Entry) -> None:
        model, version, signature, inputs, outputs = entry
        log = prediction_log_pb2.PredictionLog()
        for spec in (log.predict_log.request.model_spec, log.predict_log.response.model_spec):
            spec.name, spec.signature_name = model, signature
            spec.version.value = version
        outputs_to_protos(inputs, log.predict_log.request.inputs)
        outputs_to_protos(outputs, log.predict_log.response.outputs)
        record = log.SerializeToString()
        writer, size = self._writers.pop(model) if model in self._writers else (self._new_file(model), 0)
        writer.write(record)
        if size + len(record) < self._file_bytes:
            self._writers[model] = (writer, size + len(record))
        else:
            writer.close()

    def _new_file(self, model: str) -> tf.io.TFRecordWriter:
        folder = os.path.join(self._folder, model)
        os.makedirs(folder, exist_ok=True)
        self._num_files += 1
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        return tf.io.TFRecordWriter(os.path.join(folder, f"{stamp}-{os.getpid()}-{self._num_files}.tfrecord"))
