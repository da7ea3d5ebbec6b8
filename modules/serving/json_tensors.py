"""TensorFlow Serving's JSON: request documents to arrays, arrays to response documents."""

import base64
import binascii
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from modules.serving.saved_model import Signature, TensorSpec
from modules.serving.status import Code, ServingError, invalid

_FLOATS = {tf.float32, tf.float64}
_INTS = {tf.int8, tf.uint8, tf.int16, tf.int32, tf.uint32, tf.int64, tf.uint64}
_CONVERTIBLE = _FLOATS | _INTS | {tf.bool, tf.string}
_SHOWN = 200  # characters of a value at fault in an error


def parse_document(body: bytes) -> dict[str, Any]:
    """The JSON object in a request body. NaN, Infinity and -Infinity are numbers, as in TensorFlow Serving.

    Raises:
      ServingError: INVALID_ARGUMENT, with the place where the text stops being JSON.
    """
    if not body:
        raise invalid("JSON Parse error: The document is empty")
    try:
        document = json.loads(body)
    except json.JSONDecodeError as error:
        raise invalid(f"JSON Parse error: {error.msg} at offset: {error.pos}") from None
    except UnicodeDecodeError as error:
        raise invalid(
            f"JSON Parse error: the body is not UTF-8 text: {error.reason} at offset: {error.start}"
        ) from None
    except RecursionError:
        raise invalid("JSON Parse error: values are nested too deeply") from None
    except ValueError as error:  # such as an integer of thousands of digits
        raise invalid(f"JSON Parse error: {error}") from None
    if not isinstance(document, dict):
        raise invalid(f"JSON Value: {shown(document)} Is not object")
    return document


def signature_name(document: Mapping[str, Any]) -> str:
    """The signature that a request asks for; empty for the default one."""
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid(
            f"JSON Value: {shown(name)} not formatted correctly. 'signature_name' key must be a string value."
        )
    return name


def predict_inputs(document: Mapping[str, Any], signature: Signature) -> tuple[dict[str, np.ndarray], bool]:
    """Arrays keyed by input alias, and whether the request is in row format ("instances") or column ("inputs")."""
    if not signature.inputs:
        raise invalid(f"Failed to get input map for signature: {signature.name}")
    has_rows, has_columns = "instances" in document, "inputs" in document
    if has_rows and has_columns:
        raise invalid("Not formatted correctly: expecting only one of 'inputs' or 'instances' keys to exist")
    if has_rows:
        return _from_rows(document["instances"], signature), True
    if has_columns:
        return _from_columns(document["inputs"], signature), False
    raise invalid("Missing 'inputs' or 'instances' key")


def _from_rows(instances: Any, signature: Signature) -> dict[str, np.ndarray]:
    if not isinstance(instances, list):
        raise invalid("Expecting 'instances' to be an list/array")
    if not instances:
        raise invalid("No values in 'instances' array")
    if _is_object(instances[0]):
        columns = _columns_of_objects(instances, signature)
    elif len(signature.inputs) > 1:
        raise invalid(
            "instances is a plain list, but expecting list of objects as multiple input tensors required: "
            + ", ".join(signature.inputs)
        )
    else:
        columns = dict.fromkeys(signature.inputs, instances)
    return {
        alias: to_array(values, signature.inputs[alias], f"instances of {alias!r}") for alias, values in columns.items()
    }


def _columns_of_objects(instances: list[Any], signature: Signature) -> dict[str, list[Any]]:
    wanted = signature.inputs.keys()
    for position, instance in enumerate(instances):
        if not _is_object(instance):
            raise invalid(f"Expecting object but got {_kind(instance)} at item {position} of input list")
        if instance.keys() != wanted:
            raise invalid(
                f"Failed to process element: {position} of 'instances' list. JSON object: {shown(instance)} "
                f"keys must be equal to: {','.join(sorted(wanted))}"
            )
    return {alias: [instance[alias] for instance in instances] for alias in wanted}


def _from_columns(inputs: Any, signature: Signature) -> dict[str, np.ndarray]:
    if not _is_object(inputs):
        if len(signature.inputs) > 1:
            raise invalid(
                "inputs is a plain value/list, but expecting an object as multiple input tensors required: "
                + ", ".join(signature.inputs)
            )
        inputs = dict.fromkeys(signature.inputs, inputs)
    missing = [alias for alias in signature.inputs if alias not in inputs]
    if missing:
        raise invalid(f"Missing named input: {missing[0]} in 'inputs' object.")
    return {alias: to_array(inputs[alias], spec, f"input {alias!r}") for alias, spec in signature.inputs.items()}


def to_array(value: Any, spec: TensorSpec, where: str) -> np.ndarray:
    """A JSON value (a scalar or nested lists) as an array of the type that `spec` declares.

    Raises:
      ServingError: INVALID_ARGUMENT for a wrong type, a ragged list or a number out of range; UNIMPLEMENTED for
        types that JSON cannot carry here.
    """
    if spec.dtype not in _CONVERTIBLE:
        raise ServingError(Code.UNIMPLEMENTED, f"{where}: Conversion of JSON Value to type: {spec.dtype_name}")
    shape, flat = _flatten(value, where)
    _check_types(flat, spec, where)
    if spec.dtype == tf.string:
        array = np.empty(len(flat), dtype=object)
        array[:] = [_to_bytes(item, where) for item in flat]
        return array.reshape(shape)
    try:
        with np.errstate(over="ignore"):  # 1e300 is infinite as a float32
            return np.array(flat, dtype=spec.dtype.as_numpy_dtype).reshape(shape)
    except (OverflowError, ValueError) as error:
        raise invalid(f"{where}: not of expected type: {spec.dtype_name}: {error}") from None


def _flatten(value: Any, where: str) -> tuple[list[int], list[Any]]:
    """Shape and leaves of nested lists. One level at a time with built-in functions, which is fast for long lists."""
    shape: list[int] = []
    items = [value]
    while items and isinstance(items[0], list):
        if set(map(type, items)) != {list}:
            raise invalid(f"{where}: a value stands where a list is expected, at level {len(shape)}")
        sizes = set(map(len, items))
        if len(sizes) > 1:
            raise invalid(
                f"{where}: lists of different sizes {sorted(sizes)} at level {len(shape)}, expecting one size"
            )
        shape.append(sizes.pop())
        items = list(itertools.chain.from_iterable(items))
    if list in set(map(type, items)):
        raise invalid(f"{where}: a list stands where a value is expected, at level {len(shape)}")
    return shape, items


def _check_types(flat: Sequence[Any], spec: TensorSpec, where: str) -> None:
    allowed: set[type]
    if spec.dtype in _FLOATS:
        allowed = {int, float}
    elif spec.dtype in _INTS:
        allowed = {int}
    elif spec.dtype == tf.bool:
        allowed = {bool}
    else:
        allowed = {str, dict}
    unexpected = set(map(type, flat)) - allowed
    if unexpected:
        culprit = next(item for item in flat if type(item) in unexpected)
        raise invalid(
            f"{where}: JSON Value: {shown(culprit)} Type: {_kind(culprit)} is not of expected type: {spec.dtype_name}"
        )


def _to_bytes(item: Any, where: str) -> bytes:
    if isinstance(item, str):
        try:
            return item.encode("utf-8")
        except UnicodeEncodeError:
            raise invalid(f"{where}: a string holds half of a surrogate pair; send bytes as {{'b64': ...}}") from None
    if _is_object(item):
        raise invalid(f"{where}: JSON Value: {shown(item)} not formatted correctly for base64 data")
    return from_base64(item["b64"], where)


def from_base64(text: str, where: str) -> bytes:
    """The bytes of a "b64" value; padding may be left out."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise invalid(f"{where}: Unable to base64 decode") from None


def is_base64(value: Any) -> bool:
    """Whether `value` is {"b64": text}, which stands for bytes."""
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("b64"), str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and not is_base64(value)


def shown(value: Any) -> str:
    """A value for an error message, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _kind(value: Any) -> str:
    names = {dict: "Object", list: "Array", str: "String", bool: "Bool", type(None): "Null"}
    return names.get(type(value), "Number")


def predict_response(outputs: Mapping[str, np.ndarray], rows: bool) -> dict[str, Any]:
    """The response document: {"predictions": [...]} for a request in row format, {"outputs": ...} for columns.

    With one output its values stand alone; with several, objects keyed by output alias.
    """
    if not outputs:
        raise invalid("Cannot convert empty tensor map to JSON")
    if rows:
        sizes = {alias: value.shape[0] if value.ndim else None for alias, value in outputs.items()}
        if None in sizes.values():
            scalar = next(alias for alias, size in sizes.items() if size is None)
            raise invalid(f"Tensor name: {scalar} has no shape information: ask for columns with 'inputs'")
        if len(set(sizes.values())) > 1:
            raise invalid(f"Tensors have inconsistent batch sizes {sizes}: ask for columns with 'inputs'")
    values = {alias: _to_json(alias, value) for alias, value in outputs.items()}
    if not rows:
        return {"outputs": values if len(values) > 1 else next(iter(values.values()))}
    if len(values) == 1:
        return {"predictions": next(iter(values.values()))}
    return {"predictions": [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]}


def _to_json(alias: str, array: np.ndarray) -> Any:
    if array.dtype == object:
        encode = _as_base64 if alias.endswith("_bytes") else _as_text
        return np.frompyfunc(encode, 1, 1)(array).tolist() if array.ndim else encode(array.item())
    dtype = tf.dtypes.as_dtype(array.dtype)
    if dtype not in _CONVERTIBLE:
        raise invalid(
            f"Failed to write JSON value for tensor type of {alias}: DT_{dtype.name.upper()}; "
            "cast it in the signature, or use gRPC"
        )
    # A float32 is written with its own shortest digits (0.1), not with those of the double nearest to it.
    return array.astype(str).astype(np.float64).tolist() if dtype == tf.float32 else array.tolist()


def _as_base64(value: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(value).decode("ascii")}


def _as_text(value: bytes) -> Any:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return _as_base64(value)  # TensorFlow Serving writes the raw bytes here, which no JSON parser reads
