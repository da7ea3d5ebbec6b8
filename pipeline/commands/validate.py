"""`sluice validate`: the data gate by itself, on folders."""

import argparse
import json
import os
import pathlib
import tempfile
from typing import Any

from pipeline.chatter import silenced

HELP = "judge data against a schema, without a pipeline"
_SHOWN = 3
_WIDEST = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--input", required=True, metavar="DIR", help="CSV files, TFRecords, or Split- folders")
    parser.add_argument("--schema", required=True, metavar="FILE", help="schema.pbtxt")
    parser.add_argument("--baseline", metavar="DIR", help="data or statistics that were accepted before, for drift")
    parser.add_argument("--serving", metavar="DIR", help="logged requests (tf.Examples or PredictionLogs), for skew")
    parser.add_argument(
        "--policy", metavar="FILE", help="YAML: a gate policy, or a workload.yaml, whose gate and ingest are used"
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="FEATURE:RULE",
        help="accept one finding this once; repeatable; * as FEATURE stands for every column",
    )
    parser.add_argument("--html", metavar="FILE", help="write the page there")
    parser.add_argument("--json", action="store_true", help="print the verdict as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Prints the verdict.

    Raises:
      DataRejectedError: a finding blocks; exit code 3.
      GateConfigError: a policy, schema or folder that cannot be used; exit code 2.
    """
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # reading statistics needs no GPU, and must not take one
    with silenced(getattr(args, "debug", False)):
        verdict, page = _judged(args)
    print(json.dumps(verdict.as_dict()) if args.json else _text(verdict))
    if page is not None:
        args.html.write_text(page, encoding="utf-8")
    if not verdict.accepted:
        from components.data_gate.errors import DataRejectedError

        raise DataRejectedError(verdict.message(str(args.html or "")))
    return 0


def _judged(args: argparse.Namespace) -> tuple[Any, str | None]:
    """The verdict, and the page where one is wanted."""
    from components.data_gate import file_arguments, report
    from components.data_gate.stand_alone import validate

    args.html = file_arguments.prepare_output("--html", args.html) if args.html else None
    policy, ingest = _sections(args.policy)
    with tempfile.TemporaryDirectory() as scratch:
        verdict, inputs = validate(
            data=args.input,
            schema_file=args.schema,
            baseline=args.baseline,
            serving=args.serving,
            policy=policy,
            ingest=ingest,
            allow=args.allow,
            scratch=scratch,
            config_file=args.policy or "",
        )
    title = f"Data validation of {pathlib.Path(args.input).name}"
    return verdict, report.render(verdict, inputs, title) if args.html else None


def _sections(path: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The gate and ingest sections of a file that holds a policy or a whole workload."""
    from components.data_gate import file_arguments

    if path is None:
        return {}, {}
    content = file_arguments.read_mapping("--policy", path, "a gate policy, or a workload.yaml with a gate section")
    if {"gate", "ingest", "train"} & set(content):
        return content.get("gate") or {}, content.get("ingest") or {}
    return content, {}


def _text(verdict: Any) -> str:
    """The verdict for a terminal: what blocks first, then what could not be checked."""
    sizes = ", ".join(f"{name} {count} rows" for name, count in verdict.splits.items())
    lines = [f"{verdict.word} ({sizes})"]
    for finding in verdict.findings:
        lines.append(f"  {finding.severity:7} {finding.sentence()}")
        if finding.why:
            lines.append(f"          {finding.why}")
        if finding.samples:
            lines.append(f"          {_rows(finding)}{_places(finding)}")
        if finding.blocks:
            lines.append(f"          to accept: {finding.accept}")
    lines += [f"  note: {note}" for note in verdict.notes]
    lines += [f"  not checked: {item.rule}: {item.why}" for item in verdict.not_checked]
    return "\n".join(lines)


def _rows(finding: Any) -> str:
    return f"{finding.rows:,} rows, such as " if finding.rows > _SHOWN else "in "


def _places(finding: Any) -> str:
    return "; ".join(
        f"{sample['file']}:{sample['line']}{_value(sample, finding.feature)}"
        if "line" in sample
        else f"{sample['file']} row {sample['record']}{_value(sample, finding.feature)}"
        for sample in finding.samples[:_SHOWN]
    )


def _value(sample: Any, feature: str) -> str:
    """What stands there: as it is written where that is known, or else as it was read."""
    value = sample.get("text", sample["row"].get(feature))
    if not feature or value == "" or value is None:
        return ""
    return f" ({str(value)[:_WIDEST]!r})" if isinstance(value, str) else f" ({value})"
