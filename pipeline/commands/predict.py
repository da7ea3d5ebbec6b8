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
    parser.add_argument(
        "--base", default=_DEFAULT_BASE, metavar="DIR", help=f"serving folder (default {_DEFAULT_BASE})"
    )
    parser.add_argument("--version", type=int, metavar="N", help="model version (default: the highest)")
    parser.add_argument("--signature", default="", metavar="NAME", help="signature (default serving_default)")
    parser.add_argument(
        "--input",
        metavar="FILE",
        help="CSV with a header, JSON objects, or tf.Examples (*.tfrecord, *.gz); - reads standard input. "
        "Without it the model answers the first examples that it was exported with",
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
    from modules.serving import example_rows, predictor

    logging.getLogger("tensorflow").setLevel(logging.INFO if args.debug else logging.WARNING)
    version = predictor.latest_version(args.base) if args.version is None else args.version
    version_dir = os.path.join(args.base, str(version))
    if not os.path.isdir(version_dir):
        raise predictor.ServingUsageError(f"{args.base} holds no version {version}")
    rows: list[dict[str, Any]]
    if args.input is None:
        examples = predictor.golden_examples(version_dir)[: args.limit or 3]
        if not examples:
            raise predictor.ServingUsageError(f"{version_dir} carries no example rows: give some with --input FILE")
    elif _is_tfrecord(args.input):
        examples = _read_tfrecord(args.input, args.limit)
    else:
        rows = _read_rows(args.input)[: args.limit]
        _print(version_dir, version, rows, predictor.predict_rows(version_dir, rows, args.signature), args.json)
        return 0
    rows = [example_rows.decode_example(example) for example in examples]
    _print(version_dir, version, rows, predictor.predict_examples(version_dir, examples, args.signature), args.json)
    return 0


def _is_tfrecord(path: str) -> bool:
    return path.endswith((".tfrecord", ".tfrecords", ".gz"))


def _read_tfrecord(path: str, limit: int | None) -> list[bytes]:
    import tensorflow as tf

    from modules.serving.status import ServingUsageError

    compression = "GZIP" if path.endswith(".gz") else ""
    try:
        records = tf.data.TFRecordDataset(path, compression_type=compression)
        examples = list((records if limit is None else records.take(limit)).as_numpy_iterator())
    except (tf.errors.OpError, OSError) as error:
        raise ServingUsageError(f"cannot read {path} as a TFRecord file: {error}") from None
    if not examples:
        raise ServingUsageError(f"{path} holds no records")
    return examples


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
    version_dir: str, version: int, rows: list[dict[str, Any]], answers: list[dict[str, Any]], as_json: bool
) -> None:
    if as_json:
        print(json.dumps({"model": version_dir, "version": version, "predictions": answers}))
        return
    print(f"model {version_dir}, {len(answers)} {'row' if len(answers) == 1 else 'rows'}")
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
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
