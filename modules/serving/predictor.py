"""Predictions from a SavedModel version folder, in the calling process."""

import base64
import json
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from modules.serving import example_rows
from modules.serving.saved_model import LoadedModel, Signature
from modules.serving.status import BadRowError, Code, ServingError, ServingUsageError

GOLDEN_FILE = os.path.join("assets.extra", "golden_predictions.json")


def latest_version(base: str) -> int:
    """The highest numbered version under a serving base, the one that TensorFlow Serving answers from.

    Raises:
      ServingUsageError: when there is no base, or no version in it.
    """
    if not os.path.isdir(base):
        raise ServingUsageError(f"no serving folder at {base}: run `sluice run`, or name one with --base")
    versions = [int(name) for name in os.listdir(base) if name.isdecimal()]
    if not versions:
        raise ServingUsageError(f"{base} holds no version{_what_to_give(base)}")
    return max(versions)


def _what_to_give(base: str) -> str:
    """What a person who named `base` may have meant."""
    if os.path.exists(os.path.join(base, "saved_model.pb")):
        parent, name = os.path.split(os.path.normpath(base))
        return f", it is one: give the folder above, --base {parent or '.'} --version {name}"
    models = sorted({path.parts[-3] for path in pathlib.Path(base).glob("[!.]*/[0-9]*/saved_model.pb*")})
    if models:
        return f" but models: give one, --base {os.path.join(base, models[0])} (there are: {', '.join(models)})"
    return " yet: a blessed model is pushed there by `sluice run`"


def predict_rows(version_dir: str, rows: Iterable[Mapping[str, Any]], signature_name: str = "") -> list[dict[str, Any]]:
    """One answer for each row: output name to value, lists for outputs that have more than one value.

    Args:
      version_dir: a SavedModel folder, such as build/serving/taxi/1.
      rows: feature name to value (scalar, list or None). Encoded as tf.Examples with the types that the model's own
        parser reads; for signatures with plain tensors, each input is stacked over the rows.
      signature_name: which signature; serving_default when empty.

    Raises:
      BadRowError: a row that the model cannot read.
      ServingError: a model that cannot be loaded or run.
    """
    rows = list(rows)
    if not rows:
        return []
    example_rows.check_rows(rows)
    with LoadedModel(version_dir) as model:
        signature = _signature(model, signature_name)
        # A string vector may be tf.Examples, or what a row names: encoded pictures, say.
        alias = signature.example_input
        if alias is None or all(alias in row for row in rows):
            return _answers(model, signature, _stack(signature, rows))
        kinds = example_rows.parsed_features(model.meta_graph, signature.name)
        return _answer_examples(model, signature, example_rows.encode_rows(rows, kinds))


def predict_examples(version_dir: str, examples: Iterable[bytes], signature_name: str = "") -> list[dict[str, Any]]:
    """One answer for each serialized tf.Example."""
    serialized = list(examples)
    if not serialized:
        return []
    with LoadedModel(version_dir) as model:
        return _answer_examples(model, _signature(model, signature_name), serialized)


def golden_examples(version_dir: str) -> list[bytes]:
    """The serialized tf.Examples that the Trainer stored beside the model; empty where it stored none."""
    path = os.path.join(version_dir, GOLDEN_FILE)
    if not os.path.isfile(path):
        return []
    with open(path, encoding="utf-8") as stream:
        return [base64.b64decode(text) for text in json.load(stream)["examples_b64"]]


def _signature(model: LoadedModel, name: str) -> Signature:
    try:
        return model.signature(name)
    except ServingError as error:
        raise ServingUsageError(error.message) from None


def _answer_examples(model: LoadedModel, signature: Signature, serialized: list[bytes]) -> list[dict[str, Any]]:
    alias = signature.example_input
    if alias is None:
        inputs = ", ".join(f"{name} ({spec.dtype_name})" for name, spec in signature.inputs.items())
        raise ServingUsageError(f"signature {signature.name!r} takes no tf.Examples; its inputs are: {inputs}")
    return _answers(model, signature, {alias: np.array(serialized, dtype=object)})


def _answers(model: LoadedModel, signature: Signature, inputs: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    num_rows = len(next(iter(inputs.values())))
    try:
        outputs = model.run(signature, inputs)
    except ServingError as error:
        if error.code is Code.INVALID_ARGUMENT:
            raise BadRowError(f"the model cannot read these rows: {error.message}") from error
        raise
    for name, values in outputs.items():
        if values.ndim == 0 or len(values) != num_rows:
            problem = f"output {name!r} has shape {values.shape}, not one value for each of {num_rows} rows"
            raise ServingUsageError(f"{problem}: ask through a signature that answers row by row")
    return [{name: plain(values[row]) for name, values in outputs.items()} for row in range(num_rows)]


def _stack(signature: Signature, rows: list[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    stacked = {}
    for alias, spec in signature.inputs.items():
        for number, row in enumerate(rows, start=1):
            if alias not in row:
                raise BadRowError(f"row {number}: input {alias!r} is missing; expected {sorted(signature.inputs)}")
        try:
            # An array of NumPy's own strings would lose zero bytes at their ends.
            kind = object if spec.dtype == tf.string else None
            values = np.array([row[alias] for row in rows], dtype=kind).astype(spec.dtype.as_numpy_dtype)
        except (TypeError, ValueError) as error:
            raise BadRowError(f"input {alias!r} is not {spec.dtype.name}: {error}") from None
        stacked[alias] = values
    return stacked


def plain(value: Any) -> Any:
    """A NumPy value as Python values: one-element arrays become scalars, bytes become text."""
    if isinstance(value, np.ndarray):
        return plain(value.reshape(())[()]) if value.size == 1 else [plain(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


__all__ = [
    "BadRowError",
    "ServingError",
    "ServingUsageError",
    "golden_examples",
    "latest_version",
    "plain",
    "predict_examples",
    "predict_rows",
]
