"""What the exported model answers: its signatures and the tf.Examples that they read."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from modules.training.errors import TrainingConfigError, TrainingError
from modules.training.graph_code import as_it_is, rewritten
from modules.training.input import FeaturesFn

EXAMPLES = "examples"
"""The input of every signature: a string tensor [n] of serialized tf.Examples."""

_AutoTrackable = tf.__internal__.tracking.AutoTrackable

OutputsFn = Callable[[Any], Mapping[str, tf.Tensor]]


class ServingModule:
    """A model together with the transform graph, as one SavedModel.

    `trackable` and `signatures()` are what `tf.saved_model.save` takes. Saved are the signatures' graphs, the variables
    and what the graphs look things up in, but not the Keras objects, which no server and no evaluator asks for: they
    made writing and checking the model take 2.6 times as long (ADR 306).

    Signatures, all from serialized *raw* tf.Examples unless named otherwise:
      serving_default: the model's outputs; needs no label and nothing that only the label is made of.
      transform_features: the transformed features with the label, which is what TFMA's
        preprocessing_function_names asks for when the label is made by Transform.
      predict_transformed: the model's outputs from serialized *transformed* tf.Examples.
      predict_features: the model's outputs from one tensor per raw feature, such as encoded pictures, string [n]; only
        where features of a fixed number of values are all that it needs.
    """

    def __init__(
        self,
        model: tf_keras.Model,
        *,
        raw_spec: Mapping[str, Any],
        label_keys: Sequence[str],
        transform_output: Any = None,
        outputs_fn: OutputsFn | None = None,
        features_fn: FeaturesFn | None = None,
    ):
        self.model, self._call_model = model, rewritten(model.__call__)
        self.transform_layer: Any = None if transform_output is None else transform_output.transform_features_layer()
        self._transform: Any = None if self.transform_layer is None else as_it_is(self.transform_layer.call)
        self._outputs_fn = rewritten(outputs_fn) if outputs_fn else default_outputs
        self._features_fn = rewritten(features_fn) if features_fn else lambda features, seeds: features
        self._label_keys = tuple(label_keys)
        self._raw_spec = dict(raw_spec)
        if transform_output is None:
            self._model_spec = {key: value for key, value in raw_spec.items() if key not in label_keys}
            self._serving_spec = self._model_spec
        else:
            transformed = transform_output.transformed_feature_spec()
            self._model_spec = {key: value for key, value in transformed.items() if key not in label_keys}
            self._serving_spec = self._without_label_only_features()

    @property
    def trackable(self) -> tf.Module:
        """The root of the SavedModel: `model_variables`, in the model's order and by name for a warm start; tables."""
        root = tf.Module()
        root.model_variables = list(self.model.variables)
        root.resources = [_lookups(part) for part in (self.model, self.transform_layer) if part is not None]
        return root

    def signatures(self) -> dict[str, Any]:
        """Concrete functions by signature name."""
        examples = tf.TensorSpec([None], tf.string, name=EXAMPLES)
        functions = {"serving_default": self._serve, "predict_transformed": self._predict_transformed}
        if self.transform_layer is not None:
            functions["transform_features"] = self._transform_features
        return {
            name: tf.function(fn, input_signature=[examples], autograph=False).get_concrete_function()
            for name, fn in functions.items()
        } | self._signature_of_features()

    def _signature_of_features(self) -> dict[str, Any]:
        """`predict_features`, where fixed-length features alone are enough for the model."""
        fixed = {key: value for key, value in self._serving_spec.items() if isinstance(value, tf.io.FixedLenFeature)}
        if self.transform_layer is None or not fixed or not self._makes_all_features(fixed):
            return {}

        def predict(**features: tf.Tensor) -> Mapping[str, tf.Tensor]:
            shaped = {key: tf.reshape(value, [-1, *fixed[key].shape]) for key, value in features.items()}
            return self._outputs(self._transform(shaped))

        specs = {
            key: tf.TensorSpec([None, *(size for size in value.shape if size != 1)], value.dtype, name=key)
            for key, value in fixed.items()
        }
        return {"predict_features": tf.function(predict, autograph=False).get_concrete_function(**specs)}

    def _serve(self, examples: tf.Tensor) -> Mapping[str, tf.Tensor]:
        features = tf.io.parse_example(examples, self._serving_spec)
        if self.transform_layer is not None:
            features = self._transform(features)
        return self._outputs(features)

    def _predict_transformed(self, examples: tf.Tensor) -> Mapping[str, tf.Tensor]:
        return self._outputs(tf.io.parse_example(examples, self._model_spec))

    def _transform_features(self, examples: tf.Tensor) -> Mapping[str, tf.Tensor]:
        transformed = self._transform(tf.io.parse_example(examples, self._raw_spec))
        return {
            key: tf.sparse.to_dense(value) if isinstance(value, tf.SparseTensor) else tf.convert_to_tensor(value)
            for key, value in transformed.items()
        }

    def _outputs(self, features: Mapping[str, Any]) -> Mapping[str, tf.Tensor]:
        missing = sorted(set(self._model_spec) - set(features))
        if missing:
            raise TrainingError(f"the transform graph does not make {', '.join(missing)} when the label is absent")
        named = {key: features[key] for key in self._model_spec}
        return dict(self._outputs_fn(self._call_model(self._features_fn(named, None), training=False)))

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
            made.update(self._transform(tf.io.parse_example(examples, spec)))
            return tf.size(examples)

        tf.function(trace, autograph=False).get_concrete_function(tf.TensorSpec([None], tf.string))
        return set(self._model_spec) <= made


def _lookups(layer: tf_keras.layers.Layer) -> list[Any]:
    """What the layer's graph needs besides variables of Keras layers: tables, files, parts that are not Keras's."""
    kinds = (tf.Variable, tf.saved_model.experimental.TrackableResource, tf.saved_model.Asset, _AutoTrackable)
    found = tf.train.TrackableView(layer).descendants()
    return [part for part in found if isinstance(part, kinds) and not isinstance(part, tf_keras.layers.Layer)]


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
