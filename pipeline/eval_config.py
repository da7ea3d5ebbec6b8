"""TFMA's EvalConfig from the workload's `evaluate` section."""

import difflib
import json

import tf_keras
from tensorflow_model_analysis.metrics import metric_types
from tensorflow_model_analysis.proto import config_pb2

from components.evaluator.results import CONFUSION_AT
from pipeline.config import EvaluateConfig, MetricConfig
from pipeline.errors import ConfigError

# A SavedModel called through its signatures, whatever wrote it. Unless told, TFMA tries to load it as a Keras model
# first, once for every copy that it makes.
PLAIN_SAVED_MODEL = "tf_generic"


def build_eval_config(
    config: EvaluateConfig, *, has_baseline: bool = True, model_type: str = PLAIN_SAVED_MODEL
) -> config_pb2.EvalConfig:
    """The configuration of the stock Evaluator.

    Args:
      config: metrics with their bounds, slices, and how the model is called.
      has_baseline: whether a baseline model is declared; the stock Evaluator removes it where none was blessed yet.
      model_type: how TFMA loads the model; empty lets it find out.
    """
    model = config_pb2.ModelSpec(
        model_type=model_type,
        signature_name=config.signature,
        label_key=config.label_key,
        prediction_key=config.prediction_key or "",
        preprocessing_function_names=[config.preprocessing] if config.preprocessing else [],
    )
    models = [model]
    if has_baseline:
        baseline = config_pb2.ModelSpec()
        baseline.CopyFrom(model)
        baseline.is_baseline, baseline.name = True, "baseline"
        model.name = "candidate"
        models = [model, baseline]
    return config_pb2.EvalConfig(
        model_specs=models,
        slicing_specs=[
            config_pb2.SlicingSpec(),
            *[config_pb2.SlicingSpec(feature_keys=keys) for keys in config.slices],
        ],
        metrics_specs=[
            config_pb2.MetricsSpec(
                metrics=[
                    config_pb2.MetricConfig(class_name="ExampleCount"),
                    *[_metric(metric, config, has_baseline) for metric in config.metrics],
                    *_confusion(config),
                ]
            )
        ],
        options=_options(config),
    )


def _options(config: EvaluateConfig) -> config_pb2.Options:
    options = config_pb2.Options()
    options.compute_confidence_intervals.value = config.confidence_intervals
    # A slice too small is left out by TFMA itself, so that it can never decide; the report names it.
    options.min_slice_size.value = config.min_slice_size
    return options


def _metric(metric: MetricConfig, config: EvaluateConfig, has_baseline: bool) -> config_pb2.MetricConfig:
    module, _, class_name = metric.name.rpartition(".")
    if not module:
        _check_name(class_name)
    result = config_pb2.MetricConfig(
        class_name=class_name,
        module=module,
        config=json.dumps(metric.params, sort_keys=True) if metric.params else "",
    )
    if not metric.decides:
        return result
    # Never `metric.threshold`: TFMA holds that against every slice.
    keys = config.slices if metric.on_slices else ()
    specs = [config_pb2.SlicingSpec(), *[config_pb2.SlicingSpec(feature_keys=names) for names in keys]]
    threshold = _threshold(metric, has_baseline)
    result.per_slice_thresholds.append(config_pb2.PerSliceMetricThreshold(slicing_specs=specs, threshold=threshold))
    return result


def _check_name(class_name: str) -> None:
    """TFMA itself would find out after the training."""
    known = {*metric_types.registered_metrics(), *(name for name in dir(tf_keras.metrics) if name[0].isupper())}
    if class_name not in known:
        close = difflib.get_close_matches(class_name, known, n=1, cutoff=0.5)
        raise ConfigError(
            f"evaluate.metrics: neither TFMA nor tf_keras has a metric `{class_name}`"
            + (f"; did you mean {close[0]}?" if close else "; a metric of your own needs its dotted path")
        )


def _confusion(config: EvaluateConfig) -> list[config_pb2.MetricConfig]:
    threshold = config.operating_threshold
    if threshold is None:
        return []
    # By the plot: it is made from the histogram that AUC needs anyway. ConfusionMatrixAtThresholds would go over every
    # example of every slice once more.
    steps = 100 if round(threshold, 2) == threshold else 1000
    params = {"name": f"{CONFUSION_AT}{threshold:g}", "num_thresholds": steps + 1}
    return [config_pb2.MetricConfig(class_name="ConfusionMatrixPlot", config=json.dumps(params))]


def _threshold(metric: MetricConfig, has_baseline: bool) -> config_pb2.MetricThreshold:
    threshold = config_pb2.MetricThreshold()
    if metric.at_least is not None:
        threshold.value_threshold.lower_bound.value = metric.at_least
    if metric.at_most is not None:
        threshold.value_threshold.upper_bound.value = metric.at_most
    if metric.max_loss is not None and has_baseline:
        direction = config_pb2.MetricDirection
        threshold.change_threshold.direction = (
            direction.HIGHER_IS_BETTER if metric.higher_is_better else direction.LOWER_IS_BETTER
        )
        # TFMA compares the change (candidate - baseline) with this bound, whose sign follows the direction.
        threshold.change_threshold.absolute.value = -metric.max_loss if metric.higher_is_better else metric.max_loss
    return threshold
