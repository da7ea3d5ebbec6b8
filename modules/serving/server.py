"""The development model server: models, REST and gRPC in one process, started and drained as one."""

import concurrent.futures
import dataclasses
import ipaddress
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

import grpc
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

from modules.serving.grpc_api import ModelService, PredictionService
from modules.serving.manager import LoadingConfig, ModelManager, ModelRef
from modules.serving.metrics import ServingMetrics
from modules.serving.model_config import ModelConfig
from modules.serving.rest_api import METRICS_PATH, RestApi
from modules.serving.rest_server import RestServer
from modules.serving.status import ServingError, ServingUsageError
from modules.serving.versions import State

BANNER = "Sluice development model server: speaks TensorFlow Serving's API, but is NOT TensorFlow Serving."

_MAX_RPCS = 1024  # beyond them a call gets RESOURCE_EXHAUSTED at once and not a place in an ever longer queue
_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """Where and how to serve.

    Attributes:
      host: address to listen on; the default is reachable from this machine only.
      rest_port, grpc_port: 0 takes a free port.
      max_request_bytes: larger requests are refused (413, RESOURCE_EXHAUSTED).
      request_seconds: a request that takes longer is answered with DEADLINE_EXCEEDED.
      drain_seconds: how long requests in flight may take when the server stops.
      loading: how versions are found, loaded and batched.
    """

    host: str = "127.0.0.1"
    rest_port: int = 8501
    grpc_port: int = 8500
    max_request_bytes: int = 64 * 1024 * 1024
    request_seconds: float = 30.0
    drain_seconds: float = 20.0
    loading: LoadingConfig = dataclasses.field(default_factory=LoadingConfig)

    @property
    def workers(self) -> int:
        """Requests worked on at the same time by each protocol; with batching, enough to fill two batches."""
        batching = self.loading.batching
        usual = max(16, 4 * (os.cpu_count() or 1))
        return max(usual, min(256, 2 * batching.max_batch_size)) if batching else usual


class ModelServer:
    """A running server.

    Args:
      models: what to serve.
      config: where and how.
      roots: folders outside of which nothing is loaded, also not by a reload request; default: the models' own bases.
      discover: finds models that appear later; None serves `models` only.
    """

    def __init__(
        self,
        models: Sequence[ModelConfig],
        config: ServerConfig,
        roots: Sequence[str] = (),
        discover: Callable[[], Sequence[ModelConfig]] | None = None,
    ):
        self._config = config
        self._metrics = ServingMetrics()
        loading = dataclasses.replace(config.loading, run_timeout=config.request_seconds)
        roots = roots or [model.base_path for model in models]
        self.manager = ModelManager(models, roots, loading, self._loaded, discover)
        self.rest_port = 0
        self.grpc_port = 0
        api = RestApi(self.manager, self._metrics, config.request_seconds)
        self._rest = RestServer(
            api,
            host=config.host,
            port=config.rest_port,
            max_body_bytes=config.max_request_bytes,
            body_seconds=config.request_seconds,
            drain_seconds=config.drain_seconds,
            workers=config.workers,
        )
        self._grpc = self._grpc_server()

    def start(self) -> None:
        """Load the models, then listen on both ports.

        Raises:
          ServingUsageError: a port is taken, or the address is not this machine's.
        """
        _LOG.info("%s", BANNER)
        try:
            self.manager.start()
            self.rest_port = self._rest.start()
            self.grpc_port = self._listen_grpc()
            self._grpc.start()
        except BaseException:
            self.stop()
            raise
        if not is_loopback(self._config.host):
            _LOG.warning("listening on %s without authentication: anybody who reaches it can use it", self._config.host)

    def stop(self) -> None:
        """Drain: refuse new requests, answer those in flight, unload the models."""
        stopping = self._grpc.stop(self._config.drain_seconds)
        self._rest.stop()
        stopping.wait()
        self.manager.stop()

    def __enter__(self) -> "ModelServer":
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    @property
    def rest_url(self) -> str:
        """Where the REST API answers."""
        return f"http://{_bracketed(self._config.host)}:{self.rest_port}"

    @property
    def grpc_address(self) -> str:
        """The target for a gRPC channel."""
        return f"{_bracketed(self._config.host)}:{self.grpc_port}"

    @property
    def metrics_url(self) -> str:
        """What Prometheus scrapes."""
        return self.rest_url + METRICS_PATH

    def describe(self) -> list[dict[str, Any]]:
        """Each model with its folder, the versions that answer, and the errors of those that could not be loaded."""
        found: list[dict[str, Any]] = []
        for name, model in self.manager.models().items():
            try:
                versions = self.manager.status(ModelRef(name))
            except ServingError:
                versions = []
            available = [version.number for version in versions if version.state is State.AVAILABLE]
            errors = {str(version.number): version.error.message for version in versions if version.error}
            found.append({"name": name, "base_path": model.base_path, "versions": available, "errors": errors})
        return found

    def _loaded(self, path: str, error: ServingError | None) -> None:
        self._metrics.load(path, "fail" if error else "success")

    def _grpc_server(self) -> grpc.Server:
        limit = self._config.max_request_bytes
        server = grpc.server(
            concurrent.futures.ThreadPoolExecutor(self._config.workers, thread_name_prefix="grpc"),
            maximum_concurrent_rpcs=_MAX_RPCS,
            options=[
                ("grpc.max_receive_message_length", limit),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),
            ],
        )
        timeout = self._config.request_seconds
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
            PredictionService(self.manager, self._metrics, timeout), server
        )
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(
            ModelService(self.manager, self._metrics, timeout), server
        )
        return server

    def _listen_grpc(self) -> int:
        address = f"{_bracketed(self._config.host)}:{self._config.grpc_port}"
        try:
            port = self._grpc.add_insecure_port(address)
        except RuntimeError:
            port = 0
        if not port:
            raise ServingUsageError(
                f"cannot listen on {address} for gRPC: the port is taken or the address is not here"
            )
        return port


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
