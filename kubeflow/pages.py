"""HTML pages that Kubeflow's page of a run shows beside a step: statistics, anomalies, evaluation, verdicts."""

import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from components import html_page
from kubeflow import launcher_paths

_OWN_PAGE = "report.html"


def write(path: str, step: str, outputs: Mapping[str, Any], uris: Mapping[str, str]) -> None:
    """Writes the page of a step to the file `path`.

    A component that makes a page itself (`report.html` in one of its outputs) is shown with that.

    Args:
      path: file of the system.HTML output.
      step: id of the step.
      outputs: TFX artifacts by port.
      uris: local path to URI: a page must name what is there when the container is gone.
    """
    page = launcher_paths.with_uris(_page(step, outputs), uris)
    assert isinstance(page, str)
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(path).write_text(page, encoding="utf-8")


def with_address(message: str, uri: str) -> str:
    """`message` with the address of the step's page in place of the path of a component's own page."""
    return re.sub(rf"/\S*/{re.escape(_OWN_PAGE)}", lambda _: uri, message)


def _page(step: str, outputs: Mapping[str, Any]) -> str:
    for made in outputs.values():
        own = os.path.join(made.uri, _OWN_PAGE)
        if os.path.isfile(own):
            return pathlib.Path(own).read_text(encoding="utf-8")
    bodies = []
    for made in outputs.values():
        maker = _MAKERS.get(made.type_name)
        if maker:
            bodies.append(maker(made))
    return html_page.page(step, "".join(bodies) or html_page.tag("p", "nothing to show"))


def _statistics(made: Any) -> str:
    import tensorflow_data_validation as tfdv
    from tfx.types import artifact_utils

    body = ""
    for split in artifact_utils.decode_split_names(made.split_names):
        folder = artifact_utils.get_split_uris([made], split)[0]
        for file in sorted(os.listdir(folder)):
            statistics = tfdv.load_stats_binary(os.path.join(folder, file))
            for dataset in statistics.datasets:
                body += html_page.tag("h2", f"{split}: {dataset.num_examples:,} examples")
                body += html_page.table(
                    ["feature", "values", "missing", "mean", "deviation", "least", "most", "distinct"],
                    [_feature_row(feature, dataset.num_examples) for feature in dataset.features],
                )
    return body


def _feature_row(feature: Any, num_examples: int) -> list[object]:
    name = feature.name or ".".join(feature.path.step)
    kind = feature.WhichOneof("stats")
    common = getattr(feature, kind).common_stats
    missing = num_examples - common.num_non_missing
    if kind == "num_stats":
        stats = feature.num_stats
        return [name, common.num_non_missing, missing, stats.mean, stats.std_dev, stats.min, stats.max, ""]
    distinct = feature.string_stats.unique if kind == "string_stats" else ""
    return [name, common.num_non_missing, missing, "", "", "", "", distinct]


def _anomalies(made: Any) -> str:
    from tensorflow_metadata.proto.v0 import anomalies_pb2
    from tfx.types import artifact_utils

    body = ""
    for split in artifact_utils.decode_split_names(made.split_names):
        folder = pathlib.Path(artifact_utils.get_split_uris([made], split)[0])
        for file in sorted(folder.iterdir()):
            anomalies = anomalies_pb2.Anomalies.FromString(file.read_bytes())
            rows = [[name, info.short_description, info.description] for name, info in anomalies.anomaly_info.items()]
            body += html_page.tag("h2", f"{split}: {len(rows)} anomalies")
            body += html_page.table(["feature", "what", "more"], rows) if rows else ""
    return body


def _evaluation(made: Any) -> str:
    import tensorflow_model_analysis as tfma

    body = _validation(made.uri)
    columns = _results(tfma, made.uri)
    names = sorted({(where, metric) for values in columns.values() for where, metric in values})
    rows = [
        [where, metric, *(values.get((where, metric), "") for values in columns.values())] for where, metric in names
    ]
    return body + html_page.tag("h2", "Metrics") + html_page.table(["slice", "metric", *columns], rows)


def _results(tfma: Any, uri: str) -> dict[str, dict[tuple[str, str], float]]:
    """Model name to (slice, metric) to value."""
    columns: dict[str, dict[tuple[str, str], float]] = {}
    for model in ("candidate", "baseline", ""):
        results = tfma.load_eval_results([uri], model_name=model).get_results()
        if results and not (model == "" and columns):
            values = columns[model or "model"] = {}
            for key, metrics in results[0].slicing_metrics:
                where = ", ".join(f"{column}={value}" for column, value in key) or "all"
                for metric, value in metrics.get("", {}).get("", {}).items():
                    if "doubleValue" in value:
                        values[where, metric] = value["doubleValue"]
    return columns


def _validation(uri: str) -> str:
    import tensorflow_model_analysis as tfma

    try:
        result = tfma.load_validation_result(uri)
    except (OSError, ValueError):
        return ""  # an evaluation without thresholds has none
    verdict = html_page.tag("p", "all bounds kept" if result.validation_ok else "bounds broken", css="verdict")
    failures = [
        [failure.metric_key.name, failure.message]
        for per_slice in result.metric_validations_per_slice
        for failure in per_slice.failures
    ]
    return verdict + (html_page.table(["metric", "why"], failures) if failures else "")


_MAKERS = {
    "ExampleStatistics": _statistics,
    "ExampleAnomalies": _anomalies,
    "ModelEvaluation": _evaluation,
}
