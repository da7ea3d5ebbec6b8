"""What the JSON layer refuses before a model is asked."""

import numpy as np
import pytest
import tensorflow as tf

from modules.serving import json_tensors
from modules.serving.saved_model import Signature, TensorSpec
from modules.serving.status import Code, ServingError

X = TensorSpec("x:0", tf.float32, (-1,))


def test_signatures_without_inputs_or_outputs():
    with pytest.raises(ServingError, match="Failed to get input map for signature: empty"):
        json_tensors.predict_inputs({"instances": [1]}, Signature("empty", {}, {"y": X}))
    with pytest.raises(ServingError, match="empty tensor map"):
        json_tensors.predict_response({}, rows=True)


def test_types_that_json_does_not_carry():
    half = TensorSpec("x:0", tf.float16, (-1,))
    with pytest.raises(ServingError, match="DT_HALF") as caught:
        json_tensors.to_array([1.0], half, "x")
    assert caught.value.code is Code.UNIMPLEMENTED
    with pytest.raises(ServingError, match="use gRPC"):
        json_tensors.predict_response({"y": np.ones(1, np.float16)}, rows=True)


def test_outputs_of_different_batch_sizes_need_columns():
    outputs = {"a": np.ones(2, np.int64), "b": np.ones(3, np.int64)}
    with pytest.raises(ServingError, match="inconsistent batch sizes"):
        json_tensors.predict_response(outputs, rows=True)
    assert json_tensors.predict_response(outputs, rows=False) == {"outputs": {"a": [1, 1], "b": [1, 1, 1]}}


def test_strings_that_are_no_text_come_back_as_base64():
    outputs = {"s": np.array([b"plain", b"\xff"], object)}
    assert json_tensors.predict_response(outputs, rows=True) == {"predictions": ["plain", {"b64": "/w=="}]}


def test_base64_without_padding():
    spec = TensorSpec("s:0", tf.string, (-1,))
    assert json_tensors.to_array([{"b64": "/w"}, {"b64": "/w=="}], spec, "s").tolist() == [b"\xff", b"\xff"]
