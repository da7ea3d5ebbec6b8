"""The same numbers for Prometheus: on a port, and as a file for the node exporter's textfile collector."""

import time

import prometheus_client
from prometheus_client import CollectorRegistry, Gauge

from modules.training.errors import TrainingConfigError
from modules.training.telemetry import Snapshot, say

_PREFIX = "sluice_training_"
_HELP = {
    "step": "Optimizer steps done",
    "loss": "Mean training loss since the last point",
    "grad_norm": "Global gradient norm before clipping",
    "learning_rate": "Learning rate",
    "loss_scale": "Dynamic loss scale of float16 training, otherwise 1",
    "skipped_steps": "Steps skipped because gradients were not finite",
    "examples_per_s": "Examples per second over all workers",
    "step_p50_s": "Median time of a step",
    "step_p95_s": "95th percentile of the time of a step",
    "input_wait_share": "Share of the step time spent waiting for input",
    "all_reduce_share": "Share of the step time spent in the all-reduce, waiting for peers included",
}


class PrometheusMetrics:
    """Gauges in a registry of their own, so that several trainings in one process do not collide."""

    def __init__(self, task: str, port: int = 0, textfile: str = ""):
        """Serves on `port` and writes to `textfile`, either if given.

        Raises:
          TrainingConfigError: the port is taken, or the file cannot be written.
        """
        self._registry = CollectorRegistry()
        self._task, self._textfile = task, textfile
        self._gauges = {name: self._gauge(name, text) for name, text in _HELP.items()}
        self._total = self._gauge("steps_planned", "Steps of the whole training")
        self._seen = self._gauge("last_report_timestamp_seconds", "When these numbers were taken")
        self._evaluation = self._gauge("evaluation", "Latest evaluation", "metric")
        self._server = None
        if port:
            try:
                self._server, _ = prometheus_client.start_http_server(port, registry=self._registry)
            except (OSError, OverflowError) as error:
                raise TrainingConfigError(
                    f"prometheus_port: port {port} cannot be used ({error}); choose another or 0"
                ) from None
        if textfile:
            try:
                prometheus_client.write_to_textfile(textfile, self._registry)
            except OSError as error:
                raise TrainingConfigError(
                    f"prometheus_textfile: {textfile} cannot be written ({error.strerror}); choose another file"
                ) from None

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(_PREFIX + name, text, ["task", *labels], registry=self._registry)

    def training(self, snapshot: Snapshot) -> None:
        """Takes over a snapshot."""
        for name, value in snapshot.scalars().items():
            self._gauges[name].labels(self._task).set(value)
        self._total.labels(self._task).set(snapshot.total_steps)
        self._write()

    def evaluation(self, step: int, metrics: dict[str, float]) -> None:
        """Takes over an evaluation."""
        for name, value in metrics.items():
            self._evaluation.labels(self._task, name).set(value)
        self._write()

    def _write(self) -> None:
        self._seen.labels(self._task).set(time.time())
        if self._textfile:
            try:
                prometheus_client.write_to_textfile(self._textfile, self._registry)
            except OSError as error:  # the disk is full, say: no reason to stop training
                say(f"warning: {self._textfile} is not up to date: {error.strerror}")

    def close(self) -> None:
        """Stops serving; the text file stays for whoever reads it next."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
