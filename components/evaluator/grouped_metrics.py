"""Stock metrics that take a group of rows at once; see components.evaluator.row_groups.

A metric's meaning stays TFMA's or Keras': only the step that adds rows to its sums is replaced, for the kinds of
sums that TFMA has for plain numbers and for the one that holds Keras metrics. Everything after it (merging, curves,
thresholds, differences to the baseline) is the stock code. TFMA offers no public hook at that place, hence the private
names; tests/components/evaluator/test_grouped_metrics.py holds every number against the stock path.
"""

import copy
import json
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow_model_analysis as tfma
import tf_keras
from tensorflow_model_analysis.metrics import (
    binary_confusion_matrices,
    calibration,
    calibration_histogram,
    example_count,
    mean_regression_error,
    metric_types,
    metric_util,
    tf_metric_accumulators,
    tf_metric_wrapper,
)
from tensorflow_model_analysis.proto import config_pb2


class Grouped(tfma.metrics.Metric):
    """The metric `metric` of TFMA or tf_keras, computed from groups of rows.

    Args:
      metric: class name in tfma.metrics, else in tf_keras.metrics.
      params: its constructor's arguments.
      name: the name in the results.
    """

    def __init__(self, metric: str, params: dict[str, Any] | None = None, name: str | None = None) -> None:
        self._stock = _stock_metric(metric, {**(params or {}), **({"name": name} if name else {})})
        super().__init__(_unused, metric=metric, params=params, name=name or self._stock.name)

    def computations(self, *args: Any, **kwargs: Any) -> list:
        """The stock metric's computations with other combiners; arguments as in tfma.metrics.Metric.

        Raises:
          TypeError: the metric has a computation that needs single rows.
        """
        if isinstance(self._stock, tfma.metrics.Metric):
            found = self._stock.computations(*args, **kwargs)
        else:
            found = _keras_computations(self._stock, *args, **kwargs)
        return [_grouped(computation) for computation in found]


def grouped_eval_config(config: config_pb2.EvalConfig) -> config_pb2.EvalConfig | None:
    """The same evaluation from groups of rows; None where a metric or confidence intervals need single rows."""
    if config.options.compute_confidence_intervals.value:
        return None  # the intervals come from leaving out single rows
    result = copy.deepcopy(config)
    for spec in result.metrics_specs:
        metrics = [_grouped_metric(metric) for metric in spec.metrics]
        if None in metrics:
            return None
        del spec.metrics[:]
        spec.metrics.extend(metrics)
    return result


def _grouped_metric(metric: config_pb2.MetricConfig) -> config_pb2.MetricConfig | None:
    params = json.loads(metric.config or "{}")
    name = params.pop("name", None)
    if metric.module:
        return None
    try:
        grouped = Grouped(metric.class_name, params, name)
        grouped.computations(eval_config=config_pb2.EvalConfig(), model_names=[""], sub_keys=[None])
    except (TypeError, ValueError):
        return None  # TFMA itself says what is wrong with the metric, if anything is
    result = copy.deepcopy(metric)
    result.class_name, result.module = Grouped.__name__, Grouped.__module__
    result.config = json.dumps(
        {"metric": metric.class_name, "params": params, "name": name or grouped.name}, sort_keys=True
    )
    return result


def _stock_metric(class_name: str, params: dict[str, Any]) -> Any:
    registered = metric_types.registered_metrics()
    if class_name in registered:
        return registered[class_name](**params)
    if not isinstance(getattr(tf_keras.metrics, class_name, None), type):
        raise TypeError(f"neither tfma.metrics nor tf_keras.metrics has a metric {class_name!r}")
    return getattr(tf_keras.metrics, class_name)(**params)


def _unused() -> list:
    raise AssertionError("computations() is overridden")


def _keras_computations(
    metric: Any,
    eval_config: config_pb2.EvalConfig | None = None,
    schema: Any = None,
    model_names: list[str] | None = None,
    **_: Any,
) -> list:
    return [
        computation
        for name in model_names or [""]
        for computation in tf_metric_wrapper.tf_metric_computations(
            [copy.deepcopy(metric)], eval_config=eval_config, model_name=name
        )
    ]


def _grouped(computation: Any) -> Any:
    if not isinstance(computation, metric_types.MetricComputation):
        return computation  # made from the results of others
    kind = _GROUPED.get(type(computation.combiner))
    if kind is None or any(key.sub_key or key.aggregation_type for key in computation.keys):
        raise TypeError(f"{type(computation.combiner).__name__} needs single rows")
    combiner = copy.copy(computation.combiner)
    combiner.__class__ = kind
    return computation._replace(combiner=combiner)


def _rows(element: Any, eval_config: Any, model_name: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Labels (n, k) and predictions (n, l) of a group, found where the stock code finds a row's."""
    ((labels, predictions, _),) = metric_util.to_label_prediction_example_weight(
        element, eval_config=eval_config, model_name=model_name or "", flatten=False, squeeze=False
    )
    if len(labels) != len(predictions):
        raise ValueError(f"{len(labels)} labels and {len(predictions)} predictions: there must be one for each row")
    return labels.reshape(len(labels), -1), predictions.reshape(len(predictions), -1)


def _pairs(element: Any, eval_config: Any, model_name: str) -> tuple[np.ndarray, np.ndarray]:
    """Labels and predictions (m,), one pair for each output of each row: a class label becomes one-hot."""
    labels, predictions = _rows(element, eval_config, model_name)
    if labels.shape[1] == 1 < predictions.shape[1]:
        labels = np.eye(predictions.shape[1])[labels[:, 0].astype(np.int64)]
    if labels.shape != predictions.shape:
        raise ValueError(f"labels of shape {labels.shape} do not fit predictions of shape {predictions.shape}")
    return labels.ravel().astype(np.float64), predictions.ravel().astype(np.float64)


def _check_fractions(labels: np.ndarray) -> None:
    outside = labels[~((labels >= 0) & (labels <= 1))]
    if outside.size:
        raise ValueError(f"a label must be within [0, 1], found {outside[0]:g}")


class _Histogram(calibration_histogram._CalibrationHistogramCombiner):
    """Buckets by prediction, or by label, with the sums of weights, labels and predictions in each."""

    def add_input(self, accumulator: dict, element: Any) -> dict:
        labels, predictions = _pairs(element, self._eval_config, self._key.model_name)
        if np.isnan(predictions).any():
            raise ValueError(f"{int(np.isnan(predictions).sum())} of {len(predictions)} predictions are NaN")
        if self._fractional_labels:
            _check_fractions(labels)  # a label's two parts fall in one bucket and add up to it
        by = predictions if self._prediction_based_bucketing else labels
        position = np.clip((by - self._left) / self._range * self._num_buckets + 1, 0, self._num_buckets + 1)
        ids, inverse = np.unique(position.astype(np.int64), return_inverse=True)
        sums = [np.bincount(inverse, weights, len(ids)) for weights in (labels, predictions, None)]
        for bucket_id, *added in zip(ids.tolist(), *(total.tolist() for total in sums), strict=True):
            bucket = accumulator.get(bucket_id)
            if bucket is None:
                bucket = accumulator[bucket_id] = calibration_histogram.Bucket(bucket_id, 0.0, 0.0, 0.0)
            bucket.weighted_labels += added[0]
            bucket.weighted_predictions += added[1]
            bucket.weighted_examples += added[2]
        return accumulator


class _Matrices(binary_confusion_matrices._BinaryConfusionMatrixCombiner):
    """True and false positives and negatives at given thresholds."""

    def add_input(self, accumulator: dict, element: Any) -> dict:
        labels, predictions = _pairs(element, self._eval_config, self._key.model_name)
        weights = np.ones_like(labels)
        if self._enable_fractional_labels:
            _check_fractions(labels)
            weights = np.concatenate([1 - labels, labels])
            labels = np.repeat([0.0, 1.0], len(predictions))
            predictions = np.tile(predictions, 2)
        kept = weights > 0
        return self._binary_confusion_matrices.add_input(
            accumulator=accumulator,
            labels=labels[kept].tolist(),
            predictions=predictions[kept].tolist(),
            example_weights=weights[kept].tolist(),
            example_id=None,
        )


class _Count(example_count._ExampleCountCombiner):
    """Number of rows."""

    def add_input(self, accumulator: float, element: Any) -> float:
        labels = element.label
        while isinstance(labels, dict):
            labels = next(iter(labels.values()))
        return accumulator + len(labels)


class _Sums(calibration._WeightedLabelsPredictionsExamplesCombiner):
    """Sums of labels, of predictions, and the number of examples."""

    def add_input(self, accumulator: Any, element: Any) -> Any:
        labels, predictions = _pairs(element, self._eval_config, self._key.model_name)
        accumulator.total_weighted_examples += len(labels)
        accumulator.total_weighted_labels += float(labels.sum())
        accumulator.total_weighted_predictions += float(predictions.sum())
        return accumulator


class _Errors:
    """Sum of regression errors, each by the stock formula; an error of NaN does not count, as in the stock code."""

    def add_input(self, accumulator: Any, element: Any) -> Any:
        stock: Any = self
        labels, predictions = _pairs(element, stock._eval_config, stock._metric_key.model_name)
        for label, prediction in zip(labels[:, np.newaxis], predictions[:, np.newaxis], strict=True):
            error = stock._regression_error(label, prediction)
            if not np.isnan(error):
                accumulator.total_regression_error += error
                accumulator.total_example_weights += 1.0
        return accumulator


class _AbsoluteError(_Errors, mean_regression_error._MeanAbsoluteErrorCombiner):
    pass


class _SquaredError(_Errors, mean_regression_error._MeanSquaredErrorCombiner):
    pass


class _PercentageError(_Errors, mean_regression_error._MeanAbsolutePercentageErrorCombiner):
    pass


class _LogarithmicError(_Errors, mean_regression_error._MeanSquaredLogarithmicErrorCombiner):
    pass


class _Keras(tf_metric_wrapper._CompilableMetricsCombiner):
    """State of Keras metrics: groups are kept until there is enough for one call of update_state."""

    def add_input(self, accumulator: Any, element: Any) -> Any:
        labels, predictions = _rows(element, self._eval_config, self._model_name)
        accumulator.add_input(0, labels, predictions, np.ones((len(labels), 1), np.float32))
        if accumulator.should_flush():
            self._process_batch(accumulator)
        return accumulator

    def _process_batch(self, accumulator: Any) -> None:
        if not accumulator.len_inputs():
            return
        # The stock accumulator would stack the groups, which differ in size, as if each were a row.
        kept = tf_metric_accumulators.TFMetricsAccumulator.get_inputs(accumulator, 0)
        inputs = [np.concatenate(part) for part in kept]
        for index, metric in enumerate(self._metrics[self._output_names[0]]):
            metric.reset_states()
            metric.update_state(*inputs)
            accumulator.add_weights(0, index, metric.get_weights())
        accumulator.clear_inputs()


_ALL = (
    _Histogram,
    _Matrices,
    _Count,
    _Sums,
    _AbsoluteError,
    _SquaredError,
    _PercentageError,
    _LogarithmicError,
    _Keras,
)
_GROUPED: dict[type[beam.CombineFn], type[beam.CombineFn]] = {kind.__bases__[-1]: kind for kind in _ALL}
