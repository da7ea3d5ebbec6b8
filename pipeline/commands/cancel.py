"""`sluice cancel`."""

import argparse

from pipeline.commands import submit

HELP = "Stop a run on Kubeflow Pipelines. Training jobs that it started end with it."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", metavar="RUN", help="id of the run")
    submit.add_connection_arguments(parser)


def run(args: argparse.Namespace) -> int:
    with submit.connect(args) as client:
        client.cancel(args.run_id)
    print(f"run {args.run_id} is being stopped; `sluice status {args.run_id}` tells when it has")
    return 0
