"""Ends the run where the step before it has rejected the data: `python -m kubeflow.stop_if_rejected`."""

import argparse
import logging

from kubeflow import plan, step_process
from kubeflow.errors import RejectedError
from kubeflow.executor_input import ExecutorInput

LOG = logging.getLogger("sluice")


def main(argv: list[str] | None = None) -> int:
    """Fails with the reason, or does nothing; returns the exit code of the container."""
    parser = argparse.ArgumentParser(description="Started by Kubeflow's launcher; not for people.")
    parser.add_argument("--executor-input", required=True, help="what the launcher sends, as JSON")
    parser.add_argument("--step", required=True, help="id of the step that has judged")
    args = parser.parse_args(argv)
    request = ExecutorInput.from_json(args.executor_input)
    return step_process.guarded(args.step, lambda: _stop(args.step, request))


def _stop(step: str, request: ExecutorInput) -> None:
    reason = request.parameters.get(plan.REJECTION_PARAMETER, "")
    if reason:
        raise RejectedError(reason)
    LOG.info("%s has let the data through", step)
    request.write_output({})


if __name__ == "__main__":
    raise SystemExit(main())
