"""What TFMA wrote, read as its protocol buffers: its own loader turns every plot into JSON first, which is slow."""

import dataclasses
from typing import Any

import tensorflow_model_analysis as tfma

WHOLE = "all"
# What a confusion matrix plot is called that holds the matrix at the operating threshold; the threshold follows.
CONFUSION_AT = "confusion_at_"


@dataclasses.dataclass(frozen=True)
class Number:
    """A metric's value; `low` and `high` bound its confidence interval where one was computed."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclasses.dataclass(frozen=True)
class Confusion:
    """Counts of examples at one threshold of the prediction."""

    threshold: float
    true_positives: float
    false_positives: float
    true_negatives: float
    false_negatives: float


@dataclasses.dataclass(frozen=True)
class CalibrationBin:
    """Examples whose prediction lies in [low, high): how many, their mean prediction and their mean label."""

    low: float
    high: float
    count: float
    mean_prediction: float
    mean_label: float


@dataclasses.dataclass(frozen=True)
class ModelResults:
    """One model's results: numbers by slice and metric (a slice left out as too small is empty), and the whole split's
    confusion matrix and calibration, where the EvalConfig asks for them."""

    numbers: dict[str, dict[str, Number]]
    confusion: Confusion | None
    calibration: tuple[CalibrationBin, ...]


def read_results(evaluation_dir: str, model_name: str, num_bins: int = 10) -> ModelResults:
    """Reads the results of one model.

    Args:
      evaluation_dir: the Evaluator's output.
      model_name: name in the EvalConfig; empty where there is only one model.
      num_bins: how many equal parts of [0, 1] the calibration of the whole split is summed up in.
    """
    plots = [
        item
        for record in tfma.load_plots(evaluation_dir)
        if slice_name(record.slice_key) == WHOLE
        for item in record.plot_keys_and_values
        if _is_of(item.key, model_name)
    ]
    return ModelResults(read_numbers(evaluation_dir, model_name), _confusion(plots), _calibration(plots, num_bins))


def read_numbers(evaluation_dir: str, model_name: str) -> dict[str, dict[str, Number]]:
    """Slice to metric to number, of one model; arguments as in read_results. Plots, which are large, stay unread."""
    numbers: dict[str, dict[str, Number]] = {}
    for record in tfma.load_metrics(evaluation_dir):
        found = [item for item in record.metric_keys_and_values if _is_of(item.key, model_name)]
        if not found and any(item.key.model_name for item in record.metric_keys_and_values):
            continue  # a slice that only the other model has
        name = slice_name(record.slice_key)
        numbers[name] = {}
        for item in found:
            if item.value.WhichOneof("type") == "double_value" and not item.key.is_diff:
                numbers[name][item.key.name] = _number(item)
    return numbers


def slice_name(key: Any) -> str:
    """A slice as people read it, such as `payment_type=Cash`; `all` for the whole split."""
    parts = []
    for single in key.single_slice_keys:
        kind = single.WhichOneof("kind")
        value = getattr(single, kind) if kind else ""
        parts.append(f"{single.column}={value.decode(errors='replace') if isinstance(value, bytes) else value}")
    return ", ".join(parts) or WHOLE


def _is_of(key: Any, model_name: str) -> bool:
    return key.model_name == model_name and not key.output_name and not key.HasField("sub_key")


def _number(item: Any) -> Number:
    value = item.value.double_value.value
    if not item.HasField("confidence_interval"):
        return Number(value)
    interval = item.confidence_interval
    return Number(value, interval.lower_bound.double_value.value, interval.upper_bound.double_value.value)


def _confusion(plots: list[Any]) -> Confusion | None:
    for item in plots:
        if not item.key.name.startswith(CONFUSION_AT):
            continue
        threshold = float(item.key.name.removeprefix(CONFUSION_AT))
        matrices = item.value.confusion_matrix_at_thresholds.matrices
        matrix = min(matrices, key=lambda matrix: abs(matrix.threshold - threshold))
        counts = (matrix.true_positives, matrix.false_positives, matrix.true_negatives, matrix.false_negatives)
        return Confusion(threshold, *counts)
    return None


def _calibration(plots: list[Any], num_bins: int) -> tuple[CalibrationBin, ...]:
    sums = [[0.0, 0.0, 0.0] for _ in range(num_bins)]  # examples, predictions, labels
    for item in plots:
        for bucket in item.value.calibration_histogram_buckets.buckets:
            if not bucket.num_weighted_examples.value:
                continue
            middle = (bucket.lower_threshold_inclusive + bucket.upper_threshold_exclusive) / 2
            total = sums[min(num_bins - 1, max(0, int(min(max(middle, 0.0), 1.0) * num_bins)))]
            total[0] += bucket.num_weighted_examples.value
            total[1] += bucket.total_weighted_refined_prediction.value
            total[2] += bucket.total_weighted_label.value
    return tuple(
        CalibrationBin(index / num_bins, (index + 1) / num_bins, count, predictions / count, labels / count)
        for index, (count, predictions, labels) in enumerate(sums)
        if count
    )
