"""`sluice clean`."""

import argparse
import json

HELP = "Remove old runs and the artifacts only they used. Never what serves, what is registered or the blessed models."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", type=int, default=3, metavar="N", help="newest runs of each workload that stay")
    parser.add_argument("--workload", help="only this workload's")
    parser.add_argument("--root", default="build", metavar="DIR", help="where runs are written")
    parser.add_argument("--dry-run", action="store_true", help="only say what would go")
    parser.add_argument("--json", action="store_true", help="one JSON object, last on stdout")


def run(args: argparse.Namespace) -> int:
    import os

    from pipeline.errors import ConfigError
    from pipeline.quiet import NativeLogs

    if args.keep < 1:
        raise ConfigError(f"--keep {args.keep}: at least 1 run has to stay")
    root = os.path.abspath(args.root)
    native_logs = None if args.debug else NativeLogs()
    try:
        total = _clean(root, args)
    finally:
        if native_logs:
            native_logs.restore()
    if args.json:
        print(json.dumps({"runs": total.runs, "artifacts": total.artifacts, "bytes": total.num_bytes}))
        return 0
    verb = "would remove" if args.dry_run else "removed"
    print(
        f"{verb} {len(total.runs)} runs and {len(total.artifacts)} artifacts ({total.num_bytes / 1e6:.1f} MB) "
        f"under {root}; the newest {args.keep} runs of each workload, blessed and serving models stay"
    )
    return 0


def _clean(root: str, args: argparse.Namespace):
    import sys

    from pipeline import cleaning, recovery, run_record

    total = cleaning.Cleaned()
    for workload in sorted({record.workload for record in run_record.load_all(root, args.workload)}):
        with recovery.exclusive(root, workload, lambda line: print(f"sluice: {line}", file=sys.stderr)):
            total += cleaning.clean(root, workload, keep=args.keep, dry_run=args.dry_run)
    return total
