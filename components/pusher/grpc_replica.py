"""One running model server, asked through TensorFlow Serving's gRPC API.

`tensorflow_serving.apis.model_service_pb2` cannot be imported under protobuf 4 and later: its generated code sets
attributes of descriptors that have become read-only. Nothing needs it: the stubs of `model_service_pb2_grpc` take their
messages from `get_model_status_pb2` and `model_management_pb2`, which import.
"""

from typing import Any

import grpc
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
    model_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from components.pusher.golden import Golden
from components.pusher.replica import MAX_MESSAGE_BYTES, ReplicaError, VersionStatus

_STATE = get_model_status_pb2.ModelVersionStatus.State


class GrpcReplica:
    """A server by its gRPC API."""

    def __init__(self, address: str, timeout_s: float) -> None:
        self.address = address
        self._timeout_s = timeout_s
        options = [
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            # A server that restarts is asked again within a second, not within gRPC's two minutes.
            ("grpc.max_reconnect_backoff_ms", 1000),
        ]
        self._channel = grpc.insecure_channel(address, options=options)
        self._models = model_service_pb2_grpc.ModelServiceStub(self._channel)
        self._predictions = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)

    def status(self, name: str) -> dict[int, VersionStatus]:
        request = get_model_status_pb2.GetModelStatusRequest(model_spec=model_pb2.ModelSpec(name=name))
        try:
            answer = self._call(self._models.GetModelStatus, request)
        except ReplicaError as error:
            if error.code == "NOT_FOUND":
                return {}
            raise
        return {
            entry.version: VersionStatus(
                _STATE.Name(entry.state),
                f"{entry.status.error_code}: {entry.status.error_message}" if entry.status.error_code else "",
            )
            for entry in answer.model_version_status
        }

    def predict(self, name: str, golden: Golden, *, version: int | None = None, label: str = "") -> dict[str, Any]:
        request = predict_pb2.PredictRequest(model_spec=_spec(name, version, label, golden.signature))
        request.inputs[golden.input_key].CopyFrom(
            tf.make_tensor_proto(golden.examples, dtype=tf.string, shape=[len(golden.examples)])
        )
        answer = self._call(self._predictions.Predict, request)
        if version is not None and answer.model_spec.version.value != version:
            raise ReplicaError(
                f"{self.address}: asked version {version}, version {answer.model_spec.version.value} answered"
            )
        return {key: tf.make_ndarray(tensor) for key, tensor in answer.outputs.items()}

    def check_metadata(self, name: str, *, version: int | None = None, label: str = "") -> None:
        spec = _spec(name, version, label, "")
        request = get_model_metadata_pb2.GetModelMetadataRequest(model_spec=spec, metadata_field=["signature_def"])
        self._call(self._predictions.GetModelMetadata, request)

    def reload(self, config: Any, timeout_s: float) -> None:
        request = model_management_pb2.ReloadConfigRequest(config=config)
        answer = self._call(self._models.HandleReloadConfigRequest, request, timeout_s)
        if answer.status.error_code:
            raise ReplicaError(f"{self.address}: reload refused: {answer.status.error_message}", "FAILED_PRECONDITION")

    def _call(self, method: Any, request: Any, timeout_s: float | None = None) -> Any:
        try:
            return method(request, timeout=timeout_s or self._timeout_s)
        except grpc.RpcError as error:
            raise ReplicaError(f"{self.address}: {error.code().name}: {error.details()}", error.code().name) from None


def _spec(name: str, version: int | None, label: str, signature: str) -> model_pb2.ModelSpec:
    spec = model_pb2.ModelSpec(name=name, signature_name=signature)
    if version is not None:
        spec.version.value = version
    elif label:
        spec.version_label = label
    return spec
