"""`sluice validate`: the data gate by itself, on folders."""

import argparse
import json
import os
import pathlib
import tempfile
from typing import Any

HELP = "judge data against a schema, without a pipeline"


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
    from components.data_gate import report
    from components.data_gate.errors import DataRejectedError
    from components.data_gate.stand_alone import validate

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
        )
        if args.html:
            title = f"Data validation of {pathlib.Path(args.input).name}"
            pathlib.Path(args.html).parent.mkdir(parents=True, exist_ok=True)
            pathlib.Path(args.html).write_text(report.render(verdict, inputs, title), encoding="utf-8")
    print(json.dumps(verdict.as_dict()) if args.json else _text(verdict))
    if not verdict.accepted:
        raise DataRejectedError(verdict.message(args.html or ""))
    return 0


def _sections(path: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The gate and ingest sections of a file that holds a policy or a whole workload."""
    import yaml

    from components.data_gate.errors import GateConfigError

    if path is None:
        return {}, {}
    try:
        content = yaml.safe_load(pathlib.Path(path).read_text(encoding="utf-8")) or {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise GateConfigError(f"{path}: cannot be read as YAML: {' '.join(str(error).split())}") from error
    if isinstance(content, dict) and {"gate", "ingest", "train"} & set(content):
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
        if finding.rows is not None:
            lines.append(f"          {finding.rows} rows, such as {_place(finding.samples)}")
        if finding.blocks:
            lines.append(f"          to accept: {finding.accept}")
    lines += [f"  not checked: {item.rule}: {item.why}" for item in verdict.not_checked]
    return "\n".join(lines)


def _place(samples: Any) -> str:
    return "; ".join(
        f"{sample['file']}:{sample['line']}" if "line" in sample else f"{sample['file']} record {sample['record']}"
        for sample in samples[:3]
    )
