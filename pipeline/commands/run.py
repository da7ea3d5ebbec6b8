"""`sluice run`."""

import argparse
import json
import sys

HELP = "Run a workload's whole pipeline on this machine. Steps whose code and inputs have not changed are cached."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workload", default="taxi", help="folder under modules/, or a dotted package")
    parser.add_argument("--data", metavar="DIR", help="your files in place of the workload's default data")
    parser.add_argument("--workers", type=int, metavar="N", help="training processes (default: the workload's)")
    parser.add_argument("--precision", help="float32, mixed_bfloat16 or mixed_float16 (default: the workload's)")
    parser.add_argument("--train-steps", type=int, metavar="N", help="optimizer steps (default: the workload's)")
    parser.add_argument(
        "--beam",
        action="append",
        default=[],
        metavar="STEP=FLAGS",
        help="Beam flags of a step, or of `all`: another engine, for example (docs/scaling.md); may be repeated",
    )
    parser.add_argument(
        "--from", dest="from_step", metavar="STEP", help="start here; earlier steps' outputs are reused"
    )
    parser.add_argument("--to", dest="to_step", metavar="STEP", help="stop after this step")
    parser.add_argument("--no-cache", action="store_true", help="run every step again")
    parser.add_argument("--root", default="build", metavar="DIR", help="where everything is written")
    parser.add_argument("--json", action="store_true", help="one JSON object, last on stdout")


def run(args: argparse.Namespace) -> int:
    from pipeline import beam_options, config

    # Wrong settings are found before the ten seconds that importing TFX takes.
    settings = config.make_config(
        args.workload,
        data=args.data,
        root=args.root,
        num_workers=args.workers,
        precision=args.precision,
        train_steps=args.train_steps,
        beam=args.beam,
        enable_cache=not args.no_cache,
    )
    config.check_functions(settings.workload)
    for step, flags in settings.beam.items():
        beam_options.check_job_service(step, flags)
    print(f"{settings.workload.description or settings.workload.name}\ndata: {settings.data}", file=sys.stderr)
    from pipeline.quiet import NativeLogs

    native_logs = None if args.debug else NativeLogs()
    try:
        from pipeline import report, session

        record = session.run(
            settings, from_step=args.from_step, to_step=args.to_step, native_logs=native_logs, debug=args.debug
        )
    finally:
        if native_logs:
            native_logs.restore()
    print(report.summary(record, settings), file=sys.stderr if args.json else sys.stdout)
    if args.json:
        print(json.dumps(report.as_json(record)))
    if record.error:
        print(f"error: {record.error}", file=sys.stderr)
    return int(record.exit_code or 0)
