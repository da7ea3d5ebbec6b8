"""Reads what the Evaluator wrote: metrics by slice, bounds, and why a model was blessed or not."""

import dataclasses
import math
import os
from typing import Any

import tensorflow_model_analysis as tfma

from pipeline.config import EvaluateConfig, MetricConfig

CANDIDATE, BASELINE = "candidate", "baseline"
# What TFMA calls a metric in its results, where that is not the snake case of its class.
_RESULT_NAMES = {"AUC": "auc", "AUCPrecisionRecall": "auc_precision_recall", "MSE": "mse"}


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the reason table."""

    metric: str
    slice_name: str
    value: float | None
    bound: str
    baseline: float | None
    passed: bool | None
    """None where no bound decides."""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The Evaluator's result in plain values."""

    blessed: bool
    rows: list[Row]
    num_examples: int
    small_slices: list[str]
    """Slices under the minimum size: reported, never deciding."""
    has_baseline: bool

    @property
    def reasons(self) -> list[str]:
        """Why the model was not blessed, or that every bound was kept."""
        failed = [_sentence(row) for row in self.rows if row.passed is False]
        if failed:
            return failed
        bounds = [row for row in self.rows if row.passed]
        return [
            f"all {len(bounds)} bounds kept" + ("" if self.has_baseline else " (no blessed model yet to compare with)")
        ]

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """The whole split's metrics: name to value, bound, baseline and whether the bound was kept."""
        overall = [row for row in self.rows if row.slice_name == "all"]
        return {
            row.metric: {"value": row.value, "bound": row.bound, "baseline": row.baseline, "passed": row.passed}
            for row in overall
        }


def load(config: EvaluateConfig, evaluation_uri: str, blessing_uri: str) -> Evaluation:
    """Reads the evaluation and blessing artifacts of one Evaluator execution.

    A model counts as blessed only if the Evaluator says so; the rows explain it.
    """
    results = tfma.load_eval_results([evaluation_uri], model_name=CANDIDATE).get_results()
    by_model = {CANDIDATE: results[0]}
    baselines = tfma.load_eval_results([evaluation_uri], model_name=BASELINE).get_results()
    if baselines:
        by_model[BASELINE] = baselines[0]
    values = {model: _values(result) for model, result in by_model.items()}
    rows = [row for metric in config.metrics for row in _rows(metric, values)]
    counts = {name: found.get("example_count") for name, found in values[CANDIDATE].items()}
    return Evaluation(
        blessed=os.path.exists(os.path.join(blessing_uri, "BLESSED")),
        rows=rows,
        num_examples=int(counts.get("all") or 0),
        small_slices=sorted(name for name, count in counts.items() if count is None),
        has_baseline=BASELINE in by_model,
    )


def _values(result) -> dict[str, dict[str, float]]:
    """Slice name to metric name to value; metrics that are no single number are left to the plots."""
    found: dict[str, dict[str, float]] = {}
    for key, metrics in result.slicing_metrics:
        name = ", ".join(f"{column}={value}" for column, value in key) or "all"
        numbers = metrics.get("", {}).get("", {})
        found[name] = {metric: value["doubleValue"] for metric, value in numbers.items() if "doubleValue" in value}
    return found


def _rows(metric: MetricConfig, values: dict[str, dict[str, dict[str, float]]]) -> list[Row]:
    name = metric.params.get("name") or _RESULT_NAMES.get(metric.name) or _snake_case(metric.name)
    rows = []
    for slice_name, found in sorted(values[CANDIDATE].items(), key=lambda item: (item[0] != "all", item[0])):
        if name in found:
            baseline = values.get(BASELINE, {}).get(slice_name, {}).get(name)
            rows.append(_judge(metric, name, slice_name, found[name], baseline))
    return rows


def _judge(metric: MetricConfig, name: str, slice_name: str, value: float, baseline: float | None) -> Row:
    if not metric.decides or (slice_name != "all" and not metric.on_slices):
        return Row(name, slice_name, value, "", baseline, None)
    bounds, kept = [], not math.isnan(value)
    if metric.at_least is not None:
        bounds.append(f">= {metric.at_least:g}")
        kept = kept and value >= metric.at_least
    if metric.at_most is not None:
        bounds.append(f"<= {metric.at_most:g}")
        kept = kept and value <= metric.at_most
    if metric.max_loss is not None and baseline is not None:
        loss = baseline - value if metric.higher_is_better else value - baseline
        limit = baseline - metric.max_loss if metric.higher_is_better else baseline + metric.max_loss
        bounds.append(f"{'>=' if metric.higher_is_better else '<='} {limit:.4f} (baseline {baseline:.4f})")
        kept = kept and loss <= metric.max_loss
    return Row(name, slice_name, value, " and ".join(bounds), baseline, kept if bounds else None)


def _sentence(row: Row) -> str:
    where = "" if row.slice_name == "all" else f" on {row.slice_name}"
    return f"{row.metric}{where} is {row.value:.4f}, must be {row.bound}"


def _snake_case(name: str) -> str:
    return "".join(
        f"_{letter.lower()}" if letter.isupper() and index else letter.lower() for index, letter in enumerate(name)
    )
