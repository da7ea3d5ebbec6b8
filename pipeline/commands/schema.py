"""`sluice schema`: a first schema, what new data would change in one, and the change itself."""

import argparse
import json
import os
import pathlib
import tempfile
from typing import Any

HELP = "infer, compare or update a data schema"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the three subcommands and their options."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    infer = commands.add_parser("infer", help="write a first schema, to be read and corrected by a person")
    infer.add_argument("--output", metavar="FILE", help="where to write it; default: standard output")
    infer.add_argument("--label", default="", metavar="COLUMN", help="a column that is not there when the model serves")
    diff = commands.add_parser("diff", help="show, feature by feature, what new data would change")
    update = commands.add_parser("update", help="change the schema file so that the data fits; commit it to approve")
    update.add_argument("--feature", action="append", default=[], metavar="COLUMN", help="only this one; repeatable")
    for command in (diff, update):
        command.add_argument("--schema", required=True, metavar="FILE", help="schema.pbtxt")
    for command in (infer, diff, update):
        command.add_argument("--input", required=True, metavar="DIR", help="CSV files, TFRecords, or Split- folders")
        command.add_argument("--ingest", metavar="FILE", help="YAML with ingestion options, or a workload.yaml")
    for command in (diff, update):
        command.add_argument("--json", action="store_true", help="print the changes as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Does what `args.action` says; 0 whether or not there are changes."""
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # reading statistics needs no GPU, and must not take one
    from components.data_gate import schema_text, stand_alone

    ingest = _ingest_section(args.ingest)
    with tempfile.TemporaryDirectory() as scratch:
        if args.action == "infer":
            text = schema_text.format_schema(stand_alone.infer_schema(args.input, args.label, ingest, scratch))
            _write_or_print(text, args.output)
            return 0
        only = getattr(args, "feature", [])
        text, changes = stand_alone.change_schema(args.input, args.schema, only, ingest, scratch)
    if args.action == "update" and changes:
        pathlib.Path(args.schema).write_text(text, encoding="utf-8")
    if args.json:
        print(json.dumps({"schema": args.schema, "changes": [change.__dict__ for change in changes]}))
    else:
        print(_text(changes, args))
    return 0


def _ingest_section(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    import yaml

    from components.data_gate.errors import GateConfigError

    try:
        content = yaml.safe_load(pathlib.Path(path).read_text(encoding="utf-8")) or {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise GateConfigError(f"{path}: cannot be read as YAML: {' '.join(str(error).split())}") from error
    whole = isinstance(content, dict) and {"ingest", "train"} & set(content)
    return (content.get("ingest") or {}) if whole else content


def _write_or_print(text: str, output: str | None) -> None:
    if output is None:
        print(text, end="")
        return
    pathlib.Path(output).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(output).write_text(text, encoding="utf-8")
    print(f"{output}: read it, correct it, commit it")


def _text(changes: Any, args: argparse.Namespace) -> str:
    if not changes:
        return f"{args.schema}: the data fits, nothing to change"
    width = max(len(change.feature) for change in changes)
    lines = [f"{c.feature:{width}}  {c.what}: {c.before} -> {c.after}" for c in changes]
    done = args.action == "update"
    last = f"{args.schema} changed; commit it to approve" if done else "sluice schema update makes these changes"
    return "\n".join([*lines, last])
