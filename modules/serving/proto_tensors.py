"""TensorProto and Input messages to arrays and back, with their claims checked before memory is taken for them."""

import math
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow_serving.apis import input_pb2

from modules.serving.status import Code, ServingError, invalid

_FIRST_REFERENCE = 100  # types above it are references to variables, which no message can carry
_MAX_ELEMENTS = 1 << 28  # a short message may claim any shape, because one value can stand for all


def array_from_proto(proto: tensor_pb2.TensorProto) -> np.ndarray:
    """The array that `proto` holds; strings come as an object array of bytes.

    Raises:
      ServingError: INVALID_ARGUMENT for a shape that is unknown, negative, too large, or does not fit the values.
    """
    try:
        dtype = tf.dtypes.as_dtype(proto.dtype)
    except TypeError:
        raise invalid(f"tensor proto has unknown dtype {proto.dtype}") from None
    sizes = [dim.size for dim in proto.tensor_shape.dim]
    if proto.tensor_shape.unknown_rank or any(size < 0 for size in sizes):
        raise invalid("tensor proto has an unknown shape: every dimension of a request tensor must be given")
    if math.prod(sizes) > _MAX_ELEMENTS:
        raise invalid(f"tensor proto claims {math.prod(sizes)} elements; at most {_MAX_ELEMENTS} are taken")
    if proto.dtype > _FIRST_REFERENCE or dtype in (tf.resource, tf.variant):
        raise ServingError(Code.UNIMPLEMENTED, f"tensors of type {types_pb2.DataType.Name(proto.dtype)} are not served")
    try:
        return tf.make_ndarray(proto)
    except (TypeError, ValueError, KeyError, IndexError, OverflowError) as error:
        raise invalid(f"tensor proto of type {dtype.name} cannot be read: {error}") from None


def proto_from_array(value: np.ndarray) -> tensor_pb2.TensorProto:
    """`value` as a TensorProto."""
    if value.dtype == object:
        dtype = types_pb2.DT_STRING
        proto = tensor_pb2.TensorProto(dtype=dtype, string_val=value.reshape(-1).tolist())
    else:
        dtype = tf.dtypes.as_dtype(value.dtype).as_datatype_enum
        proto = tensor_pb2.TensorProto(dtype=dtype, tensor_content=np.ascontiguousarray(value).tobytes())
    for size in value.shape:
        proto.tensor_shape.dim.add(size=size)
    return proto


def outputs_to_protos(outputs: Mapping[str, np.ndarray], target: Mapping[str, tensor_pb2.TensorProto]) -> None:
    """Fill the `outputs` field of a response."""
    for alias, value in outputs.items():
        target[alias].CopyFrom(proto_from_array(value))


def _with_context(context: tf.train.Example, example: tf.train.Example) -> bytes:
    merged = tf.train.Example()
    merged.CopyFrom(context)
    merged.MergeFrom(example)  # by feature name: the example's own wins
    return merged.SerializeToString()


def examples_from_input(message: input_pb2.Input) -> list[bytes]:
    """The serialized tf.Examples of a classify or regress request; the context's features go into each.

    Raises:
      ServingError: INVALID_ARGUMENT when there are none.
    """
    kind = message.WhichOneof("kind")
    if kind == "example_list_with_context":
        shared = message.example_list_with_context
        examples = [_with_context(shared.context, example) for example in shared.examples]
    else:
        examples = [example.SerializeToString() for example in message.example_list.examples]
    if not examples:
        raise invalid("Input is empty.")
    return examples
