"""`sluice schema`: a first schema, what new data would change in one, and the change itself."""

import argparse
import json
import os
import pathlib
import shlex
import tempfile
from typing import Any

from pipeline.chatter import silenced

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
    debug = getattr(args, "debug", False)
    if args.action == "infer":
        with silenced(debug):
            text, output = _inferred(args)
        _write_or_print(text, output)
        return 0
    with silenced(debug):
        text, changes = _changed(args)
    made = [change for change in changes if not change.held_back]
    if args.action == "update" and made:
        pathlib.Path(args.schema).write_text(text, encoding="utf-8")
    if args.json:
        print(json.dumps({"schema": args.schema, "changes": [change.__dict__ for change in changes]}))
    else:
        print(_text(changes, made, args))
    return 0


def _inferred(args: argparse.Namespace) -> tuple[str, pathlib.Path | None]:
    from components.data_gate import file_arguments, schema_text, stand_alone

    output = file_arguments.prepare_output("--output", args.output) if args.output else None
    ingest = _ingest_section(args.ingest)
    with tempfile.TemporaryDirectory() as scratch:
        schema = stand_alone.infer_schema(args.input, args.label, ingest, scratch, args.ingest or "")
    return schema_text.format_schema(schema), output


def _changed(args: argparse.Namespace) -> tuple[str, list[Any]]:
    from components.data_gate import file_arguments, stand_alone

    only = getattr(args, "feature", [])
    ingest = _ingest_section(args.ingest)
    if args.action == "update" and pathlib.Path(args.schema).exists():
        file_arguments.prepare_output("--schema", args.schema)
    with tempfile.TemporaryDirectory() as scratch:
        return stand_alone.change_schema(args.input, args.schema, only, ingest, scratch, args.ingest or "")


def _ingest_section(path: str | None) -> dict[str, Any]:
    from components.data_gate import file_arguments

    if path is None:
        return {}
    content = file_arguments.read_mapping("--ingest", path, "ingestion options, or a workload.yaml")
    return (content.get("ingest") or {}) if {"ingest", "train", "gate"} & set(content) else content


def _write_or_print(text: str, output: pathlib.Path | None) -> None:
    if output is None:
        print(text, end="")
        return
    output.write_text(text, encoding="utf-8")
    print(f"{output}: read it, correct it, commit it")


def _text(changes: Any, made: Any, args: argparse.Namespace) -> str:
    if not changes:
        return f"{args.schema}: the data fits, nothing to change"
    width = max(len(change.feature) for change in changes)
    lines = []
    for change in changes:
        lines.append(f"{change.feature:{width}}  {change.what}: {change.before} -> {change.after}")
        if change.warning:
            lines.append(f"{'':{width}}  warning: {change.warning}")
        if change.held_back:
            option = shlex.join(["--feature", change.feature])
            lines.append(f"{'':{width}}  left as it is: sluice schema update changes this type only with {option}")
    if args.action == "diff":
        lines.append("sluice schema update makes these changes" if made else "sluice schema update changes nothing")
    else:
        lines.append(f"{args.schema} changed; commit it to approve" if made else f"{args.schema} was not changed")
    return "\n".join(lines)
