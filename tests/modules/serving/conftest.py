"""Small SavedModels, and servers for them."""

import dataclasses
import os
import pathlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator

import grpc
import httpx
import pytest
import tensorflow as tf

PATIENCE = 60.0  # seconds: an upper bound for anything that a test waits for
_IMAGE = os.environ.get("SLUICE_SERVING_IMAGE", "")  # set by make e2e-serving: the API tests run against it, too
_REAL = pytest.param("real", marks=pytest.mark.docker)


class SmallModel(tf.Module):
    """Signatures of every kind that the API serves; `factor` tells versions apart."""

    def __init__(self, factor: float):
        super().__init__()
        self.factor = tf.Variable(factor)
        self.names = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(tf.constant([0, 1], tf.int64), tf.constant(["low", "high"])), "?"
        )

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def scale(self, x):
        return {"y": x * self.factor}

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.int64, name="a"), tf.TensorSpec([None], tf.string, name="b")]
    )
    def two(self, a, b):
        return {"a_plus": a + tf.cast(self.factor, tf.int64), "text": b, "raw_bytes": b}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def total(self, x):
        return {"total": tf.reduce_sum(x)}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], getattr(tf, name), name=name)
            for name in ("float64", "int8", "uint8", "int16", "int32", "uint32", "uint64", "bool")
        ]
    )
    def types(self, float64, int8, uint8, int16, int32, uint32, uint64, bool):
        return {
            "float64": float64,
            "int8": int8,
            "uint8": uint8,
            "int16": int16,
            "int32": int32,
            "uint32": uint32,
            "uint64": uint64,
            "bool": bool,
        }

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
    def classify(self, inputs):
        x = self._parse(inputs)
        classes = tf.tile(self.names.lookup(tf.constant([[0, 1]], tf.int64)), [tf.shape(x)[0], 1])
        return {"classes": classes, "scores": tf.stack([1 - x, x], axis=1)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
    def regress(self, inputs):
        return {"outputs": self._parse(inputs) * self.factor}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def raw_examples(self, examples):
        return {"probabilities": self._parse(examples) * self.factor}

    def _parse(self, serialized):
        spec = {
            "x": tf.io.FixedLenFeature([], tf.float32),
            "count": tf.io.FixedLenFeature([], tf.int64, default_value=0),
            "tags": tf.io.VarLenFeature(tf.string),
        }
        return tf.io.parse_example(serialized, spec)["x"]


def export(path: pathlib.Path, factor: float) -> None:
    """Write a SmallModel as a SavedModel."""
    model = SmallModel(factor)
    signatures = {
        "serving_default": model.scale,
        "two": model.two,
        "total": model.total,
        "types": model.types,
        "classify": model.classify,
        "regress": model.regress,
        "raw_examples": model.raw_examples,
    }
    tf.saved_model.save(model, str(path), signatures=signatures)


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[int, pathlib.Path]:
    """SavedModels with factor 1 and factor 2, to be copied and never changed."""
    folder = tmp_path_factory.mktemp("exported")
    for factor in (1, 2):
        export(folder / str(factor), float(factor))
    return {factor: folder / str(factor) for factor in (1, 2)}


@pytest.fixture
def publish(exported: dict[int, pathlib.Path]) -> Callable[..., pathlib.Path]:
    """publish(base, version, factor): a version appears under `base` by one rename, as a good deployer does it."""

    def put(base: pathlib.Path, version: int, factor: int = 1) -> pathlib.Path:
        staged = base / f".staged-{version}"
        shutil.copytree(exported[factor], staged)
        target = base / str(version)
        os.rename(staged, target)
        return target

    return put


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    """eventually(condition): wait until it holds; fail after a long time."""

    def wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, "the condition never held"
            time.sleep(0.02)

    return wait


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """A server that speaks the API: this project's, or TensorFlow Serving itself."""

    rest: str
    grpc: str
    is_real: bool


@pytest.fixture(scope="module")
def model_folder(exported: dict[int, pathlib.Path], tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with the model `small`, versions 1 and 2."""
    folder = tmp_path_factory.mktemp("models")
    for version in (1, 2):
        shutil.copytree(exported[version], folder / "small" / str(version))
    return folder


@pytest.fixture(scope="module", params=["sluice", *([_REAL] if _IMAGE else [])])
def endpoint(request: pytest.FixtureRequest, model_folder: pathlib.Path) -> Iterator[Endpoint]:
    """Serves versions 1 (label `old`) and 2 of `small`."""
    if request.param == "real":
        yield from real_serving(_IMAGE, model_folder)
        return
    from modules.serving.manager import LoadingConfig
    from modules.serving.model_config import ModelConfig, VersionPolicy
    from modules.serving.server import ModelServer, ServerConfig

    model = ModelConfig("small", str(model_folder / "small"), VersionPolicy("all"), {"old": 1})
    config = ServerConfig(rest_port=0, grpc_port=0, loading=LoadingConfig(poll_seconds=0.1, max_retries=0))
    with ModelServer([model], config, roots=[str(model_folder)]) as server:
        yield Endpoint(server.rest_url, server.grpc_address, is_real=False)


def real_serving(image: str, folder: pathlib.Path) -> Iterator[Endpoint]:
    """TensorFlow Serving in a container, with the same models and labels."""
    (folder / "models.config").write_text(
        'model_config_list { config { name: "small" base_path: "/models/small" model_platform: "tensorflow" '
        'model_version_policy { all {} } version_labels { key: "old" value: 1 } } }'
    )
    options = [
        "--model_config_file=/models/models.config",
        "--allow_version_labels_for_unavailable_models=true",
        "--file_system_poll_wait_seconds=1",
    ]
    ports = ["-p", "127.0.0.1::8500", "-p", "127.0.0.1::8501"]
    command = ["docker", "run", "-d", "--rm", *ports, "-v", f"{folder}:/models", image, *options]
    container = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    try:
        rest, grpc_address = (
            subprocess.run(["docker", "port", container, port], check=True, capture_output=True, text=True)
            .stdout.splitlines()[0]
            .strip()
            for port in ("8501", "8500")
        )
        wait_until_available(f"http://{rest}")
        yield Endpoint(f"http://{rest}", grpc_address, is_real=True)
    finally:
        subprocess.run(["docker", "stop", container], check=False, capture_output=True)


def wait_until_available(rest: str) -> None:
    """Wait until both versions of `small` answer."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            states = httpx.get(f"{rest}/v1/models/small").json().get("model_version_status", [])
        except (httpx.TransportError, ValueError):
            states = []
        if [state["state"] for state in states] == ["AVAILABLE"] * 2:
            return
        assert time.monotonic() < deadline, f"TensorFlow Serving did not load the models: {states}"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def channel(endpoint: Endpoint) -> Iterator[grpc.Channel]:
    """A gRPC channel to the endpoint."""
    with grpc.insecure_channel(endpoint.grpc) as opened:
        yield opened


@pytest.fixture(scope="module")
def http(endpoint: Endpoint) -> Iterator[httpx.Client]:
    """An HTTP client of the endpoint, with one kept-alive connection."""
    with httpx.Client(base_url=endpoint.rest, timeout=PATIENCE) as client:
        yield client
