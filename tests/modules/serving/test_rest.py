"""The REST API over HTTP. These tests also run against TensorFlow Serving: make e2e-serving IMAGE=…"""

import base64
import json
import math

import httpx
import pytest


def predict(http: httpx.Client, body: object, path: str = "/v1/models/small:predict") -> httpx.Response:
    return http.post(path, content=json.dumps(body))


class TestPredict:
    def test_row_format(self, http):
        response = predict(http, {"instances": [[1, 2], [3.5, -4]]})
        assert response.status_code == 200
        assert response.json() == {"predictions": [[2.0, 4.0], [7.0, -8.0]]}

    def test_rows_as_objects(self, http):
        response = predict(http, {"instances": [{"x": [1, 2]}]})
        assert response.json() == {"predictions": [[2.0, 4.0]]}

    def test_column_format(self, http):
        assert predict(http, {"inputs": [[1, 2]]}).json() == {"outputs": [[2.0, 4.0]]}
        assert predict(http, {"inputs": {"x": [[1, 2]]}}).json() == {"outputs": [[2.0, 4.0]]}

    def test_version_and_label(self, http):
        body = {"instances": [[1, 2]]}
        assert predict(http, body, "/v1/models/small/versions/1:predict").json() == {"predictions": [[1.0, 2.0]]}
        assert predict(http, body, "/v1/models/small/labels/old:predict").json() == {"predictions": [[1.0, 2.0]]}

    def test_several_inputs_and_outputs(self, http):
        rows = [{"a": 1, "b": "one"}, {"a": 2, "b": {"b64": base64.b64encode(b"two").decode()}}]
        response = predict(http, {"signature_name": "two", "instances": rows})
        encoded = [{"b64": base64.b64encode(text).decode()} for text in (b"one", b"two")]
        assert response.json() == {
            "predictions": [
                {"a_plus": 3, "text": "one", "raw_bytes": encoded[0]},
                {"a_plus": 4, "text": "two", "raw_bytes": encoded[1]},
            ]
        }
        columns = predict(http, {"signature_name": "two", "inputs": {"a": [1, 2], "b": ["one", "two"]}})
        assert columns.json() == {"outputs": {"a_plus": [3, 4], "text": ["one", "two"], "raw_bytes": encoded}}

    def test_floats_keep_their_own_digits(self, http):
        response = predict(http, {"instances": [[0.1, 1e-7]]}, "/v1/models/small/versions/1:predict")
        assert response.json() == {"predictions": [[0.1, 1e-7]]}

    def test_nan_and_infinity_both_ways(self, http):
        content = '{"instances": [[NaN, Infinity], [-Infinity, 1]]}'
        response = http.post("/v1/models/small:predict", content=content)
        (first, second) = json.loads(response.text)["predictions"]
        assert math.isnan(first[0])
        assert first[1] == math.inf
        assert second == [-math.inf, 2.0]
        assert "NaN" in response.text

    def test_every_type_that_json_carries(self, http):
        row = {
            "float64": 1e300,
            "int8": -128,
            "uint8": 255,
            "int16": -32768,
            "int32": -(2**31),
            "uint32": 2**32 - 1,
            "uint64": 2**64 - 1,
            "bool": True,
        }
        response = predict(http, {"signature_name": "types", "instances": [row]})
        assert response.json() == {"predictions": [row]}

    def test_scalar_output_needs_columns(self, http):
        body = {"signature_name": "total", "inputs": [1, 2, 3]}
        assert predict(http, body).json() == {"outputs": 6.0}
        rows = predict(http, {"signature_name": "total", "instances": [1, 2, 3]})
        assert rows.status_code == 400

    def test_serialized_examples(self, http):
        import tensorflow as tf

        example = tf.train.Example()
        example.features.feature["x"].float_list.value.append(0.5)
        value = {"b64": base64.b64encode(example.SerializeToString()).decode()}
        response = predict(http, {"signature_name": "raw_examples", "instances": [value]})
        assert response.json() == {"predictions": [1.0]}
        response = predict(http, {"signature_name": "raw_examples", "instances": [{"examples": value}]})
        assert response.json() == {"predictions": [1.0]}


class TestClassifyAndRegress:
    def test_classify(self, http):
        body = {"signature_name": "classify", "examples": [{"x": 0.25}, {"x": [0.75]}]}
        response = http.post("/v1/models/small:classify", json=body)
        assert response.json() == {"results": [[["low", 0.75], ["high", 0.25]], [["low", 0.25], ["high", 0.75]]]}

    def test_context_goes_into_each_example(self, http):
        body = {"signature_name": "regress", "context": {"x": 0.5}, "examples": [{"count": 1}, {"x": 1.5}]}
        assert http.post("/v1/models/small:regress", json=body).json() == {"results": [1.0, 3.0]}

    def test_wrong_signature(self, http):
        response = http.post("/v1/models/small:classify", json={"examples": [{"x": 1.0}]})
        assert response.status_code == 400
        assert "inputs" in response.json()["error"]

    @pytest.mark.parametrize(
        "examples",
        [[], [1], [{"x": [1, 2.5]}], [{"x": None}], [{"x": [[1.0]]}], [{"x": 2**63}]],
        ids=["none", "no object", "mixed types", "null", "nested", "too large"],
    )
    def test_bad_examples(self, http, examples):
        response = http.post("/v1/models/small:regress", json={"signature_name": "regress", "examples": examples})
        assert response.status_code == 400
        assert response.json()["error"]


class TestModels:
    def test_status(self, http):
        response = http.get("/v1/models/small")
        assert response.json() == {
            "model_version_status": [
                {"version": str(version), "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
                for version in (2, 1)
            ]
        }
        one = http.get("/v1/models/small/versions/1").json()["model_version_status"]
        assert [status["version"] for status in one] == ["1"]

    def test_metadata(self, http):
        document = http.get("/v1/models/small/metadata").json()
        assert document["model_spec"]["name"] == "small"
        assert document["model_spec"]["version"] == "2"
        signature = document["metadata"]["signature_def"]["signature_def"]["serving_default"]
        assert signature["inputs"]["x"]["dtype"] == "DT_FLOAT"
        assert [dim["size"] for dim in signature["inputs"]["x"]["tensor_shape"]["dim"]] == ["-1", "2"]
        assert signature["method_name"] == "tensorflow/serving/predict"

    @pytest.mark.parametrize(
        ("path", "status"),
        [
            ("/v1/models/absent", 404),
            ("/v1/models/small/versions/9", 404),
            ("/v1/models/small/versions/99999999999999999999", 400),
            ("/v1/models/small/nonsense", 400),
            ("/v1/models", 400),
            ("/v1/models/..%2F..%2Fetc", 404),
        ],
    )
    def test_what_is_not_there(self, http, path, status):
        response = http.get(path)
        assert response.status_code == status
        assert response.json()["error"]


BAD_REQUESTS = {
    "empty": b"",
    "no json": b"instances",
    "half a document": b'{"instances": [',
    "a list": b"[1]",
    "not utf-8": b'{"instances": ["\xff"]}',
    "neither key": b'{"rows": [[1, 2]]}',
    "both keys": b'{"inputs": [[1, 2]], "instances": [[1, 2]]}',
    "no rows": b'{"instances": []}',
    "rows are no list": b'{"instances": 5}',
    "text for a number": b'{"instances": [["a", "b"]]}',
    "bool for a number": b'{"instances": [[true, 1]]}',
    "null": b'{"instances": [[null, 1]]}',
    "ragged": b'{"instances": [[1, 2], [1]]}',
    "mixed levels": b'{"instances": [[1, 2], 3]}',
    "wrong rank": b'{"instances": [1, 2]}',
    "wrong size": b'{"instances": [[1, 2, 3]]}',
    "unknown input": b'{"instances": [{"y": [1, 2]}]}',
    "mixed rows": b'{"instances": [{"x": [1, 2]}, [1, 2]]}',
    "unknown signature": b'{"signature_name": "absent", "instances": [[1, 2]]}',
    "signature is no text": b'{"signature_name": 5, "instances": [[1, 2]]}',
    "missing column": b'{"inputs": {"y": [[1, 2]]}}',
    "plain rows for two inputs": b'{"signature_name": "two", "instances": [1]}',
    "not base64": b'{"signature_name": "two", "instances": [{"a": 1, "b": {"b64": "%%%"}}]}',
    "float for an int": b'{"signature_name": "two", "instances": [{"a": 1.5, "b": "x"}]}',
    "too large for int64": b'{"signature_name": "two", "instances": [{"a": 9223372036854775808, "b": "x"}]}',
    "no tf.Example": b'{"signature_name": "raw_examples", "instances": ["abc"]}',
}


@pytest.mark.parametrize("body", BAD_REQUESTS.values(), ids=BAD_REQUESTS.keys())
def test_a_bad_request_is_answered_with_its_reason(http, body):
    response = http.post("/v1/models/small:predict", content=body)
    assert response.status_code == 400
    assert response.json()["error"]


def test_unknown_model_and_label(http):
    body = {"instances": [[1, 2]]}
    assert predict(http, body, "/v1/models/absent:predict").status_code == 404
    assert predict(http, body, "/v1/models/small/versions/9:predict").status_code == 404
    assert predict(http, body, "/v1/models/small/labels/absent:predict").status_code == 400
    assert http.put("/v1/models/small:predict", json=body).status_code == 400
