"""TensorFlow Serving's gRPC API: PredictionService and ModelService."""

import functools
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import grpc
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from modules.serving import model_api, model_config
from modules.serving.manager import ModelManager, ModelRef
from modules.serving.messages import status_response
from modules.serving.metrics import ServingMetrics
from modules.serving.proto_tensors import array_from_proto, examples_from_input, outputs_to_protos
from modules.serving.saved_model import DEFAULT_SIGNATURE
from modules.serving.status import Code, ServingError, invalid
from modules.serving.versions import ModelVersion

_LOG = logging.getLogger(__name__)
_STATUS = {code.value[0]: code for code in grpc.StatusCode}
_Response = TypeVar("_Response")


class _Service:
    """What both services share: errors as status codes, metrics, deadlines."""

    def __init__(self, manager: ModelManager, metrics: ServingMetrics, timeout: float):
        self._manager = manager
        self._metrics = metrics
        self._timeout = timeout

    def _answer(self, api: str, spec: Any, context: grpc.ServicerContext, work: Callable[[], _Response]) -> _Response:
        started = time.monotonic()
        failure: ServingError | None = None
        try:
            return work()
        except ServingError as error:
            failure = error
        except Exception as error:  # the one place where a fault of this server becomes an answer
            _LOG.exception("%s failed", api)
            failure = ServingError(Code.INTERNAL, f"internal error: {type(error).__name__}: {error}")
        finally:
            name = spec.name if spec.name in self._manager.models() else ""
            status = failure.code.name if failure else "OK"
            self._metrics.request(name, api, "GRPC", time.monotonic() - started, status)
        context.abort(_STATUS[failure.code.number], failure.message)
        raise AssertionError("abort raises")

    @contextmanager
    def _used(self, spec: model_pb2.ModelSpec) -> Iterator[ModelVersion]:
        with self._manager.use(_ref(spec)) as version:
            yield version

    def _runner(self, version: ModelVersion, context: grpc.ServicerContext) -> model_api.Runner:
        remaining = context.time_remaining()
        timeout = self._timeout if remaining is None else min(self._timeout, remaining)
        return functools.partial(version.run, timeout=timeout)


def _ref(spec: model_pb2.ModelSpec) -> ModelRef:
    version = spec.version.value if spec.HasField("version") else None
    return ModelRef(spec.name, version, spec.version_label)


def _fill_spec(target: model_pb2.ModelSpec, version: ModelVersion, signature_name: str) -> None:
    target.name = version.name
    target.version.value = version.number
    target.signature_name = signature_name


class PredictionService(_Service, prediction_service_pb2_grpc.PredictionServiceServicer):
    """Predict, Classify, Regress, MultiInference and GetModelMetadata."""

    def Predict(self, request: predict_pb2.PredictRequest, context: grpc.ServicerContext) -> Any:
        """Tensors in, tensors out."""
        return self._answer("predict", request.model_spec, context, lambda: self._predict(request, context))

    def Classify(self, request: classification_pb2.ClassificationRequest, context: grpc.ServicerContext) -> Any:
        """tf.Examples in, labels and scores out."""
        return self._answer("classify", request.model_spec, context, lambda: self._classify(request, context))

    def Regress(self, request: regression_pb2.RegressionRequest, context: grpc.ServicerContext) -> Any:
        """tf.Examples in, values out."""
        return self._answer("regress", request.model_spec, context, lambda: self._regress(request, context))

    def MultiInference(self, request: inference_pb2.MultiInferenceRequest, context: grpc.ServicerContext) -> Any:
        """Several classify and regress tasks on the same tf.Examples."""
        spec = request.tasks[0].model_spec if request.tasks else model_pb2.ModelSpec()
        return self._answer("multi_inference", spec, context, lambda: self._multi_inference(request, context))

    def GetModelMetadata(
        self, request: get_model_metadata_pb2.GetModelMetadataRequest, context: grpc.ServicerContext
    ) -> Any:
        """The signatures of a model."""
        return self._answer("metadata", request.model_spec, context, lambda: self._metadata(request))

    def _predict(self, request: predict_pb2.PredictRequest, context: grpc.ServicerContext) -> Any:
        spec = request.model_spec
        with self._used(spec) as version:
            name = spec.signature_name or DEFAULT_SIGNATURE
            if name not in version.model.signatures:
                raise ServingError(Code.FAILED_PRECONDITION, f'Serving signature key "{name}" not found.')
            inputs = {alias: array_from_proto(proto) for alias, proto in request.inputs.items()}
            signature = version.model.signature(name)
            outputs = model_api.predict(self._runner(version, context), signature, inputs, tuple(request.output_filter))
            response = predict_pb2.PredictResponse()
            _fill_spec(response.model_spec, version, name)
            outputs_to_protos(outputs, response.outputs)
            return response

    def _classify(self, request: classification_pb2.ClassificationRequest, context: grpc.ServicerContext) -> Any:
        spec = request.model_spec
        with self._used(spec) as version:
            response = classification_pb2.ClassificationResponse()
            _fill_spec(response.model_spec, version, spec.signature_name)
            examples = examples_from_input(request.input)
            run = self._runner(version, context)
            _fill_classes(response.result, model_api.classify(run, version.model, spec.signature_name, examples))
            return response

    def _regress(self, request: regression_pb2.RegressionRequest, context: grpc.ServicerContext) -> Any:
        spec = request.model_spec
        with self._used(spec) as version:
            response = regression_pb2.RegressionResponse()
            _fill_spec(response.model_spec, version, spec.signature_name)
            examples = examples_from_input(request.input)
            run = self._runner(version, context)
            for value in model_api.regress(run, version.model, spec.signature_name, examples):
                response.result.regressions.add(value=value)
            return response

    def _multi_inference(self, request: inference_pb2.MultiInferenceRequest, context: grpc.ServicerContext) -> Any:
        if not request.tasks:
            raise invalid("Inference request expected to contain at least one task")
        if len({task.model_spec.name for task in request.tasks}) > 1:
            raise invalid("All ModelSpecs in a MultiInferenceRequest must access the same model name")
        examples = examples_from_input(request.input)
        response = inference_pb2.MultiInferenceResponse()
        with self._used(request.tasks[0].model_spec) as version:
            run = self._runner(version, context)
            for task in request.tasks:
                result = response.results.add()
                name = task.model_spec.signature_name
                _fill_spec(result.model_spec, version, name)
                if task.method_name == "tensorflow/serving/classify":
                    rows = model_api.classify(run, version.model, name, examples)
                    _fill_classes(result.classification_result, rows)
                elif task.method_name == "tensorflow/serving/regress":
                    for value in model_api.regress(run, version.model, name, examples):
                        result.regression_result.regressions.add(value=value)
                else:
                    raise ServingError(Code.UNIMPLEMENTED, f"Unsupported signature method_name: {task.method_name}")
        return response

    def _metadata(self, request: get_model_metadata_pb2.GetModelMetadataRequest) -> Any:
        if not request.HasField("model_spec"):
            raise invalid("Missing ModelSpec")
        if not request.metadata_field:
            raise invalid("GetModelMetadataRequest must specify at least one metadata_field")
        for field in request.metadata_field:
            if field != "signature_def":
                raise invalid(f"Metadata field {field} is not supported")
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        with self._used(request.model_spec) as version:
            signatures = get_model_metadata_pb2.SignatureDefMap(signature_def=version.model.meta_graph.signature_def)
            _fill_spec(response.model_spec, version, "")
            response.metadata["signature_def"].Pack(signatures)
        return response


def _fill_classes(target: classification_pb2.ClassificationResult, rows: list[list[tuple[str, float]]]) -> None:
    for row in rows:
        classes = target.classifications.add()
        for label, score in row:
            classes.classes.add(label=label, score=score)


class ModelService(_Service, model_service_pb2_grpc.ModelServiceServicer):
    """GetModelStatus and HandleReloadConfigRequest."""

    def GetModelStatus(self, request: get_model_status_pb2.GetModelStatusRequest, context: grpc.ServicerContext) -> Any:
        """The states of a model's versions."""
        return self._answer("status", request.model_spec, context, lambda: self._status(request))

    def HandleReloadConfigRequest(
        self, request: model_management_pb2.ReloadConfigRequest, context: grpc.ServicerContext
    ) -> Any:
        """Replace the whole list of models, with their policies and labels."""
        return self._answer("reload", model_pb2.ModelSpec(), context, lambda: self._reload(request))

    def _status(self, request: get_model_status_pb2.GetModelStatusRequest) -> Any:
        if not request.HasField("model_spec"):
            raise invalid("Missing ModelSpec")
        return status_response(self._manager.status(_ref(request.model_spec)))

    def _reload(self, request: model_management_pb2.ReloadConfigRequest) -> Any:
        self._manager.reload(model_config.from_proto(request.config))
        return model_management_pb2.ReloadConfigResponse()
