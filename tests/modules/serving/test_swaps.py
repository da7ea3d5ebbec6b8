"""Zero failed requests while versions change under load."""

import concurrent.futures
import os
import threading

import grpc
import httpx
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from modules.serving.batching_file import BatchingConfig
from modules.serving.manager import LoadingConfig, ModelRef
from modules.serving.model_config import ModelConfig
from modules.serving.server import ModelServer, ServerConfig
from modules.serving.versions import State

SWAPS = 20


@pytest.mark.parametrize("batching", [None, BatchingConfig(max_batch_size=8, num_batch_threads=2)], ids=["", "batched"])
def test_no_request_fails_across_swaps(tmp_path, publish, eventually, batching):
    base = tmp_path / "small"
    base.mkdir()
    publish(base, 1)
    loading = LoadingConfig(poll_seconds=0.05, batching=batching)
    stopped = threading.Event()
    with ModelServer(
        [ModelConfig("small", str(base))], ServerConfig(rest_port=0, grpc_port=0, loading=loading)
    ) as server:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            clients = [pool.submit(ask_rest, server.rest_url, stopped) for _ in range(4)]
            clients += [pool.submit(ask_grpc, server.grpc_address, stopped) for _ in range(4)]
            try:
                for version in range(2, SWAPS + 2):
                    publish(base, version, factor=1 + version % 2)
                    eventually(lambda version=version: is_alone(server, version))
                    os.rename(base / str(version - 1), base / f".retired-{version - 1}")
            finally:
                stopped.set()
        seen = [client.result() for client in clients]  # raises what a client ran into
    assert all(len(answers) >= 2 for answers in seen), "every client saw old and new versions"
    assert set().union(*seen) == {1.0, 2.0}


def is_alone(server, number):
    return {v.number for v in server.manager.status(ModelRef("small")) if v.state is not State.END} == {number}


def ask_rest(url, stopped):
    """Ask until stopped; every answer must be whole and right for some version."""
    answers = set()
    with httpx.Client(timeout=60) as client:
        while not stopped.is_set():
            response = client.post(f"{url}/v1/models/small:predict", json={"instances": [[1, 2]]})
            assert response.status_code == 200, response.text
            ((first, second),) = response.json()["predictions"]
            assert second == 2 * first
            answers.add(first)
    return answers


def ask_grpc(address, stopped):
    answers = set()
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "small"
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(np.array([[1, 2]], np.float32)))
    with grpc.insecure_channel(address) as channel:
        predictions = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        while not stopped.is_set():
            response = predictions.Predict(request, timeout=60)
            factor = 1.0 + response.model_spec.version.value % 2
            if response.model_spec.version.value == 1:
                factor = 1.0
            value = tf.make_ndarray(response.outputs["y"])
            assert value.tolist() == [[factor, 2 * factor]], "the answer belongs to the version that it names"
            answers.add(factor)
    return answers
