"""Requests that nobody would write: each gets an answer, with a reason, and the server lives on.

The requests are the same in every run, so that a failure is never a matter of luck. To hunt for new ones, raise
`max_examples` and drop `derandomize`.
"""

import json

import grpc
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from modules.serving import json_tensors
from modules.serving.manager import LoadingConfig, ModelManager
from modules.serving.metrics import ServingMetrics
from modules.serving.model_config import ModelConfig, VersionPolicy
from modules.serving.rest_api import RestApi
from modules.serving.saved_model import TensorSpec
from modules.serving.status import ServingError

SIGNATURES = ("serving_default", "two", "total", "types", "classify", "regress", "raw_examples", "absent", "")
FUZZ = settings(
    max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

numbers = st.one_of(st.integers(), st.floats(), st.sampled_from([2**63, -(2**63), 2**64, 10**400, 1e308, -0.0, 1e-320]))
scalars = st.one_of(
    st.none(), st.booleans(), numbers, st.text(max_size=5), st.builds(lambda t: {"b64": t}, st.text(max_size=8))
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
)
rows = st.lists(
    st.one_of(values, st.fixed_dictionaries({"x": values}), st.fixed_dictionaries({"a": values, "b": values})),
    max_size=4,
)
documents = st.fixed_dictionaries(
    {},
    optional={
        "signature_name": st.one_of(st.sampled_from(SIGNATURES), values),
        "instances": st.one_of(rows, values),
        "inputs": st.one_of(
            rows, values, st.fixed_dictionaries({"x": values}), st.fixed_dictionaries({"a": values, "b": values})
        ),
        "examples": st.one_of(
            st.lists(st.dictionaries(st.sampled_from(["x", "count", "tags", "\ud800"]), values), max_size=3), values
        ),
        "context": values,
    },
)
paths = st.one_of(
    st.sampled_from(
        [
            f"/v1/models/small{where}:{api}"
            for where in ("", "/versions/1", "/labels/old")
            for api in ("predict", "classify", "regress")
        ]
    ),
    st.from_regex(
        r"/v1/models/[^\n]{0,20}(/versions/[0-9]{1,25}|/labels/.{0,5})?(/metadata|:predict)?", fullmatch=True
    ),
    st.text(max_size=20).map(lambda text: f"/{text}"),
)


@pytest.fixture(scope="module")
def manager(model_folder):
    model = ModelConfig("small", str(model_folder / "small"), VersionPolicy("all"), {"old": 1})
    manager = ModelManager([model], [str(model_folder)], LoadingConfig(max_retries=0))
    manager.start()
    yield manager
    manager.stop()


@pytest.fixture(scope="module")
def api(manager):
    return RestApi(manager, ServingMetrics(), timeout=30)


def check(reply):
    """Success, or the client's own fault with a reason; never a fault of the server."""
    document = json.loads(reply.body)
    assert reply.status in (200, 400, 404, 501), document
    assert reply.status == 200 or document["error"]


@FUZZ
@given(document=documents, path=paths)
def test_json_documents(api, document, path):
    check(api.answer("POST", path, json.dumps(document).encode()))


@FUZZ
@given(
    body=st.one_of(st.binary(max_size=60), st.text(max_size=60).map(lambda t: t.encode("utf-8", "surrogatepass"))),
    path=paths,
)
def test_bodies_that_are_no_json(api, body, path):
    check(api.answer("POST", path, body))


@FUZZ
@given(method=st.sampled_from(["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "get", ""]), path=paths)
def test_methods_and_paths(api, method, path):
    check(api.answer(method, path, b""))


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"instances":' + b"[" * 900 + b"1" + b"]" * 900 + b"}",
        b'{"instances": [' + b"9" * 5000 + b"]}",
        b'{"a":' * 100_000,
    ],
    ids=["deep", "deep and whole", "long number", "deep objects"],
)
def test_hostile_documents(api, body):
    reply = api.answer("POST", "/v1/models/small:predict", body)
    assert reply.status == 400
    check(reply)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    values=st.lists(st.floats(width=32), max_size=20),
    strings=st.lists(st.binary(max_size=8), max_size=5),
    integers=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5),
)
def test_answers_read_back_as_the_same_values(values, strings, integers):
    raw = np.empty(len(strings), object)
    raw[:] = strings
    outputs = {"f": np.array(values, np.float32), "s_bytes": raw, "i": np.array(integers, np.int64)}
    document = json.loads(json.dumps(json_tensors.predict_response(outputs, rows=False)))["outputs"]
    for alias, dtype in (("f", tf.float32), ("s_bytes", tf.string), ("i", tf.int64)):
        read = json_tensors.to_array(document[alias], TensorSpec(alias, dtype, (-1,)), alias)
        np.testing.assert_array_equal(read.reshape(outputs[alias].shape), outputs[alias])


@settings(max_examples=300, deadline=None, derandomize=True)
@given(value=values, dtype=st.sampled_from([tf.float32, tf.int32, tf.uint8, tf.string, tf.bool, tf.float16]))
def test_a_value_becomes_an_array_or_an_error(value, dtype):
    try:
        array = json_tensors.to_array(value, TensorSpec("x", dtype, None), "x")
    except ServingError as error:
        reason = error.message
    else:
        reason = "converted"
        assert array.dtype == (object if dtype == tf.string else dtype.as_numpy_dtype)
    assert reason


tensor_protos = st.builds(
    lambda dtype, dims, content, floats, ints, strings: (
        predict_pb2.PredictRequest()
        .inputs["x"]
        .__class__(
            dtype=dtype,
            tensor_shape={"dim": [{"size": size} for size in dims]},
            tensor_content=content,
            float_val=floats,
            int_val=ints,
            string_val=strings,
        )
    ),
    dtype=st.integers(0, 130),
    dims=st.lists(st.one_of(st.integers(0, 3), st.integers(-(2**63), 2**63 - 1)), max_size=4),
    content=st.binary(max_size=16),
    floats=st.lists(st.floats(width=32), max_size=4),
    ints=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4),
    strings=st.lists(st.binary(max_size=4), max_size=3),
)
OWN_FAULT = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.UNIMPLEMENTED,
)


@FUZZ
@given(
    tensors=st.dictionaries(st.sampled_from(["x", "a", "b", "inputs", "examples"]), tensor_protos, max_size=2),
    signature=st.sampled_from(SIGNATURES),
    version=st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.sampled_from([1, 2])),
)
def test_tensors_over_grpc(channel, tensors, signature, version):
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = "small", signature
    if version is not None:
        request.model_spec.version.value = version
    for alias, proto in tensors.items():
        request.inputs[alias].CopyFrom(proto)
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    call = stub.Predict.future(request, timeout=60)  # waits in code(), and does not raise there
    assert call.code() is grpc.StatusCode.OK or (call.code() in OWN_FAULT and call.details())
