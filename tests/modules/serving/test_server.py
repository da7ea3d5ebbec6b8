"""The running server: limits, slow and broken clients, metrics, and draining."""

import concurrent.futures
import gzip
import json
import socket

import grpc
import httpx
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from modules.serving.batching_file import BatchingConfig
from modules.serving.manager import LoadingConfig, ModelRef
from modules.serving.model_config import ModelConfig
from modules.serving.server import ModelServer, ServerConfig
from modules.serving.status import ServingUsageError

LOADING = LoadingConfig(poll_seconds=0.05, max_retries=0)
HALF_HOUR_MICROS = 1_800_000_000
ROW = {"instances": [[1, 2]]}


@pytest.fixture
def base(tmp_path, publish):
    folder = tmp_path / "small"
    folder.mkdir()
    publish(folder, 1)
    return folder


@pytest.fixture
def serve(base):
    started = []

    def begin(**settings):
        config = ServerConfig(**{"rest_port": 0, "grpc_port": 0, "loading": LOADING, **settings})
        server = ModelServer([ModelConfig("small", str(base))], config)
        started.append(server)
        server.start()
        return server

    yield begin
    for server in started:
        server.stop()


def post(server, body=None, **kwargs):
    return httpx.post(f"{server.rest_url}/v1/models/small:predict", json=body or ROW, timeout=60, **kwargs)


class TestLimits:
    def test_a_large_request_is_refused_by_both_protocols(self, serve):
        server = serve(max_request_bytes=1000)
        refused = post(server, {"instances": [[1, 2]] * 1000})
        assert refused.status_code == 413
        assert "1000 bytes" in refused.json()["error"]
        assert post(server).status_code == 200
        request = predict_pb2.PredictRequest()
        request.inputs["x"].CopyFrom(tf.make_tensor_proto(np.ones((1000, 2), np.float32)))
        with grpc.insecure_channel(server.grpc_address) as channel, pytest.raises(grpc.RpcError) as caught:
            prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(request, timeout=60)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

    def test_a_compressed_body_counts_as_what_it_unpacks_to(self, serve):
        server = serve(max_request_bytes=10_000)
        url, headers = f"{server.rest_url}/v1/models/small:predict", {"Content-Encoding": "gzip"}
        bomb = gzip.compress(b'{"instances": [' + b" " * 10_000_000 + b"[1, 2]]}")
        assert httpx.post(url, content=bomb, headers=headers, timeout=60).status_code == 413
        small = gzip.compress(json.dumps(ROW).encode())
        assert httpx.post(url, content=small, headers=headers, timeout=60).status_code == 200

    def test_a_client_that_stops_in_mid_body(self, serve):
        server = serve(request_seconds=0.2)
        with socket.create_connection(("127.0.0.1", server.rest_port), timeout=60) as connection:
            connection.sendall(b"POST /v1/models/small:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{")
            assert b" 408 " in connection.recv(1000)
        with socket.create_connection(("127.0.0.1", server.rest_port), timeout=60) as connection:
            connection.sendall(b"POST /v1/models/small:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{")
        assert post(server).status_code == 200

    @pytest.mark.parametrize("noise", [b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"A" * 70_000 + b"\r\n\r\n"])
    def test_what_is_not_http(self, serve, noise):
        server = serve()
        with socket.create_connection(("127.0.0.1", server.rest_port), timeout=60) as connection:
            connection.sendall(noise)
            assert connection.recv(1000).startswith(b"HTTP/1.")
        assert post(server).status_code == 200

    def test_chunked_bodies_and_kept_connections(self, serve):
        server = serve()
        body = json.dumps(ROW).encode()
        with httpx.Client(timeout=60) as client:
            for _ in range(3):
                chunks = (body[i : i + 7] for i in range(0, len(body), 7))
                response = client.post(f"{server.rest_url}/v1/models/small:predict", content=chunks)
                assert response.json() == {"predictions": [[1.0, 2.0]]}

    def test_a_request_that_takes_too_long(self, serve):
        batching = BatchingConfig(max_batch_size=2, batch_timeout_micros=HALF_HOUR_MICROS)
        server = serve(request_seconds=0.2, loading=LoadingConfig(batching=batching))
        response = post(server)
        assert response.status_code == 504
        assert "no answer within" in response.json()["error"]

    def test_a_deadline_of_the_client(self, serve):
        batching = BatchingConfig(max_batch_size=2, batch_timeout_micros=HALF_HOUR_MICROS)
        server = serve(loading=LoadingConfig(batching=batching))
        with grpc.insecure_channel(server.grpc_address) as channel, pytest.raises(grpc.RpcError) as caught:
            prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(predict_request(), timeout=0.2)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED

    def test_a_taken_port(self, serve, base):
        server = serve()
        for taken in ({"rest_port": server.rest_port}, {"grpc_port": server.grpc_port}):
            config = ServerConfig(**{"rest_port": 0, "grpc_port": 0, "loading": LOADING, **taken})
            with pytest.raises(ServingUsageError, match="cannot listen on"):
                ModelServer([ModelConfig("small", str(base))], config).start()


def predict_request():
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "small"
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(np.array([[1, 2]], np.float32)))
    return request


class TestDraining:
    def test_requests_in_flight_are_answered_and_new_ones_refused(self, serve, eventually):
        batching = BatchingConfig(max_batch_size=3, batch_timeout_micros=HALF_HOUR_MICROS)
        server = serve(loading=LoadingConfig(batching=batching))
        with concurrent.futures.ThreadPoolExecutor(3) as pool, grpc.insecure_channel(server.grpc_address) as channel:
            predictions = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            over_rest = pool.submit(post, server)
            over_grpc = pool.submit(predictions.Predict, predict_request(), timeout=60)
            eventually(lambda: users(server) == 2)  # both wait in an unfilled batch
            stopping = pool.submit(server.stop)
            eventually(lambda: refuses(server.rest_port))
            with server.manager.use(ModelRef("small")) as version:  # a third row fills the batch
                version.run(version.model.signature(), {"x": np.ones((1, 2), np.float32)}, (), timeout=60)
            assert over_rest.result().json() == {"predictions": [[1.0, 2.0]]}
            assert tf.make_ndarray(over_grpc.result().outputs["y"]).tolist() == [[1.0, 2.0]]
            stopping.result()


def users(server):
    (version,) = server.manager.status(ModelRef("small"))
    return version._users


def refuses(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=60).close()
    except ConnectionError:
        return True
    return False


class TestMetrics:
    def test_requests_and_loads_are_counted(self, serve):
        server = serve()
        post(server)
        post(server, {"instances": []})
        httpx.post(f"{server.rest_url}/v1/models/invented:predict", json=ROW)
        page = httpx.get(server.metrics_url).text
        assert ':tensorflow:serving:request_count{model_name="small",status="OK"} 1.0' in page
        assert ':tensorflow:serving:request_count{model_name="small",status="INVALID_ARGUMENT"} 1.0' in page
        assert "invented" not in page, "names that clients invent must not become time series"
        assert (
            ':tensorflow:serving:request_latency_count{API="predict",entrypoint="REST",model_name="small"} 1.0' in page
        )
        assert "load_attempt_count" in page


class TestModelServiceReload:
    def test_a_new_version_then_its_label(self, serve, base, publish, eventually):
        server = serve()
        with grpc.insecure_channel(server.grpc_address) as channel:
            models = model_service_pb2_grpc.ModelServiceStub(channel)
            publish(base, 2, factor=2)
            reload(models, base, versions=[1, 2], labels={"stable": 1})
            status = get_model_status_pb2.GetModelStatusRequest()
            status.model_spec.name = "small"
            available = get_model_status_pb2.ModelVersionStatus.AVAILABLE
            eventually(lambda: [s.state for s in models.GetModelStatus(status).model_version_status] == [available] * 2)
            reload(models, base, versions=[1, 2], labels={"stable": 1, "canary": 2})
            url = f"{server.rest_url}/v1/models/small/labels"
            answers = [httpx.post(f"{url}/{label}:predict", json=ROW).json() for label in ("stable", "canary")]
            assert answers == [{"predictions": [[1.0, 2.0]]}, {"predictions": [[2.0, 4.0]]}]

    def test_a_folder_that_the_server_was_not_started_for(self, serve, tmp_path, publish):
        outside = tmp_path / "outside"
        outside.mkdir()
        publish(outside, 1)
        server = serve()
        with grpc.insecure_channel(server.grpc_address) as channel:
            models = model_service_pb2_grpc.ModelServiceStub(channel)
            with pytest.raises(grpc.RpcError) as caught:
                reload(models, outside, versions=[1], labels={})
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert post(server).status_code == 200


def reload(models, base, versions, labels):
    request = model_management_pb2.ReloadConfigRequest()
    entry = request.config.model_config_list.config.add(name="small", base_path=str(base), model_platform="tensorflow")
    entry.model_version_policy.specific.versions.extend(versions)
    entry.version_labels.update(labels)
    response = models.HandleReloadConfigRequest(request, timeout=60)
    assert response.status.error_code == 0
