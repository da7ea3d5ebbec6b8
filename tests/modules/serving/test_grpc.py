"""The gRPC API through the official client stubs. Also runs against TensorFlow Serving: make e2e-serving IMAGE=…"""

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)


@pytest.fixture(scope="module")
def predictions(channel):
    return prediction_service_pb2_grpc.PredictionServiceStub(channel)


@pytest.fixture(scope="module")
def models(channel):
    return model_service_pb2_grpc.ModelServiceStub(channel)


def predict_request(inputs, signature="", version=None, label="", name="small"):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = name
    request.model_spec.signature_name = signature
    if version is not None:
        request.model_spec.version.value = version
    if label:
        request.model_spec.version_label = label
    for alias, value in inputs.items():
        request.inputs[alias].CopyFrom(tf.make_tensor_proto(value))
    return request


def x(*rows):
    return {"x": np.array(rows, np.float32)}


def example(value):
    made = tf.train.Example()
    made.features.feature["x"].float_list.value.append(value)
    return made


def code_of(call, *args, **kwargs):
    with pytest.raises(grpc.RpcError) as caught:
        call(*args, **kwargs)
    assert caught.value.details()
    return caught.value.code()


class TestPredict:
    def test_highest_version_answers(self, predictions):
        response = predictions.Predict(predict_request(x([1, 2], [3, 4])))
        np.testing.assert_array_equal(tf.make_ndarray(response.outputs["y"]), [[2, 4], [6, 8]])
        assert response.model_spec.version.value == 2
        assert response.model_spec.signature_name == "serving_default"

    def test_version_and_label(self, predictions):
        for request in (predict_request(x([1, 2]), version=1), predict_request(x([1, 2]), label="old")):
            response = predictions.Predict(request)
            np.testing.assert_array_equal(tf.make_ndarray(response.outputs["y"]), [[1, 2]])
            assert response.model_spec.version.value == 1

    def test_strings(self, predictions):
        inputs = {"a": np.array([1], np.int64), "b": np.array([b"\xff\x00"], object)}
        outputs = predictions.Predict(predict_request(inputs, "two")).outputs
        assert tf.make_ndarray(outputs["raw_bytes"]).tolist() == [b"\xff\x00"]

    def test_output_filter(self, predictions):
        request = predict_request({"a": np.array([1], np.int64), "b": np.array([b"t"], object)}, "two")
        request.output_filter.append("a_plus")
        assert list(predictions.Predict(request).outputs) == ["a_plus"]
        request.output_filter.append("absent")
        assert code_of(predictions.Predict, request) is grpc.StatusCode.INVALID_ARGUMENT

    def test_errors_have_the_codes_of_tensorflow_serving(self, predictions):
        codes = grpc.StatusCode
        assert code_of(predictions.Predict, predict_request(x([1, 2]), name="absent")) is codes.NOT_FOUND
        assert code_of(predictions.Predict, predict_request(x([1, 2]), version=9)) is codes.NOT_FOUND
        assert code_of(predictions.Predict, predict_request(x([1, 2]), label="absent")) is codes.INVALID_ARGUMENT
        assert code_of(predictions.Predict, predict_request(x([1, 2]), "absent")) is codes.FAILED_PRECONDITION
        assert code_of(predictions.Predict, predict_request({})) is codes.INVALID_ARGUMENT
        assert code_of(predictions.Predict, predict_request({"z": [1.0]})) is codes.INVALID_ARGUMENT
        assert code_of(predictions.Predict, predict_request({"x": [[1, 2]]})) is codes.INVALID_ARGUMENT
        assert code_of(predictions.Predict, predict_request(x([1, 2, 3]))) is codes.INVALID_ARGUMENT
        assert code_of(predictions.Predict, predict_pb2.PredictRequest()) is codes.INVALID_ARGUMENT

    def test_a_tensor_that_claims_more_than_it_holds(self, predictions):
        request = predict_request(x([1, 2]))
        request.inputs["x"].tensor_shape.dim[0].size = 1000
        assert code_of(predictions.Predict, request) is grpc.StatusCode.INVALID_ARGUMENT


class TestExamples:
    def test_classify(self, predictions):
        request = classification_pb2.ClassificationRequest()
        request.model_spec.name, request.model_spec.signature_name = "small", "classify"
        request.input.example_list.examples.append(example(0.25))
        (row,) = predictions.Classify(request).result.classifications
        assert [(item.label, item.score) for item in row.classes] == [("low", 0.75), ("high", 0.25)]

    def test_regress_with_context(self, predictions):
        request = regression_pb2.RegressionRequest()
        request.model_spec.name, request.model_spec.signature_name = "small", "regress"
        shared = request.input.example_list_with_context
        shared.context.CopyFrom(example(0.5))
        shared.examples.append(tf.train.Example())
        shared.examples.append(example(1.5))
        result = predictions.Regress(request).result
        assert [item.value for item in result.regressions] == [1.0, 3.0]

    def test_no_examples(self, predictions):
        request = regression_pb2.RegressionRequest()
        request.model_spec.name, request.model_spec.signature_name = "small", "regress"
        assert code_of(predictions.Regress, request) is grpc.StatusCode.INVALID_ARGUMENT

    def test_several_tasks_on_the_same_examples(self, predictions):
        request = inference_pb2.MultiInferenceRequest()
        for kind in ("classify", "regress"):
            task = request.tasks.add(method_name=f"tensorflow/serving/{kind}")
            task.model_spec.name, task.model_spec.signature_name = "small", kind
        request.input.example_list.examples.append(example(0.5))
        classified, regressed = predictions.MultiInference(request).results
        assert len(classified.classification_result.classifications) == 1
        assert [item.value for item in regressed.regression_result.regressions] == [1.0]


class TestModelService:
    def test_status(self, models):
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = "small"
        states = models.GetModelStatus(request).model_version_status
        available = get_model_status_pb2.ModelVersionStatus.AVAILABLE
        assert [(state.version, state.state) for state in states] == [(2, available), (1, available)]
        request.model_spec.name = "absent"
        assert code_of(models.GetModelStatus, request) is grpc.StatusCode.NOT_FOUND
        empty = get_model_status_pb2.GetModelStatusRequest()
        assert code_of(models.GetModelStatus, empty) is grpc.StatusCode.INVALID_ARGUMENT

    def test_metadata(self, predictions):
        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        request.model_spec.name = "small"
        response = predictions.GetModelMetadata(request)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        assert response.metadata["signature_def"].Unpack(signatures)
        assert "serving_default" in signatures.signature_def
        request.metadata_field[:] = ["weights"]
        assert code_of(predictions.GetModelMetadata, request) is grpc.StatusCode.INVALID_ARGUMENT

    def test_reload_refuses_what_cannot_be(self, models):
        request = model_management_pb2.ReloadConfigRequest()
        assert code_of(models.HandleReloadConfigRequest, request) is grpc.StatusCode.INVALID_ARGUMENT
        entry = request.config.model_config_list.config.add(name="small", base_path="relative")
        entry.model_platform = "tensorflow"
        assert code_of(models.HandleReloadConfigRequest, request) is grpc.StatusCode.INVALID_ARGUMENT
