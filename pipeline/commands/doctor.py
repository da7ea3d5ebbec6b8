"""`sluice doctor`."""

import argparse
import json

from pipeline.commands import submit

HELP = "Check this machine: each finding with ok or problem, and what to do. Exit code 1 where something must change."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--root", default="build", metavar="DIR", help="where runs will be written")
    parser.add_argument("--kubeflow", metavar="URL", help="also check a Kubeflow Pipelines endpoint")
    submit.add_login_arguments(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object, last on stdout")


def run(args: argparse.Namespace) -> int:
    import dataclasses

    from pipeline import doctor

    findings = doctor.examine(args.root)
    if args.kubeflow is not None:
        import importlib

        connection = submit.connection(args, args.kubeflow)
        findings += importlib.import_module("kubeflow.doctor").examine(connection)
    if args.json:
        print(json.dumps({"findings": [dataclasses.asdict(finding) for finding in findings]}))
    else:
        for finding in findings:
            print(f"{finding.state:8} {finding.name:18} {finding.detail}")
            if finding.advice:
                print(f"{'':27} -> {finding.advice}")
    return 1 if any(finding.state == "problem" for finding in findings) else 0
