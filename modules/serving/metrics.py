"""Prometheus metrics under TensorFlow Serving's names, so that its dashboards and alerts fit this server too."""

from collections.abc import Iterable

import prometheus_client
from prometheus_client.core import Metric

_LATENCY_BUCKETS = tuple(10 * 1.8**power for power in range(33))  # microseconds, 10 us to 20 minutes


class _Counter:
    """A counter exposed under its plain name; the client library would append `_total`, which TF Serving does not."""

    def __init__(self, name: str, text: str, labels: tuple[str, ...], registry: prometheus_client.CollectorRegistry):
        self._name, self._text = name, text
        self._counter = prometheus_client.Counter(name, text, labels, registry=None)
        registry.register(self)

    def add(self, *labels: str) -> None:
        self._counter.labels(*labels).inc()

    def collect(self) -> Iterable[Metric]:
        metric = Metric(self._name, self._text, "unknown")
        for family in self._counter.collect():
            for sample in family.samples:
                if sample.name.endswith("_total"):
                    metric.add_sample(self._name, sample.labels, sample.value)
        yield metric


class ServingMetrics:
    """Requests and loads, counted and timed."""

    def __init__(self) -> None:
        self._registry = prometheus_client.CollectorRegistry()
        self._requests = _Counter(
            ":tensorflow:serving:request_count", "Requests.", ("model_name", "status"), self._registry
        )
        self._loads = _Counter(
            ":tensorflow:cc:saved_model:load_attempt_count",
            "Attempts to load a SavedModel.",
            ("model_path", "status"),
            self._registry,
        )
        self._latency = prometheus_client.Histogram(
            ":tensorflow:serving:request_latency",
            "Wall time of answered requests, in microseconds.",
            ("model_name", "API", "entrypoint"),
            buckets=_LATENCY_BUCKETS,
            registry=self._registry,
        )

    def request(self, model: str, api: str, entrypoint: str, seconds: float, status: str) -> None:
        """Count a request: `api` such as predict, `entrypoint` REST or GRPC, `status` OK or a canonical code."""
        self._requests.add(model, status)
        if status == "OK":
            self._latency.labels(model, api, entrypoint).observe(seconds * 1e6)

    def load(self, path: str, status: str) -> None:
        """Count an attempt to load a version."""
        self._loads.add(path, status)

    def page(self) -> bytes:
        """The text that Prometheus scrapes."""
        return prometheus_client.generate_latest(self._registry)
