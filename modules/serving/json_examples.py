"""The JSON of :classify and :regress: feature objects to tf.Examples, results to documents."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from modules.serving.json_tensors import from_base64, is_base64, shown
from modules.serving.status import invalid

_INT64 = range(-(2**63), 2**63)


def examples_from_json(document: Mapping[str, Any]) -> list[bytes]:
    """Serialized tf.Examples of {"context": {...}, "examples": [{...}, ...]}; context features go into each.

    Raises:
      ServingError: INVALID_ARGUMENT naming the example and the feature.
    """
    context = document.get("context", {})
    examples = document.get("examples")
    if not isinstance(examples, list):
        raise invalid("When method is classify or regress, key 'examples' is expected and must be an array")
    if not examples:
        raise invalid("Input is empty.")
    shared = _features(context, "context")
    return [_merge(shared, _features(example, f"example {position}")) for position, example in enumerate(examples)]


def _merge(shared: Mapping[str, tf.train.Feature], own: Mapping[str, tf.train.Feature]) -> bytes:
    features = tf.train.Features(feature={**shared, **own})
    return tf.train.Example(features=features).SerializeToString()


def _features(value: Any, where: str) -> dict[str, tf.train.Feature]:
    if not isinstance(value, dict):
        raise invalid(f"{where}: Example must be JSON object but got {shown(value)}")
    for name in value:
        _utf8(name, where)
    return {name: _feature(content, f"{where}, feature {name!r}") for name, content in value.items()}


def _feature(content: Any, where: str) -> tf.train.Feature:
    values = content if isinstance(content, list) else [content]
    kinds = {_kind(item, where) for item in values}
    if len(kinds) > 1:
        raise invalid(
            f"{where}: Unexpected element type: holds {' and '.join(sorted(kinds))} values, expecting one type"
        )
    if kinds == {"bytes"}:
        encoded = [from_base64(v["b64"], where) if isinstance(v, dict) else _utf8(v, where) for v in values]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=encoded))
    if kinds == {"float"}:
        with np.errstate(over="ignore"):
            return tf.train.Feature(float_list=tf.train.FloatList(value=np.array(values, np.float32)))
    if kinds == {"int64"}:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(item) for item in values]))
    return tf.train.Feature()


def _kind(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return "int64"
    if isinstance(value, int):
        if value not in _INT64:
            raise invalid(f"{where}: {shown(value)} does not fit into int64")
        return "int64"
    if isinstance(value, float):
        return "float"
    if isinstance(value, str) or is_base64(value):
        return "bytes"
    raise invalid(f"{where}: has element with unexpected JSON type: {shown(value)}")


def _utf8(text: str, where: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise invalid(f"{where}: a string holds half of a surrogate pair; send bytes as {{'b64': ...}}") from None
