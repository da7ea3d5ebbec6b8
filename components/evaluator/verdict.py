"""The verdict and its reasons, from what TFMA wrote."""

import dataclasses
import itertools
import json
import math
import os
import re

import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.proto import config_pb2, validation_result_pb2
from tfx.dsl.io import fileio

from components.evaluator.results import WHOLE, CalibrationBin, Confusion, Number, read_results, slice_name

CANDIDATE, BASELINE = "candidate", "baseline"
VERDICT_FILE = "verdict.json"


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the reason table; `passed` is None where no bound decides, `low` and `high` where no interval is."""

    metric: str
    slice: str
    value: float | None
    bound: str
    baseline: float | None
    passed: bool | None
    low: float | None = None
    high: float | None = None


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Whether the model is blessed, and why."""

    blessed: bool
    reasons: list[str]
    rows: list[Row]
    num_examples: int
    small_slices: list[str]
    has_baseline: bool
    slice_examples: dict[str, int] = dataclasses.field(default_factory=dict)
    """Examples by slice, small ones included where they are known."""
    confusion: Confusion | None = None
    calibration: tuple[CalibrationBin, ...] = ()

    def save(self, folder: str) -> None:
        """Writes verdict.json."""
        with fileio.open(os.path.join(folder, VERDICT_FILE), "w") as file:
            file.write(json.dumps(dataclasses.asdict(self), indent=1))


def judge(evaluation_dir: str, eval_config: config_pb2.EvalConfig) -> Verdict:
    """Reads one evaluation.

    TFMA's own validation decides, except that the failures of slices below the minimum size do not count: TFMA drops
    such slices and then reports their metrics as not found, or, where rows came in groups, judges them like others.
    """
    results, thresholds = read_results(evaluation_dir, CANDIDATE), _thresholds(eval_config)
    if not any(results.numbers.values()):  # without a baseline TFMA drops the model's name
        results = read_results(evaluation_dir, "")
    values, baseline = results.numbers, read_results(evaluation_dir, BASELINE).numbers
    has_baseline = any(baseline.values())
    validation = tfma.load_validation_result(evaluation_dir)
    # With several models TFMA lists a slice that it left out among the validations only.
    validated = {slice_name(item.slice_key) for item in validation.metric_validations_per_slice}
    minimum = eval_config.options.min_slice_size.value
    names = (validated | set(values)) - {WHOLE}
    small = sorted((name for name in names if _is_small(values.get(name), minimum)), key=natural_order)
    counts = {name: int(found["example_count"].value) for name, found in values.items() if "example_count" in found}
    values = {name: numbers for name, numbers in values.items() if name not in small}
    failures = _failures(validation, set(small))
    rows = []
    for name in sorted(values, key=lambda name: (name != WHOLE, natural_order(name))):
        for metric, number in sorted(values[name].items()):
            if metric != "example_count":
                reference = baseline.get(name, {}).get(metric)
                rows.append(_row(metric, name, number, reference and reference.value, thresholds, failures))
    # A failure that belongs to no row (a metric that was never computed) must not get lost.
    shown = {(row.metric, row.slice) for row in rows}
    rows += [
        Row(metric, name, None, text, None, False)
        for (metric, name), text in failures.items()
        if (metric, name) not in shown
    ]
    return Verdict(
        blessed=not failures,
        reasons=_reasons(rows, has_baseline),
        rows=rows,
        num_examples=int(values.get(WHOLE, {}).get("example_count", Number(0)).value),
        small_slices=small,
        slice_examples=counts,
        has_baseline=has_baseline,
        confusion=results.confusion,
        calibration=results.calibration,
    )


def natural_order(name: str) -> list[tuple[bool, float, str]]:
    """A key that puts hour=2 before hour=10."""
    parts = re.split(r"(\d+(?:\.\d+)?)", name)
    return [
        (not number, float(part) if number else 0.0, part)
        for part, number in zip(parts, itertools.cycle((False, True)))
    ]


def _is_small(numbers: dict[str, Number] | None, minimum: int) -> bool:
    """Whether TFMA left the slice out, or, where rows came in groups, would have done so."""
    return not numbers or ("example_count" in numbers and numbers["example_count"].value < minimum)


def _thresholds(eval_config: config_pb2.EvalConfig) -> dict[tuple[str, bool], list[config_pb2.MetricThreshold]]:
    """(result name of the metric, whether for the whole) to its thresholds."""
    found: dict[tuple[str, bool], list[config_pb2.MetricThreshold]] = {}
    for metric in (metric for spec in eval_config.metrics_specs for metric in spec.metrics):
        name = json.loads(metric.config or "{}").get("name") or tfma_name(metric.class_name)
        if metric.HasField("threshold"):
            found.setdefault((name, True), []).append(metric.threshold)
            found.setdefault((name, False), []).append(metric.threshold)
        for per_slice in metric.per_slice_thresholds:
            for spec in per_slice.slicing_specs:
                found.setdefault((name, spec == config_pb2.SlicingSpec()), []).append(per_slice.threshold)
    return found


def tfma_name(class_name: str) -> str:
    """What TFMA calls a metric class in its results: its own snake case, in which AUC stays one word."""
    words = "".join(
        f"_{letter.lower()}" if letter.isupper() and index and not class_name[index - 1].isupper() else letter.lower()
        for index, letter in enumerate(class_name)
    )
    return {"aucprecision_recall": "auc_precision_recall"}.get(words, words)


def _row(metric, name, number, baseline, thresholds, failures) -> Row:
    deciding = thresholds.get((metric, name == WHOLE), [])
    bounds = [text for threshold in deciding for text in _bounds(threshold, baseline)]
    passed = None if not bounds else (metric, name) not in failures
    value = None if math.isnan(number.value) else number.value
    return Row(metric, name, value, " and ".join(bounds), baseline, passed, number.low, number.high)


def _bounds(threshold: config_pb2.MetricThreshold, baseline: float | None) -> list[str]:
    texts = []
    if threshold.value_threshold.HasField("lower_bound"):
        texts.append(f">= {threshold.value_threshold.lower_bound.value:g}")
    if threshold.value_threshold.HasField("upper_bound"):
        texts.append(f"<= {threshold.value_threshold.upper_bound.value:g}")
    if threshold.HasField("change_threshold") and baseline is not None:
        change = threshold.change_threshold
        sign = ">=" if change.direction == config_pb2.MetricDirection.HIGHER_IS_BETTER else "<="
        if change.HasField("absolute"):
            texts.append(f"{sign} {baseline + change.absolute.value:.4f} (baseline {change.absolute.value:+g})")
        if change.HasField("relative"):
            limit = baseline * (1 + change.relative.value)
            texts.append(f"{sign} {limit:.4f} (baseline {change.relative.value:+.1%})")
    return texts


def _failures(result: validation_result_pb2.ValidationResult, small: set[str]) -> dict[tuple[str, str], str]:
    """(metric, slice) of every failure that counts, to TFMA's message."""
    found = {}
    for validation in result.metric_validations_per_slice:
        name = slice_name(validation.slice_key)
        if name in small:
            continue
        for failure in validation.failures:
            found[(failure.metric_key.name, name)] = failure.message or "threshold not met"
    if not result.validation_ok and not result.metric_validations_per_slice:
        found[("validation", WHOLE)] = "TFMA could not validate: " + (str(result.missing_slices) or "no metrics")
    return found


def _reasons(rows: list[Row], has_baseline: bool) -> list[str]:
    failed = [row for row in rows if row.passed is False]
    if not failed:
        kept = sum(row.passed is True for row in rows)
        note = "" if has_baseline else "; no blessed model yet to compare with"
        return [f"all {kept} bounds kept{note}"]
    return [
        f"{row.metric}{'' if row.slice == WHOLE else f' on {row.slice}'} "
        + (f"was not computed ({row.bound})" if row.value is None else f"is {row.value:.4f}, must be {row.bound}")
        for row in failed
    ]
