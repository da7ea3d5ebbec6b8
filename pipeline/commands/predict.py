"""`sluice predict`: ask a pushed model for answers."""

import argparse
import json
import logging
import os
import sys
from typing import Any

HELP = "answer rows (CSV, JSON or tf.Examples) with a pushed model"

_DEFAULT_BASE = os.path.join("build", "serving", "taxi")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `sluice predict`."""
    parser.add_argument("--base", default=_DEFAULT_BASE, metavar="DIR", help="serving folder")
    parser.add_argument(
        "--server", metavar="URL", help="ask a running server's REST API, such as localhost:8501, not the folder"
    )
    parser.add_argument("--name", default="", help="the model's name on the server (default: the folder's name)")
    parser.add_argument("--label", default="", metavar="NAME", help="a label on the server, such as stable or canary")
    parser.add_argument("--version", type=int, metavar="N", help="model version (default: the highest)")
    parser.add_argument("--signature", default="", metavar="NAME", help="signature (default serving_default)")
    parser.add_argument(
        "--input",
        metavar="FILE",
        help="CSV with a header, JSON objects, or tf.Examples (*.tfrecord, *.gz); - reads standard input. "
        "Without it the model answers the first examples that it was exported with",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="values",
        help="one row from its features; NAME=@FILE takes the content of a file, such as a picture. May be repeated",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="answer only the first N rows")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print one answer for each row."""
    from pipeline.quiet import NativeLogs

    native_logs = None if args.debug else NativeLogs()
    try:
        return _predict(args)
    finally:
        if native_logs:
            native_logs.restore()


def _predict(args: argparse.Namespace) -> int:
    from modules.serving import example_rows

    logging.getLogger("tensorflow").setLevel(logging.INFO if args.debug else logging.WARNING)
    _check_limit(args.limit)
    if args.server:
        return _ask_server(args)
    from modules.serving import predictor

    version_dir = _version_dir(args)
    if args.values or (args.input is not None and not _is_tfrecord(args.input)):
        rows = _rows(args)
        answers = predictor.predict_rows(version_dir, rows, args.signature)
    else:
        examples = _examples(args, version_dir)
        rows = [example_rows.decode_example(example) for example in examples]
        answers = predictor.predict_examples(version_dir, examples, args.signature)
    _print(version_dir, {"version": int(os.path.basename(version_dir))}, rows, answers, args.json)
    return 0


def _check_limit(limit: int | None) -> None:
    from modules.serving.status import ServingUsageError

    if limit is not None and limit < 1:
        raise ServingUsageError(f"--limit {limit}: expected at least 1")


def _version_dir(args: argparse.Namespace) -> str:
    from modules.serving.predictor import ServingUsageError, latest_version

    if args.label:
        raise ServingUsageError("--label is a name that a server gives to a version: give --server, too")
    version = latest_version(args.base) if args.version is None else args.version
    version_dir = os.path.join(args.base, str(version))
    if not os.path.isdir(version_dir):
        raise ServingUsageError(f"{args.base} holds no version {version}")
    return version_dir


def _examples(args: argparse.Namespace, version_dir: str) -> list[bytes]:
    """The tf.Examples of the input file; without one, those that the model was exported with."""
    from modules.serving.predictor import ServingUsageError, golden_examples

    if args.input is not None:
        return _read_tfrecord(args.input, args.limit)
    examples = golden_examples(version_dir)[: args.limit or 3]
    if not examples:
        raise ServingUsageError(f"{version_dir} carries no example rows: give some with --input FILE")
    return examples


def _ask_server(args: argparse.Namespace) -> int:
    from modules.serving import example_rows
    from modules.serving.client import PredictionClient
    from modules.serving.status import ServingUsageError

    if args.input is None and not args.values:
        raise ServingUsageError("--server needs --input FILE or --set NAME=VALUE: rows to ask about")
    name = args.name or os.path.basename(os.path.normpath(args.base))
    with PredictionClient(args.server, name, version=args.version, label=args.label) as client:
        if not args.values and _is_tfrecord(args.input):
            examples = _read_tfrecord(args.input, args.limit)
            rows = [example_rows.decode_example(example) for example in examples]
            answers = client.predict_examples(examples, args.signature)
        else:
            rows = _rows(args)
            answers = client.predict_rows(rows, args.signature, _local_kinds(args, name))
    where = f"{args.server} {name}"
    _print(where, {"label": args.label} if args.label else {"version": args.version}, rows, answers, args.json)
    return 0


def _local_kinds(args: argparse.Namespace, name: str) -> dict[str, type]:
    """The types of this very model's features, where its folder is at hand; a server does not tell them."""
    from modules.serving import example_rows
    from modules.serving.saved_model import LoadedModel

    if os.path.basename(os.path.normpath(args.base)) != name or not os.path.isdir(args.base):
        return {}
    versions = [int(found) for found in os.listdir(args.base) if found.isdecimal()]
    if not versions:
        return {}
    version = args.version if args.version in versions else max(versions)
    with LoadedModel(os.path.join(args.base, str(version))) as model:
        known = args.signature or "serving_default"
        return example_rows.parsed_features(model.meta_graph, known) if known in model.meta_graph.signature_def else {}


def _is_tfrecord(path: str) -> bool:
    return path.endswith((".tfrecord", ".tfrecords", ".gz"))


def _read_tfrecord(path: str, limit: int | None) -> list[bytes]:
    import tensorflow as tf

    from modules.serving.saved_model import cause
    from modules.serving.status import ServingUsageError

    compression = "GZIP" if path.endswith(".gz") else ""
    try:
        records = tf.data.TFRecordDataset(path, compression_type=compression)
        examples = list((records if limit is None else records.take(limit)).as_numpy_iterator())
    except (tf.errors.OpError, OSError) as error:
        raise ServingUsageError(f"cannot read {path} as a TFRecord file: {cause(error)}") from None
    if not examples:
        raise ServingUsageError(f"{path} holds no records")
    return examples


def _rows(args: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of the input file, or the one that the command line spells out."""
    from modules.serving.status import ServingUsageError

    if not args.values:
        return _read_rows(args.input)[: args.limit]
    if args.input is not None:
        raise ServingUsageError("give rows with --input or one row with --set, not both")
    row: dict[str, Any] = {}
    for given in args.values:
        name, equals, value = given.partition("=")
        if not equals:
            raise ServingUsageError(f"--set {given}: expected NAME=VALUE or NAME=@FILE")
        row[name] = _content(value[1:]) if value.startswith("@") else value
    return [row]


def _content(path: str) -> bytes:
    from modules.serving.status import ServingUsageError

    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ServingUsageError(f"cannot read {path}: {error.strerror}") from None


def _read_rows(path: str) -> list[dict[str, Any]]:
    from modules.serving import example_rows
    from modules.serving.status import ServingUsageError

    if path == "-":
        return list(example_rows.read_rows(sys.stdin, "standard input"))
    try:
        with open(path, encoding="utf-8", newline="") as stream:
            return list(example_rows.read_rows(stream, path))
    except (OSError, UnicodeDecodeError) as error:
        raise ServingUsageError(f"cannot read {path}: {error}") from None


def _print(
    model: str, which: dict[str, Any], rows: list[dict[str, Any]], answers: list[dict[str, Any]], as_json: bool
) -> None:
    if as_json:
        print(json.dumps({"model": model, **which, "predictions": answers}))
        return
    print(f"model {model}, {len(answers)} {'row' if len(answers) == 1 else 'rows'}")
    for number, (row, answer) in enumerate(zip(rows, answers, strict=True), start=1):
        asked = ", ".join(f"{name}={_short(value)}" for name, value in row.items())
        print(f"\nrow {number}: {asked}")
        width = max(map(len, answer), default=0)
        for name, value in answer.items():
            print(f"  {name:<{width}}  {_short(value)}")


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        shown = ", ".join(_short(item) for item in value[:10])
        return f"[{shown}{', ...' if len(value) > 10 else ''}]"
    text = f"<{len(value):,} bytes>" if isinstance(value, bytes) else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
