"""Checks that a SavedModel can be evaluated as configured, before Beam starts; later the error would be opaque."""

import os

from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_model_analysis.proto import config_pb2
from tfx.dsl.io import fileio

from components.evaluator.errors import EvaluationConfigError


def check_model(model_dir: str, spec: config_pb2.ModelSpec) -> None:
    """Refuses a model that lacks what the ModelSpec names.

    Args:
      model_dir: folder of a SavedModel.
      spec: signature, preprocessing signatures, label and prediction keys.

    Raises:
      EvaluationConfigError: naming the signature or key, and those that the model has.
    """
    signatures = _signatures(model_dir)
    signature = spec.signature_name or "serving_default"
    for name in [signature, *spec.preprocessing_function_names]:
        if name not in signatures:
            raise EvaluationConfigError(
                f"evaluate: the model has no signature `{name}`; it has {', '.join(sorted(signatures))}. "
                f"Export it in run_fn, or name another one ({model_dir})"
            )
    outputs = set(signatures[signature].outputs)
    if spec.prediction_key and spec.prediction_key not in outputs:
        raise EvaluationConfigError(
            f"evaluate.prediction_key: signature `{signature}` has no output `{spec.prediction_key}`; "
            f"it has {', '.join(sorted(outputs))}"
        )
    if len(outputs) > 1 and not spec.prediction_key:
        raise EvaluationConfigError(
            f"evaluate.prediction_key: signature `{signature}` has several outputs: name one of "
            f"{', '.join(sorted(outputs))}"
        )
    labels = {key for name in spec.preprocessing_function_names for key in signatures[name].outputs}
    if spec.preprocessing_function_names and spec.label_key and spec.label_key not in labels:
        raise EvaluationConfigError(
            f"evaluate.label_key: `{spec.label_key}` is not among the outputs of "
            f"{', '.join(spec.preprocessing_function_names)}: {', '.join(sorted(labels))}"
        )


def _signatures(model_dir: str) -> dict:
    path = os.path.join(model_dir, "saved_model.pb")
    if not fileio.exists(path):
        raise EvaluationConfigError(f"evaluate: {model_dir} holds no saved_model.pb: did run_fn export a model there?")
    with fileio.open(path, "rb") as file:
        model = saved_model_pb2.SavedModel.FromString(file.read())
    return dict(model.meta_graphs[0].signature_def)
