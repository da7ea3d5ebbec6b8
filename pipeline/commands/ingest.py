"""`sluice ingest`: files to TFRecords, without a pipeline."""

import argparse
import contextlib
import glob
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator

HELP = "Turn tables (CSV, JSON Lines, Parquet, ...), TFRecords or pictures into splits of tf.Examples."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options; they are the fields of IngestConfig that one sets by hand."""
    add = parser.add_argument
    add("--input", required=True, help="a folder or glob; may hold {SPAN}, or {YYYY}, {MM}, {DD}, and {VERSION}")
    add("--output", required=True, help="the folder for Split-<name>/ folders, report.json and report.html")
    add(
        "--format",
        default=None,
        help="csv, tsv, jsonl, parquet, arrow, avro, tfrecord, arrays (else found out); images: a folder per class",
    )
    add("--delimiter", default=None, help="one character, or auto")
    add("--encoding", default=None, help="such as latin-1 or utf-16; utf-8 otherwise")
    add("--names", default=None, metavar="A,B,...", help="column names, for files without a header")
    add("--types", default=None, metavar="A=int,...", help="declared types: int, float, bytes, bool, timestamp")
    add("--schema", default=None, metavar="PBTXT", help="a schema whose types are declared types")
    add("--na", default=None, metavar="WORD,...", help="words that are missing values, also in text columns")
    add("--bad-rows", default=None, choices=["fail", "skip", "quarantine"], help="what to do with rows that do not fit")
    add("--keep", default=None, metavar="A,B,...", help="only these columns")
    add("--drop", default=None, metavar="A,B,...", help="without these columns")
    add("--float-loss", default=None, choices=["warn", "bytes", "fail"], help="where float32 does not keep a number")
    add(
        "--split",
        default=None,
        metavar="RULE",
        help="train=8,eval=2 (hash of the row); columns:user train=8,eval=2 (groups stay whole); "
        "time:day train=2024-03-01,eval (cut points); files train=a*.csv,eval=b*.csv",
    )
    add("--seed", type=int, default=None, help="another seed, another division")
    add("--shuffle", action="store_true", help="put rows in random order")
    add("--shards", type=int, default=None, help="at least so many files per split")
    add("--compression", default=None, choices=["gzip", "none"], help="of the output")
    add("--gzip-level", type=int, default=None, help="1 (fast) to 9 (small)")
    add("--workers", type=int, default=None, help="processes; one per core otherwise")
    add("--chunk-bytes", type=int, default=None, help="input bytes per unit of work; bounds memory")
    add("--config", default=None, metavar="YAML", help="a file with the `ingest` section of a workload")
    add("--json", action="store_true", help="print one JSON object at the end")


def run(args: argparse.Namespace) -> int:
    """Ingests, prints a summary and returns 0; raises for data and options that are not fit."""
    from components.example_gen import report, spans, storage
    from components.example_gen.ingest import ingest

    config = _config(args)
    base, patterns = _patterns(args.input, config)
    resolved, span, version = spans.resolve(base, patterns)
    if span is not None:
        print(f"span {span}" + (f", version {version}" if version is not None else ""), file=sys.stderr)
    root = storage.escape(base)
    full = {split: os.path.join(root, pattern) for split, pattern in resolved.items()}
    written: list[dict] = []

    with _stopped_cleanly() as check_stop:

        def write_report(result, folder: str) -> None:
            report.copy_quarantine(result, folder)
            written.append(report.write(result, folder, config, span=span or 0, version=version))
            check_stop()

        ingest(full, args.output, config, before_commit=write_report)
    _tell(written[0], args)
    return 0


@contextlib.contextmanager
def _stopped_cleanly() -> Iterator[Callable[[], None]]:
    """Lets SIGTERM and Ctrl-C remove what is half done before they end the process, with 143 and 130.

    Yields a function to call before anything becomes final, which raises again: an exception that a signal brings is
    lost where it lands in a callback of native code.
    """
    requests: list[BaseException] = []

    def stop(number: int, _: object) -> None:
        requests.append(SystemExit(143) if number == signal.SIGTERM else KeyboardInterrupt())
        raise requests[-1]

    def check() -> None:
        if requests:
            raise requests[0]

    if threading.current_thread() is not threading.main_thread():
        yield check
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield check
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _config(args: argparse.Namespace):
    from components.example_gen.config import IngestConfig

    values: dict = _from_file(args.config) if args.config else {}
    for name in ("format", "delimiter", "encoding", "float_loss", "shards", "compression", "gzip_level", "workers"):
        _set(values, name, getattr(args, name))
    _set(values, "chunk_bytes", args.chunk_bytes)
    _set(values, "bad_rows", args.bad_rows)
    _set(values, "schema_file", args.schema)
    for option, name in (("names", "column_names"), ("na", "na"), ("keep", "keep"), ("drop", "drop")):
        text = getattr(args, option)
        _set(values, name, None if text is None else _list(text))
    if args.types is not None:
        values["types"] = {**values.get("types", {}), **_pairs(args.types, "--types")}
    if args.split is not None:
        values["split"] = _split(args.split)
    if args.seed is not None:
        values["split"] = {**values.get("split", {}), "seed": args.seed}
    if args.shuffle:
        values["shuffle"] = True
    if values.get("delimiter") in ("\\t", "tab", "TAB"):
        values["delimiter"] = "\t"
    return IngestConfig.from_dict(values, args.config or "options")


def _set(values: dict, name: str, value: object) -> None:
    if value is not None:
        values[name] = value


def _from_file(path: str) -> dict:
    import yaml

    from components.example_gen.errors import IngestConfigError

    try:
        with open(path, encoding="utf-8") as file:
            content = yaml.safe_load(file) or {}
    except (OSError, yaml.YAMLError) as error:
        raise IngestConfigError(f"{path}: cannot be read: {error}") from None
    if not isinstance(content, dict) or not isinstance(content.get("ingest", {}) or {}, dict):
        raise IngestConfigError(f"{path}: expected options, or a section `ingest` of them")
    return dict((content["ingest"] or {}) if "ingest" in content else content)


def _list(text: str) -> list[str]:
    return [item for item in text.split(",") if item]


def _pairs(text: str, option: str) -> dict[str, str]:
    """ "a=int,b=float" as a mapping; a name may hold "=" since the last one counts."""
    from components.example_gen.errors import IngestConfigError

    pairs = {}
    for item in _list(text):
        name, equals, value = item.rpartition("=")
        if not equals:
            raise IngestConfigError(f"{option}: expected name=value, got {item!r}")
        if name in pairs:
            raise IngestConfigError(f"{option}: {name!r} is there twice")
        pairs[name] = value
    return pairs


def _split(text: str) -> dict:
    """A split rule of the command line as the `split` section of a workload."""
    from components.example_gen.errors import IngestConfigError

    rule, _, shares = text.strip().rpartition(" ")
    by, _, names = rule.partition(":")
    if by == "time":
        cuts = {}
        for item in _list(shares):
            name, _, cut = item.partition("=")
            cuts[name] = _number(cut) if cut else None
        return {"by": "time", "time_column": names, "cuts": cuts}
    pairs = _pairs(shares, "--split")
    if by == "files":
        return {"by": "files", "files": pairs}
    if by not in ("", "row", "columns"):
        raise IngestConfigError(
            f"--split: {by!r} is unknown; expected columns:NAME, time:NAME or files before the shares"
        )
    numbers = {name: _number(share) for name, share in pairs.items()}
    if not all(isinstance(share, int | float) and share > 0 for share in numbers.values()):
        raise IngestConfigError(f"--split: shares are numbers, such as train=8,eval=2; got {shares!r}")
    scale = 1 if all(isinstance(share, int) for share in numbers.values()) else 1000
    weights = {name: max(1, round(float(share) * scale)) for name, share in numbers.items()}
    return {"by": "columns", "columns": _list(names), "weights": weights} if by == "columns" else {"weights": weights}


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _patterns(where: str, config) -> tuple[str, dict[str, str]]:
    """(the folder that patterns are relative to, split name or "" to pattern)."""
    if config.split.by == "files":
        return where, dict(config.split.files)
    if os.path.isdir(where):
        return where, {"": config.pattern}
    return "", {"": glob.escape(where) if os.path.isfile(where) else where}


def _tell(content: dict, args: argparse.Namespace) -> None:
    for line in content["warnings"]:
        print(f"warning: {line}", file=sys.stderr)
    for entry in content["skipped_files"]:
        print(f"left out {entry['file']}: {entry['why']}", file=sys.stderr)
    if args.json:
        print(json.dumps({**content, "output": args.output}, ensure_ascii=False))
        return
    splits = ", ".join(f"{name} {rows}" for name, rows in content["splits"].items())
    print(f"{content['rows']} rows ({splits}) in {content['seconds']} s, {content['rows_per_second']} rows/s")
    if content["bad_rows"]:
        print(f"{content['bad_rows']} bad rows left out")
    for name, kind in content["columns"].items():
        print(f"  {name}: {kind}")
    print(f"report: {os.path.join(args.output, 'report.html')}")
