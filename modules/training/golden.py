"""Golden predictions: what the model answered when it was exported, for whoever loads it later to check."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from modules.training.errors import TrainingError
from modules.training.serving import EXAMPLES

PATH = "assets.extra/golden_predictions.json"
MAX_EXAMPLES = 32
TOLERANCE = 1e-3  # relative: CPUs differ in how they add up
ABSOLUTE_TOLERANCE = 1e-6  # what float32 rounding makes of an exact zero
SIGNATURE = "serving_default"


def synthetic_examples(raw_spec: Mapping[str, Any], words: Mapping[str, Sequence[bytes]], count: int) -> list[bytes]:
    """Serialized raw tf.Examples that fit the feature spec, always the same ones.

    A trainer behind Transform never sees raw examples, so plausible ones are made up: small whole numbers, floats
    around zero and, for text, entries of `words[key]` where a vocabulary or domain is known. Every eighth example
    leaves out what may be left out.
    """
    generator = np.random.default_rng(20)
    return [_example(raw_spec, words, generator, sparse=number % 8 == 7) for number in range(count)]


def _example(raw_spec: Mapping[str, Any], words: Mapping[str, Sequence[bytes]], generator: Any, sparse: bool) -> bytes:
    features = {}
    for key, spec in sorted(raw_spec.items()):
        if sparse and not _required(spec):
            continue
        size = int(np.prod(spec.shape or [1])) if isinstance(spec, tf.io.FixedLenFeature) else 1
        if isinstance(spec, tf.io.SparseFeature | tf.io.RaggedFeature):
            continue  # made of several columns; absent is a legal value of both
        if spec.dtype == tf.string:
            known = words.get(key) or [b"a", b"b", b""]
            values = [known[generator.integers(len(known))] for _ in range(size)]
            features[key] = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        elif spec.dtype.is_integer:
            integers = generator.integers(0, 20, size).tolist()
            features[key] = tf.train.Feature(int64_list=tf.train.Int64List(value=integers))
        else:
            floats = (generator.standard_normal(size) * 3 + 1).round(3).tolist()
            features[key] = tf.train.Feature(float_list=tf.train.FloatList(value=floats))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString(deterministic=True)


def _required(spec: Any) -> bool:
    return isinstance(spec, tf.io.FixedLenFeature) and spec.default_value is None


def predict(loaded: Any, examples: Sequence[bytes], signature: str = SIGNATURE) -> dict[str, list]:
    """Calls a signature of a loaded SavedModel.

    Raises:
      TrainingError: an output is not finite.
    """
    answers = loaded.signatures[signature](**{EXAMPLES: tf.constant(list(examples), tf.string)})
    for name, value in answers.items():
        if value.dtype.is_floating and not bool(tf.reduce_all(tf.math.is_finite(value))):
            raise TrainingError(f"the exported model's output {name!r} is not finite; it is not published")
    return {name: _plain(value.numpy()) for name, value in answers.items()}


def _plain(array: Any) -> list:
    if array.dtype.kind in "SO":
        return np.vectorize(lambda item: item.decode("utf-8", "replace"), otypes=[object])(array).tolist()
    return array.tolist()


def write(folder: str, examples: Sequence[bytes], outputs: Mapping[str, list], signature: str = SIGNATURE) -> None:
    """Writes the golden predictions into an exported model's folder."""
    value = {
        "signature": signature,
        "input_key": EXAMPLES,
        "examples_b64": [base64.b64encode(example).decode("ascii") for example in examples],
        "outputs": outputs,
        "tolerance": TOLERANCE,
        "absolute_tolerance": ABSOLUTE_TOLERANCE,
    }
    path = f"{folder}/{PATH}"
    tf.io.gfile.makedirs(path.rpartition("/")[0])
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(json.dumps(value))
