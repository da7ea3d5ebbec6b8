"""Puts what the steps have said on one page: `python -m kubeflow.report_summary`."""

import argparse
import json
import pathlib

from kubeflow import outcome_names, step_process
from kubeflow.executor_input import ExecutorInput


def main(argv: list[str] | None = None) -> int:
    """Writes the page; returns the exit code of the container."""
    parser = argparse.ArgumentParser(description="Started by Kubeflow's launcher; not for people.")
    parser.add_argument("--executor-input", required=True, help="what the launcher sends, as JSON")
    parser.add_argument("--title", required=True, help="name of the pipeline")
    parser.add_argument("--steps", required=True, help="titles by parameter, in the pipeline's order, as JSON")
    args = parser.parse_args(argv)
    request = ExecutorInput.from_json(args.executor_input)
    return step_process.guarded("run-summary", lambda: _write(args.title, json.loads(args.steps), request))


def _write(title: str, steps: dict[str, str], request: ExecutorInput) -> None:
    path = pathlib.Path(request.outputs[outcome_names.SUMMARY_PORT].path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(title, {name: request.parameters[key] for key, name in steps.items()}), encoding="utf-8")
    request.write_output({})


def page(title: str, said: dict[str, str]) -> str:
    """Markdown with a heading for every step that has said something."""
    parts = [f"# {title}"] + [f"## {step}\n\n{text}" for step, text in said.items() if text]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
