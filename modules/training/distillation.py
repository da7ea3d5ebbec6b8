"""Knowledge distillation: a student learns from a teacher's answers as well as from the labels.

The teacher is a SavedModel of this engine. It answers inside the input pipeline, from the same serialized examples, so
the step stays as it is; and with `cache` it answers once per example instead of once per epoch.
"""

from typing import Any

import tensorflow as tf

from modules.training.errors import TrainingConfigError
from modules.training.graph_code import as_it_is
from modules.training.input import LABEL, ParseFn
from modules.training.step import LossFn, align_labels, only_output

_TEACHER = "teacher"
_SIGNATURE = "predict_transformed"
_TINY = 1e-7


class Teacher:
    """A loaded teacher and how much to listen to it."""

    def __init__(self, path: str, weight: float, temperature: float, *, from_logits: bool):
        """Loads the teacher.

        Args:
          path: folder of the teacher's SavedModel.
          weight: share of the teacher's answers in the loss; the labels have the rest.
          temperature: above 1, the teacher's second and third thoughts count more.
          from_logits: whether teacher and student answer with logits instead of probabilities.

        Raises:
          TrainingConfigError: the folder has no such SavedModel, or it has several outputs.
        """
        try:
            self._loaded = tf.saved_model.load(path)
            self._answer = self._loaded.signatures[_SIGNATURE]
        except (OSError, KeyError) as error:
            raise TrainingConfigError(
                f"teacher {path} is not a SavedModel of this engine with the signature {_SIGNATURE!r}: {error}"
            ) from None
        outputs = sorted(self._answer.structured_outputs)
        if len(outputs) != 1:
            raise TrainingConfigError(f"teacher {path} has the outputs {', '.join(outputs)}; distillation needs one")
        self._output = outputs[0]
        self._weight, self._temperature, self._from_logits = weight, temperature, from_logits

    def parse(self, parse: ParseFn) -> ParseFn:
        """A parse function whose labels carry the teacher's answers along."""

        @as_it_is
        def with_teacher(serialized: tf.Tensor) -> tuple:
            features, labels, *rest = parse(serialized)
            answers = self._answer(serialized)[self._output]
            return features, {LABEL: labels, _TEACHER: answers}, *rest

        return with_teacher

    def loss(self, loss: LossFn) -> LossFn:
        """(1 - weight) * loss + weight * temperature**2 * cross-entropy to the softened answers, per example."""

        def compute(labels: Any, outputs: Any) -> tf.Tensor:
            student = self._logits(only_output(outputs)) / self._temperature
            teacher = self._logits(align_labels(labels[_TEACHER], only_output(outputs))) / self._temperature
            soft = _cross_entropy(teacher, student) * self._temperature**2
            return (1.0 - self._weight) * loss(labels[LABEL], outputs) + self._weight * soft

        return compute

    def _logits(self, outputs: tf.Tensor) -> tf.Tensor:
        if self._from_logits:
            return outputs
        outputs = tf.clip_by_value(outputs, _TINY, 1.0 - _TINY)
        return tf.math.log(outputs) - tf.math.log1p(-outputs) if outputs.shape[-1] == 1 else tf.math.log(outputs)


def _cross_entropy(teacher: tf.Tensor, student: tf.Tensor) -> tf.Tensor:
    """From logits, float32 [n]; one column means a sigmoid, several a softmax."""
    if student.shape[-1] == 1:
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.sigmoid(teacher), logits=student)[:, 0]
    return tf.nn.softmax_cross_entropy_with_logits(labels=tf.nn.softmax(teacher), logits=student)
