"""`sluice cancel`."""

import argparse

from pipeline.commands import submit

HELP = "Stop a run on Kubeflow Pipelines, with the training jobs that it started, or a schedule that starts runs."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", metavar="RUN", help="id of the run")
    parser.add_argument("--recurring", action="store_true", help="RUN is the id that `submit --cron` printed")
    submit.add_connection_arguments(parser)


def run(args: argparse.Namespace) -> int:
    with submit.connect(args) as client:
        if args.recurring:
            client.disable_recurring_run(args.run_id)
            print(f"{args.run_id} starts no more runs; those that run go on")
            return 0
        client.cancel(args.run_id)
    print(f"run {args.run_id} is being stopped; `sluice status {args.run_id}` tells when it has")
    return 0
