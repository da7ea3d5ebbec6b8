"""`sluice show`."""

import argparse
import json

HELP = "Show one run: its steps, every artifact with its URI and what it was made from, its metrics and verdict."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", nargs="?", metavar="RUN", help="id of a run or a part of it (default: the newest)")
    parser.add_argument("--root", default="build", metavar="DIR", help="where runs are written")
    parser.add_argument("--json", action="store_true", help="one JSON object, last on stdout")


def run(args: argparse.Namespace) -> int:
    import dataclasses
    import os

    from pipeline import lineage, run_record

    record = run_record.find(os.path.abspath(args.root), args.run_id)
    nodes = lineage.of_run(record)
    if args.json:
        print(json.dumps({**dataclasses.asdict(record), "artifacts": [dataclasses.asdict(node) for node in nodes]}))
        return 0
    print(f"Run {record.run_id}: {record.state} in {record.seconds:.1f} s, started {record.started}")
    print(f"Data {record.data}")
    states = {step.name: step for step in record.steps}
    for node in nodes:
        step = states.get(node.step)
        seconds = f", {step.seconds:.1f} s" if step and step.state == "ran" else ""
        print(f"\n{node.step} ({step.state if step else 'resolver'}{seconds})")
        for artifact in node.inputs:
            print(f"  reads   {artifact.key:22} {artifact.type:20} #{artifact.id} {artifact.uri}")
        for artifact in node.outputs:
            print(f"  writes  {artifact.key:22} {artifact.type:20} #{artifact.id} {artifact.uri}")
    if record.metrics:
        print("\nMetrics")
    for name, metric in record.metrics.items():
        print(f"  {name:22} {metric['value']:.4f}  {metric['bound']}")
    reasons = "; ".join(record.reasons)
    print(f"\nVerdict {record.verdict}" + (f": {reasons}" if reasons else ""))
    if record.pushed_version:
        print(f"Model   {record.serving_dir}/{record.pushed_version}")
    if record.error:
        print(f"Error   {record.error}")
    return 0
