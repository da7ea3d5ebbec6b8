"""`sluice logs`."""

import argparse
import sys
from typing import Any

from pipeline.commands import submit

HELP = "Show the logs of a run's steps on Kubeflow Pipelines."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", metavar="RUN", help="id of the run")
    parser.add_argument("step", metavar="STEP", nargs="?", help="name of a step (default: all that have failed or run)")
    submit.add_connection_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from kubeflow import client as kubeflow_client
    from kubeflow.errors import KubeflowError

    with submit.connect(args) as client:
        steps = kubeflow_client.tasks_of(client.run(args.run_id))
        names = ", ".join(step["name"] for step in steps) or "none yet"
        wanted = [step for step in steps if args.step == step["name"] or (not args.step and _interesting(step))]
        if args.step and not wanted:
            raise KubeflowError(f"run {args.run_id} has no step {args.step!r}; it has {names}")
        if not wanted:
            print(f"no step has failed or runs; steps: {names}", file=sys.stderr)
        missing = [step["name"] for step in wanted if not _show(client, args.run_id, step)]
    if missing:
        raise KubeflowError(f"run {args.run_id}: Kubeflow has no log of {', '.join(missing)}; the reasons are above")
    return 0


def _show(client: Any, run_id: str, step: dict[str, Any]) -> bool:
    """Prints the log of the step, or why there is none; whether there was one."""
    from kubeflow import client as kubeflow_client
    from kubeflow.errors import KubeflowError

    print(f"--- {step['name']} ({step['state'].lower()})", flush=True)
    try:
        print(client.log(run_id, kubeflow_client.pod_names(step["pods"])), end="", flush=True)
    except KubeflowError as error:
        print(error, file=sys.stderr)
        return False
    return True


def _interesting(step: dict[str, Any]) -> bool:
    return step["state"] in ("FAILED", "RUNNING")
