"""Rows of plain values (JSON objects, CSV lines) as serialized tf.Examples, typed as the model itself parses them."""

import base64
import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import node_def_pb2, types_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from modules.serving.status import BadRowError

_KINDS = {types_pb2.DT_FLOAT: float, types_pb2.DT_INT64: int, types_pb2.DT_STRING: bytes}
_NAMES = {float: "a number", int: "a whole number", bytes: "text"}

FeatureKinds = Mapping[str, type]


def parsed_features(
    meta_graph: meta_graph_pb2.MetaGraphDef, signature_name: str = "serving_default"
) -> dict[str, type]:
    """The features that the signature's tf.Example parsers read: name to float, int or bytes; empty without a parser.

    Other signatures of the same graph may parse others, or the same name as another type.
    """
    found: dict[str, type] = {}
    for nodes in _scopes(meta_graph, signature_name):
        parsers = [node for node in nodes if node.op == "ParseExampleV2"]
        if not parsers:
            continue
        constants = {node.name: node for node in nodes if node.op == "Const"}
        for parser in parsers:
            found |= _features_of(parser, constants)
    return found


def _scopes(meta_graph: meta_graph_pb2.MetaGraphDef, signature_name: str) -> Iterator[list[node_def_pb2.NodeDef]]:
    """The nodes that a signature's outputs depend on, then those of every function that they call, directly or not."""
    by_name = {node.name: node for node in meta_graph.graph_def.node}
    waiting = [output.name for output in meta_graph.signature_def[signature_name].outputs.values()]
    reached: dict[str, node_def_pb2.NodeDef] = {}
    while waiting:
        name = waiting.pop().lstrip("^").split(":")[0]
        if name in by_name and name not in reached:
            reached[name] = by_name[name]
            waiting.extend(by_name[name].input)
    functions = {function.signature.name: function for function in meta_graph.graph_def.library.function}
    nodes, called = list(reached.values()), set[str]()
    scopes = [nodes]
    while scopes:
        nodes = scopes.pop()
        yield nodes
        for name in _called(nodes) & functions.keys() - called:
            called.add(name)
            scopes.append(list(functions[name].node_def))


def _called(nodes: Iterable[node_def_pb2.NodeDef]) -> set[str]:
    """The functions that nodes name: called, mapped over a list, or a branch of a condition."""
    values = [value for node in nodes for value in node.attr.values()]
    named = {value.func.name for value in values if value.HasField("func")}
    return named | {function.name for value in values for function in value.list.func}


def check_rows(rows: Iterable[Any]) -> None:
    """Raises BadRowError for a row that is no object."""
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            raise BadRowError(f"row {number}: expected an object of feature names and values, got {row!r}")


def _features_of(parser: node_def_pb2.NodeDef, constants: Mapping[str, node_def_pb2.NodeDef]) -> dict[str, type]:
    # Inputs of ParseExampleV2: serialized, names, sparse_keys, dense_keys, ragged_keys, then the dense defaults.
    typed_keys = zip(parser.input[2:5], ("sparse_types", "Tdense", "ragged_value_types"), strict=True)
    found: dict[str, type] = {}
    for reference, types in typed_keys:
        constant = constants.get(reference.split(":")[0])
        if constant is None:
            continue
        keys = np.atleast_1d(tf.make_ndarray(constant.attr["value"].tensor))
        found |= {
            key.decode("utf-8"): _KINDS[dtype] for key, dtype in zip(keys, parser.attr[types].list.type, strict=True)
        }
    return found


def encode_rows(rows: Iterable[Mapping[str, Any]], kinds: FeatureKinds) -> list[bytes]:
    """Serialized tf.Examples, one for each row.

    A value may be a scalar, a list, or None (a missing value). Where `kinds` is empty the type is that of the value.

    Raises:
      BadRowError: names the row (from 1), the feature, the value and what was expected.
    """
    rows = list(rows)
    check_rows(rows)
    return [_encode_row(row, kinds, number) for number, row in enumerate(rows, start=1)]


def _encode_row(row: Mapping[str, Any], kinds: FeatureKinds, number: int) -> bytes:
    example = tf.train.Example()
    for name, value in row.items():
        if kinds and name not in kinds:
            continue  # such as the label column of a training file
        values = list(value) if isinstance(value, list | tuple | np.ndarray) else [value]
        values = [item for item in values if item is not None and item != ""]
        if not values:
            continue
        kind = kinds.get(name) or _kind_of(values)
        feature = example.features.feature[name]
        converted = [_convert(item, kind, name, number) for item in values]
        if kind is float:
            feature.float_list.value.extend(converted)
        elif kind is int:
            feature.int64_list.value.extend(converted)
        else:
            feature.bytes_list.value.extend(converted)
    if kinds and not example.features.feature:
        known = ", ".join(sorted(kinds))
        raise BadRowError(f"row {number}: holds none of the features that the model reads ({known})")
    return example.SerializeToString()


def _kind_of(values: Sequence[Any]) -> type:
    if any(isinstance(value, str | bytes | Mapping) for value in values):
        return bytes
    return float if any(isinstance(value, float | np.floating) for value in values) else int


def _convert(value: Any, kind: type, name: str, number: int) -> Any:
    if kind is bytes:
        if isinstance(value, Mapping):
            return _from_base64(value, name, number)
        return value if isinstance(value, bytes) else str(value).encode("utf-8")
    try:
        if kind is float:
            return float(value)
        whole = int(value)  # refuses "3.5" and "abc"
        if whole != float(value) or not -(2**63) <= whole < 2**63:
            raise ValueError(value)
    except (TypeError, ValueError, OverflowError):
        wanted = _NAMES[kind]
        raise BadRowError(f"row {number}, feature {name!r}: expected {wanted}, got {value!r}") from None
    return whole


def _from_base64(value: Mapping[str, Any], name: str, number: int) -> bytes:
    """Bytes that JSON cannot hold, as TensorFlow Serving's API writes them: {"b64": ...}."""
    try:
        if set(value) != {"b64"}:
            raise ValueError(f"keys {sorted(value)}")
        return base64.b64decode(value["b64"], validate=True)
    except (ValueError, TypeError) as error:
        raise BadRowError(f'row {number}, feature {name!r}: expected text or {{"b64": "..."}}: {error}') from None


def read_rows(stream: TextIO, where: str) -> Iterator[dict[str, Any]]:
    """Rows of CSV with a header, of one JSON array, of one JSON object, or of one JSON object a line.

    JSON is recognised by its first character. `where` names the input in errors.
    """
    text = stream.read()
    body = text.lstrip("\ufeff").lstrip()
    if not body:
        raise BadRowError(f"{where} is empty: expected CSV with a header, or JSON objects")
    if body[0] in "[{":
        return iter(_json_rows(body, where))
    return iter(_csv_rows(body, where))


def _json_rows(body: str, where: str) -> list[dict[str, Any]]:
    decoder = json.JSONDecoder()
    rows: list[dict[str, Any]] = []
    position = 0
    while position < len(body):
        try:
            value, position = decoder.raw_decode(body, position)
        except json.JSONDecodeError as error:
            raise BadRowError(f"{where}, line {error.lineno}, column {error.colno}: {error.msg}") from None
        rows.extend(value if isinstance(value, list) else [value])
        while position < len(body) and body[position] in " \t\r\n,":
            position += 1
    return rows


def _csv_rows(body: str, where: str) -> list[dict[str, Any]]:
    lines = body.splitlines()
    reader = csv.DictReader(lines, strict=True)
    rows = []
    try:
        for row in reader:
            if None in row or None in row.values():
                fields = reader.fieldnames or []
                raise BadRowError(f"{where}, line {reader.line_num}: expected {len(fields)} fields as in the header")
            rows.append(row)
    except csv.Error as error:
        raise BadRowError(f"{where}, line {reader.line_num}: {error}") from None
    if not rows:
        raise BadRowError(f"{where} holds a header and no rows")
    return rows


def decode_example(serialized: bytes) -> dict[str, Any]:
    """A serialized tf.Example as plain values: what was asked, for a person to read."""
    example = tf.train.Example.FromString(serialized)
    row = {}
    for name, feature in sorted(example.features.feature.items()):
        kind = feature.WhichOneof("kind")
        values = list(getattr(feature, kind).value) if kind else []
        plain = [_readable(value) if isinstance(value, bytes) else value for value in values]
        row[name] = plain[0] if len(plain) == 1 else plain or None
    return row


def _readable(value: bytes) -> str:
    """The text, or for bytes that are none, such as a picture, how many they are."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"<{len(value):,} bytes>"
