"""Logged requests: what is in them, and that serving never waits for them."""

import httpx
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from components.data_gate.serving_log import serving_batches
from modules.serving.manager import LoadingConfig
from modules.serving.model_config import ModelConfig
from modules.serving.request_log import RequestLog
from modules.serving.server import ModelServer, ServerConfig


def read(folder):
    return [
        prediction_log_pb2.PredictionLog.FromString(record).predict_log
        for path in sorted(folder.rglob("*.tfrecord"))
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    ]


def test_requests_of_a_server_reach_the_data_gate(tmp_path, publish):
    base, logs = tmp_path / "small", tmp_path / "logs"
    base.mkdir()
    publish(base, 3, factor=2)
    log = RequestLog(str(logs))
    config = ServerConfig(rest_port=0, grpc_port=0, loading=LoadingConfig(log=log))
    with ModelServer([ModelConfig("small", str(base))], config) as server:
        url = f"{server.rest_url}/v1/models/small"
        httpx.post(f"{url}:predict", json={"instances": [[1, 2]]}, timeout=60)
        httpx.post(f"{url}:predict", json={"instances": [[1, 2, 3]]}, timeout=60)  # refused, so not logged
        httpx.post(f"{url}:regress", json={"signature_name": "regress", "examples": [{"x": 0.5}]}, timeout=60)
    log.close()
    first, second = read(logs / "small")
    assert (first.request.model_spec.name, first.request.model_spec.version.value) == ("small", 3)
    assert tf.make_ndarray(first.request.inputs["x"]).tolist() == [[1.0, 2.0]]
    assert tf.make_ndarray(first.response.outputs["y"]).tolist() == [[2.0, 4.0]]
    assert second.request.model_spec.signature_name == "regress"
    (batch,) = serving_batches(str(logs))
    assert batch.to_pydict() == {"x": [[0.5]]}


def test_files_are_rolled_and_shares_are_kept(tmp_path):
    log = RequestLog(str(tmp_path / "all"), file_bytes=1)
    none = RequestLog(str(tmp_path / "none"), share=0.0)
    for one in (log, none):
        for number in range(3):
            one.add("m", 1, "s", {"x": np.array([number])}, {"y": np.array([number])})
        one.close()
    assert len(list((tmp_path / "all" / "m").iterdir())) == 3
    assert [tf.make_ndarray(entry.request.inputs["x"]).tolist() for entry in read(tmp_path / "all")] == [[0], [1], [2]]
    assert list((tmp_path / "none").iterdir()) == []


def test_a_log_that_cannot_be_written_is_counted_and_hurts_nobody(tmp_path):
    log = RequestLog(str(tmp_path / "logs"))
    (tmp_path / "logs" / "m").write_text("a file where the folder should be")
    log.add("m", 1, "s", {"x": np.array([1])}, {"y": np.array([1])})
    log.close()
    assert log.dropped == 1
