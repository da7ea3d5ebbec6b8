"""`sluice runs`."""

import argparse
import json

HELP = "List past runs, newest first: when, which workload, how it ended, verdict, pushed version."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workload", help="only this workload's")
    parser.add_argument("--root", default="build", metavar="DIR", help="where runs are written")
    parser.add_argument("--json", action="store_true", help="one JSON object, last on stdout")


def run(args: argparse.Namespace) -> int:
    import dataclasses
    import os

    from pipeline import run_record

    records = run_record.load_all(os.path.abspath(args.root), args.workload)
    if args.json:
        print(json.dumps({"runs": [dataclasses.asdict(record) for record in records]}))
        return 0
    if not records:
        print(f"no run under {args.root} yet: `sluice run` makes one")
        return 0
    print(
        f"{'run':36} {'started':19}  {'state':11} {'seconds':>7}  {'verdict':13} {'pushed':>6}  {'AUC or first metric'}"
    )
    for record in records:
        first = next(iter(record.metrics.items()), None)
        metric = f"{first[0]} {first[1]['value']:.4f}" if first else record.error or ""
        version = record.pushed_version or "-"
        print(
            f"{record.run_id:36} {record.started:19}  {record.state:11} {record.seconds:7.1f}  "
            f"{record.verdict:13} {version:>6}  {metric[:80]}"
        )
    return 0
