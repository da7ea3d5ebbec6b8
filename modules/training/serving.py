"""What the exported model answers: its signatures and the tf.Examples that they read."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from modules.training.errors import TrainingConfigError, TrainingError

EXAMPLES = "examples"
"""The input of every signature: a string tensor [n] of serialized tf.Examples."""

OutputsFn = Callable[[Any], Mapping[str, tf.Tensor]]


class ServingModule(tf.Module):
    """A model together with the transform graph, as one SavedModel.

    Signatures, all from serialized *raw* tf.Examples unless named otherwise:
      serving_default: the model's outputs; needs no label and nothing that only the label is made of.
      transform_features: the transformed features with the label, which is what TFMA's
        preprocessing_function_names asks for when the label is made by Transform.
      predict_transformed: the model's outputs from serialized *transformed* tf.Examples.
    """

    def __init__(
        self,
        model: tf_keras.Model,
        *,
        raw_spec: Mapping[str, Any],
        label_keys: Sequence[str],
        transform_output: Any = None,
        outputs_fn: OutputsFn | None = None,
    ):
        super().__init__()
        self.model = model
        self.model_variables = list(model.variables)  # in this order, by name: what a warm start looks for
        self.transform_layer: Any = None if transform_output is None else transform_output.transform_features_layer()
        self._outputs_fn = outputs_fn or default_outputs
        self._label_keys = tuple(label_keys)
        self._raw_spec = dict(raw_spec)
        if transform_output is None:
            self._model_spec = {key: value for key, value in raw_spec.items() if key not in label_keys}
            self._serving_spec = self._model_spec
        else:
            transformed = transform_output.transformed_feature_spec()
            self._model_spec = {key: value for key, value in transformed.items() if key not in label_keys}
            self._serving_spec = self._without_label_only_features()

    def signatures(self) -> dict[str, Any]:
        """Concrete functions by signature name."""
        examples = tf.TensorSpec([None], tf.string, name=EXAMPLES)
        functions = {"serving_default": self._serve, "predict_transformed": self._predict_transformed}
        if self.transform_layer is not None:
            functions["transform_features"] = self._transform_features
        return {
            name: tf.function(fn, input_signature=[examples]).get_concrete_function() for name, fn in functions.items()
        }

    def _serve(self, examples: tf.Tensor) -> Mapping[str, tf.Tensor]:
        features = tf.io.parse_example(examples, self._serving_spec)
        if self.transform_layer is not None:
            features = self.transform_layer(features)
        return self._outputs(features)

    def _predict_transformed(self, examples: tf.Tensor) -> Mapping[str, tf.Tensor]:
        return self._outputs(tf.io.parse_example(examples, self._model_spec))

    def _transform_features(self, examples: tf.Tensor) -> Mapping[str, tf.Tensor]:
        transformed = self.transform_layer(tf.io.parse_example(examples, self._raw_spec))
        return {
            key: tf.sparse.to_dense(value) if isinstance(value, tf.SparseTensor) else tf.convert_to_tensor(value)
            for key, value in transformed.items()
        }

    def _outputs(self, features: Mapping[str, Any]) -> Mapping[str, tf.Tensor]:
        missing = sorted(set(self._model_spec) - set(features))
        if missing:
            raise TrainingError(f"the transform graph does not make {', '.join(missing)} when the label is absent")
        named = {key: features[key] for key in self._model_spec}
        return dict(self._outputs_fn(self.model(named, training=False)))

    def _without_label_only_features(self) -> dict[str, Any]:
        """The raw features that a request must bring.

        A feature that parsing insists on, but that only the label is made of, is dropped: a request cannot know it.
        Features with a default or of variable length may be absent anyway.
        """
        spec = dict(self._raw_spec)
        for key, feature in self._raw_spec.items():
            if isinstance(feature, tf.io.FixedLenFeature) and feature.default_value is None:
                rest = {name: value for name, value in spec.items() if name != key}
                if rest and self._makes_all_features(rest):
                    spec = rest
        return spec

    def _makes_all_features(self, spec: Mapping[str, Any]) -> bool:
        made: set[str] = set()

        def trace(examples: tf.Tensor) -> tf.Tensor:
            made.update(self.transform_layer(tf.io.parse_example(examples, spec)))
            return tf.size(examples)

        tf.function(trace).get_concrete_function(tf.TensorSpec([None], tf.string))
        return set(self._model_spec) <= made


def default_outputs(outputs: Any) -> Mapping[str, tf.Tensor]:
    """Names the outputs: a dict keeps its names, a single tensor is called "outputs".

    Raises:
      TrainingConfigError: the outputs are neither.
    """
    if isinstance(outputs, Mapping):
        return {name: tf.identity(value, name=name) for name, value in outputs.items()}
    if isinstance(outputs, tf.Tensor):
        return {"outputs": outputs}
    raise TrainingConfigError(f"the model returns {type(outputs).__name__}; return a tensor or a dict of tensors")
