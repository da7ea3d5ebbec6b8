"""What a run says when it is over: the summary on the terminal and the JSON object."""

import dataclasses
import json
import os
import pathlib
import textwrap
from typing import Any

from pipeline.config import PipelineConfig
from pipeline.run_record import RunRecord


def describe(step: str, outputs: dict[str, str]) -> str:
    """Rows or bytes that a step wrote."""
    if not outputs:
        return ""
    size = _readable_bytes(sum(_num_bytes(uri) for uri in outputs.values()))
    ingested = _ingestion(outputs) if step == "ExampleGen" else {}
    rows, bad = sum(ingested.get("splits", {}).values()), ingested.get("bad_rows", 0)
    if not rows:
        return size
    return f"{rows:,} rows, " + (f"{bad:,} bad rows left out, " if bad else "") + size


def split_rows(outputs: dict[str, str]) -> dict[str, int]:
    """Rows of each split, from the ingestion report among the step's outputs."""
    return dict(_ingestion(outputs).get("splits", {}))


def _ingestion(outputs: dict[str, str]) -> dict[str, Any]:
    path = pathlib.Path(outputs.get("report", ""), "report.json")
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def read_verdict(evaluation_uri: str) -> dict[str, Any]:
    """The verdict.json that the Evaluator wrote beside its metrics."""
    return json.loads(pathlib.Path(evaluation_uri, "verdict.json").read_text(encoding="utf-8"))


def overall_metrics(verdict: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The whole split's metrics: name to value, bound, baseline and whether the bound was kept."""
    rows = [row for row in verdict["rows"] if row["slice"] == "all" and row["value"] is not None]
    return {row["metric"]: {key: row[key] for key in ("value", "bound", "baseline", "passed")} for row in rows}


def as_json(record: RunRecord) -> dict[str, Any]:
    """The object that `--json` prints."""
    content = dataclasses.asdict(record)
    content["steps"] = [{key: step[key] for key in ("name", "state", "seconds", "detail")} for step in content["steps"]]
    return content


def summary(record: RunRecord, config: PipelineConfig) -> str:
    """The summary for a person: steps, splits, metrics against their bounds, verdict, model, prediction, what next."""
    parts = [_steps(record), _splits(record), _metrics(record), _verdict(record), _model(record)]
    parts += [_predictions(record), _next(record)]
    return "\n".join(part for part in parts if part)


def _steps(record: RunRecord) -> str:
    width = max(len(step.name) for step in record.steps)
    lines = [f"\nRun {record.run_id}: {record.state} in {record.seconds:.1f} s"]
    for step in record.steps:
        seconds = f"{step.seconds:6.1f} s" if step.state in ("ran", "failed") else " " * 8
        lines.append(f"  {step.name:{width}}  {step.state:7}  {seconds}  {step.detail}".rstrip())
    states = {step.state for step in record.steps}
    if states == {"cached"}:
        lines.append("  Nothing was run again: code, configuration and data are those of the last run.")
    return "\n".join(lines)


def _splits(record: RunRecord) -> str:
    if not record.splits:
        return ""
    total = sum(record.splits.values())
    return "Data    " + ", ".join(f"{name} {rows:,} ({rows / total:.0%})" for name, rows in record.splits.items())


def _metrics(record: RunRecord) -> str:
    lines = []
    for name, metric in record.metrics.items():
        baseline = f"  baseline {metric['baseline']:.4f}" if metric["baseline"] is not None else ""
        mark = {True: "kept", False: "NOT KEPT", None: ""}[metric["passed"]]
        bound = f"  must be {metric['bound']}: {mark}" if metric["bound"] else ""
        lines.append(f"  {name:22} {metric['value']:.4f}{bound}{baseline}")
    return "\n".join(["Metrics", *lines]) if lines else ""


def _verdict(record: RunRecord) -> str:
    if record.error:
        return ""
    reasons = "; ".join(record.reasons)
    return f"Verdict {record.verdict}" + (f": {reasons}" if reasons else "")


def _model(record: RunRecord) -> str:
    if record.pushed_version is None:
        return ""
    return f"Model   {record.serving_dir}/{record.pushed_version}"


def _predictions(record: RunRecord) -> str:
    asked = record.samples or ([record.prediction] if record.prediction else [])
    return "\n".join(_prediction(item["input"], item["output"]) for item in asked)


def _prediction(inputs: dict[str, Any], output: dict[str, Any]) -> str:
    shown = ", ".join(f"{key}={value}" for key, value in list(inputs.items())[:6])
    more = f", and {len(inputs) - 6} more" if len(inputs) > 6 else ""
    texts = {key: value for key, value in output.items() if isinstance(value, str) and "\n" in value}
    rest = {key: value for key, value in output.items() if key not in texts}
    # Text of several lines reads badly as JSON.
    blocks = [f"\n{key}:\n{textwrap.indent(value, '    | ', lambda line: True)}" for key, value in texts.items()]
    return f"Asked   {shown}{more}\nAnswer  {json.dumps(rest)}{''.join(blocks)}"


def _next(record: RunRecord) -> str:
    root = "" if record.root == os.path.abspath("build") else f" --root {record.root}"
    commands = [f"sluice show{root}", f"sluice runs{root}"]
    if record.pushed_version is not None:
        commands += [f"sluice predict --base {record.serving_dir}", f"sluice serve {record.serving_dir}"]
    return "Next    " + "\n        ".join(commands) + f"\nLog     {record.log_path}"


def _num_bytes(uri: str) -> int:
    if "://" in uri:
        return 0
    path = pathlib.Path(uri)
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _readable_bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError("unreachable")
