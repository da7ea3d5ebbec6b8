"""What one loaded model answers, free of protocols: predict, classify and regress on arrays."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from modules.serving.saved_model import LoadedModel, Signature
from modules.serving.status import invalid

# Runs a signature on arrays: LoadedModel.run itself, or a batcher in front of it.
Runner = Callable[[Signature, Mapping[str, np.ndarray], Sequence[str]], dict[str, np.ndarray]]


def predict(
    run: Runner, signature: Signature, inputs: Mapping[str, np.ndarray], output_filter: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """Outputs keyed by alias. Aliases, types and shapes are checked before the model runs."""
    missing, extra = signature.inputs.keys() - inputs.keys(), inputs.keys() - signature.inputs.keys()
    if missing or extra:
        raise invalid(
            f"input size does not match signature: {len(inputs)}!={len(signature.inputs)}. "
            f"Sent extra: {{{','.join(sorted(extra))}}}. Missing but required: {{{','.join(sorted(missing))}}}."
        )
    for alias, value in inputs.items():
        _check_input(signature, alias, value)
    unknown = [alias for alias in output_filter if alias not in signature.outputs]
    if unknown:
        known = ",".join(signature.outputs)
        raise invalid(
            f"output tensor alias not found in signature: {unknown[0]} Outputs expected to be in the set {{{known}}}."
        )
    if len(set(output_filter)) != len(output_filter):
        raise invalid(f"duplicate output tensor alias in {list(output_filter)}")
    return run(signature, inputs, output_filter)


def _check_input(signature: Signature, alias: str, value: np.ndarray) -> None:
    spec = signature.inputs[alias]
    dtype = tf.string if value.dtype == object else tf.dtypes.as_dtype(value.dtype)
    if dtype != spec.dtype:
        raise invalid(f"input {alias!r} is of type {dtype.name}, but the signature takes {spec.dtype.name}")
    if not spec.accepts(value.shape):
        wanted = "[" + ",".join("?" if size == -1 else str(size) for size in spec.shape or ()) + "]"
        raise invalid(f"input {alias!r} has shape {list(value.shape)}, but the signature takes {wanted}")


def classify(run: Runner, model: LoadedModel, name: str, examples: Sequence[bytes]) -> list[list[tuple[str, float]]]:
    """(label, score) of every class for each tf.Example.

    The signature takes `inputs` (serialized tf.Examples) and answers `classes` [batch, classes] of strings, `scores`
    [batch, classes] of floats, or both, which is TensorFlow Serving's convention.
    """
    signature = _example_signature(model, name, {"classes", "scores"})
    outputs = run(signature, {"inputs": _vector(examples)}, tuple(signature.outputs.keys() & {"classes", "scores"}))
    for alias, values in outputs.items():
        _check_output(alias, values, len(examples), ranks=(2,))
    shapes = {values.shape for values in outputs.values()}
    if len(shapes) > 1:
        raise invalid(f"Tensors class and score should match in dim_size(1). Got {sorted(shapes)}")
    shape = shapes.pop()
    labels = outputs.get("classes", np.full(shape, b"", dtype=object))
    scores = outputs.get("scores", np.zeros(shape, dtype=np.float32))
    return [
        [(label.decode("utf-8", "replace"), float(score)) for label, score in zip(row, values, strict=True)]
        for row, values in zip(labels, scores, strict=True)
    ]


def regress(run: Runner, model: LoadedModel, name: str, examples: Sequence[bytes]) -> list[float]:
    """One value for each tf.Example; the signature takes `inputs` and answers `outputs`, [batch] or [batch, 1]."""
    signature = _example_signature(model, name, {"outputs"})
    values = run(signature, {"inputs": _vector(examples)}, ("outputs",))["outputs"]
    _check_output("outputs", values, len(examples), ranks=(1, 2))
    if values.size != len(examples):
        raise invalid(
            f"Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got {values.shape}"
        )
    return [float(value) for value in values.reshape(-1)]


def _vector(examples: Sequence[bytes]) -> np.ndarray:
    array = np.empty(len(examples), dtype=object)
    array[:] = examples
    return array


def _example_signature(model: LoadedModel, name: str, outputs: set[str]) -> Signature:
    signature = model.signature(name)
    if signature.example_input != "inputs":
        raise invalid(f"Expected one input Tensor of tf.Examples named 'inputs'. {_described(signature)}")
    if not outputs & signature.outputs.keys():
        raise invalid(
            f"Expected signature outputs to contain at least one of {sorted(outputs)}. {_described(signature)}"
        )
    return signature


def _described(signature: Signature) -> str:
    return f"Signature {signature.name!r} has inputs {sorted(signature.inputs)} and outputs {sorted(signature.outputs)}"


def _check_output(alias: str, values: np.ndarray, batch_size: int, ranks: tuple[int, ...]) -> None:
    wanted = np.dtype(object) if alias == "classes" else np.dtype(np.float32)
    if values.dtype != wanted:
        raise invalid(
            f"Expected {alias} Tensor of {'DT_STRING' if alias == 'classes' else 'DT_FLOAT'}. Got: {values.dtype}"
        )
    if values.ndim not in ranks or values.shape[0] != batch_size:
        problem = f"Expected {alias} output batch size of {batch_size} and rank {' or '.join(map(str, ranks))}"
        raise invalid(f"{problem}. Got shape: {list(values.shape)}")
