"""`sluice submit`."""

import argparse
import json
import math
import os
import re
import sys
from typing import Any

from pipeline.commands import compile as compile_command

HELP = (
    "Run a pipeline on Kubeflow Pipelines: compile it, or take a compiled file, and submit it, once or on a schedule."
)
_PASSWORD_VARIABLE = "SLUICE_DEX_PASSWORD"
_ROOTS = ("minio://", "s3://", "gs://")
_BUCKET = r"[a-zA-Z0-9][-_.a-zA-Z0-9]*(/[^\s?#]*)?"
_FIELD = r"[-0-9a-z*/,?]+"
_CRON = rf"@(hourly|daily|midnight|weekly|monthly|yearly|annually)|@every \w+|{_FIELD}( +{_FIELD}){{5}}"
"""Whether it has the shape; what the fields may hold Kubeflow itself says."""
_LONGEST_NAME = 128


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pipeline", metavar="FILE", help="a file that `sluice compile` made, in place of compiling now"
    )
    compile_command.add_pipeline_arguments(parser)
    add_connection_arguments(parser)
    parser.add_argument("--experiment", default="sluice", help="experiment of the run; created where there is none")
    parser.add_argument("--run-name", help="name of the run (default: the pipeline's name and the time)")
    parser.add_argument(
        "--param", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the pipeline"
    )
    parser.add_argument(
        "--pipeline-root", default="", help="where artifacts go: minio://, s3:// or gs:// (default: Kubeflow's)"
    )
    parser.add_argument("--service-account", default="", help="service account of the steps (default: Kubeflow's)")
    parser.add_argument("--cron", help="run on this schedule: six fields, seconds first")
    parser.add_argument("--wait", action="store_true", help="wait for the end; exit code 1 if it is not a good one")
    parser.add_argument("--deadline", type=seconds, default=24 * 3600.0, metavar="SECONDS", help="how long to wait")
    parser.add_argument("--json", action="store_true", help="one JSON object, last on stdout")


def add_connection_arguments(parser: argparse.ArgumentParser) -> None:
    """Where Kubeflow is and how to get in; the same for every command that talks to it."""
    host = os.environ.get("SLUICE_KFP_HOST", "http://localhost:8080")
    parser.add_argument(
        "--host", default=host, metavar="URL", help="Kubeflow Pipelines (default: $SLUICE_KFP_HOST, or port 8080 here)"
    )
    add_login_arguments(parser)


def add_login_arguments(parser: argparse.ArgumentParser) -> None:
    """How to get in."""
    parser.add_argument("--namespace", default="", help="your profile's namespace, where Kubeflow has several users")
    token = os.environ.get("SLUICE_KFP_TOKEN_FILE", "")
    parser.add_argument("--token-file", default=token, metavar="FILE", help="a bearer token ($SLUICE_KFP_TOKEN_FILE)")
    parser.add_argument("--dex-user", default="", help=f"user of Dex; the password comes from ${_PASSWORD_VARIABLE}")
    parser.add_argument("--dex-connector", default="local", help="connector of Dex: local or ldap")
    parser.add_argument("--ca-file", default="", metavar="FILE", help="certificate authority of the host")
    parser.add_argument("--timeout", type=seconds, default=30.0, metavar="SECONDS", help="for one answer of the host")


def seconds(text: str) -> float:
    """A number of seconds on a command line: more than none."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, found {text}")
    return value


def connect(args: argparse.Namespace) -> Any:
    """A client for what the command line says; use it as a context manager."""
    from kubeflow import client

    return client.KubeflowClient(connection(args, args.host))


def connection(args: argparse.Namespace, host: str) -> Any:
    """The connection to `host` with the login that the command line names."""
    from kubeflow import auth
    from kubeflow.connection import Connection

    credentials = auth.Credentials(
        token_file=args.token_file,
        dex_user=args.dex_user,
        dex_password=_password() if args.dex_user else "",
        dex_connector=args.dex_connector,
    )
    return Connection(
        host=host,
        namespace=args.namespace,
        credentials=credentials,
        ca_file=args.ca_file,
        timeout_seconds=args.timeout,
    )


def run(args: argparse.Namespace) -> int:
    _check_options(args)
    documents = _documents(args)
    from kubeflow import api_checks

    parameters = parse_parameters(args.param, documents[0])
    api_checks.check_parameters(documents[0], parameters)
    with connect(args) as client:
        experiment = client.experiment(args.experiment)
        options = {"pipeline_root": args.pipeline_root, "service_account": args.service_account}
        name = args.run_name or _run_name(documents[0])
        if args.cron is not None:
            made = client.create_recurring_run(name, experiment, documents, parameters, args.cron, **options)
            return _show(args, {"recurring_run_id": made["recurring_run_id"], "name": name, "cron": args.cron})
        made = client.create_run(name, experiment, documents, parameters, **options)
        result = {"run_id": made["run_id"], "name": name, "state": made.get("state") or "PENDING"}
        if not args.wait:
            return _show(args, result)
        from pipeline.commands import status

        result |= status.follow(client, made["run_id"], args.deadline, args.namespace)
        _show(args, result)
        return 0 if result["state"] == "SUCCEEDED" else 1


def _check_options(args: argparse.Namespace) -> None:
    from pipeline.errors import ConfigError

    if args.cron is not None and args.wait:
        raise ConfigError("--wait: a recurring run has no end; leave out --wait or --cron")
    if args.cron is not None and not re.fullmatch(_CRON, args.cron.strip(), re.IGNORECASE):
        raise ConfigError(
            f"--cron {args.cron!r}: Kubeflow's cron has six fields, seconds first, such as '0 0 3 * * *', "
            "or is @hourly, @daily, @weekly, @monthly, @every 6h"
        )
    if args.pipeline_root and not args.pipeline_root.startswith(_ROOTS):
        raise ConfigError(
            f"--pipeline-root {args.pipeline_root}: Kubeflow stores artifacts in {', '.join(_ROOTS)} only"
        )
    if args.pipeline_root and not re.fullmatch(_BUCKET, args.pipeline_root.partition("://")[2]):
        raise ConfigError(f"--pipeline-root {args.pipeline_root}: expected a bucket after ://, and a folder in it")
    for option, value in (("--experiment", args.experiment), ("--run-name", args.run_name)):
        if value is not None and not 0 < len(value.strip()) <= _LONGEST_NAME:
            raise ConfigError(f"{option}: expected 1 to {_LONGEST_NAME} characters, found {len(value.strip())}")
    if args.service_account:
        from kubeflow import kubernetes_rules

        kubernetes_rules.check_name("--service-account", args.service_account)
    if args.pipeline:
        _check_nothing_else_to_compile(args)


def _check_nothing_else_to_compile(args: argparse.Namespace) -> None:
    """A compiled file is submitted as it is: an option that would have changed it is a misunderstanding."""
    from pipeline.errors import ConfigError

    parser = argparse.ArgumentParser()
    compile_command.add_pipeline_arguments(parser)
    for name, default in vars(parser.parse_args([])).items():
        if getattr(args, name) != default:
            option = name.replace("_", "-")
            raise ConfigError(f"--{option}: {args.pipeline} is compiled already; leave out --pipeline or --{option}")


def parse_parameters(given: list[str], pipeline_spec: dict[str, Any]) -> dict[str, Any]:
    """Values of `NAME=VALUE` with the types that the pipeline declares; all but text is read as JSON."""
    from pipeline.errors import ConfigError

    declared = pipeline_spec["root"].get("inputDefinitions", {}).get("parameters", {})
    values = {}
    for item in given:
        name, equals, text = item.partition("=")
        if not equals:
            raise ConfigError(f"--param {item!r}: expected NAME=VALUE")
        if name in values:
            raise ConfigError(f"--param {name}: given twice")
        values[name] = text
        if declared.get(name, {}).get("parameterType", "STRING") != "STRING":
            try:
                values[name] = json.loads(text, parse_constant=_no_number)
            except ValueError:
                kind = declared[name]["parameterType"]
                raise ConfigError(f"--param {name}: expected a {kind} in JSON, found {text!r}") from None
    return values


def _no_number(text: str) -> float:
    """JSON has no NaN and no infinity, though Python reads them."""
    raise ValueError(text)


def _documents(args: argparse.Namespace) -> list[dict[str, Any]]:
    if not args.pipeline:
        compiled, _ = compile_command.compile_workload(args)
        return [compiled.pipeline_spec, compiled.platform_spec]
    import pathlib

    import yaml

    from kubeflow import api_checks
    from pipeline.errors import ConfigError

    try:
        text = pathlib.Path(args.pipeline).read_text(encoding="utf-8")
        api_checks.check_template(text)
        return [document for document in yaml.safe_load_all(text) if document]
    except OSError as error:
        raise ConfigError(f"--pipeline {args.pipeline}: {error.strerror}") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"--pipeline {args.pipeline}: not valid YAML: {' '.join(str(error).split())}") from None


def _run_name(pipeline_spec: dict[str, Any]) -> str:
    import datetime

    return f"{pipeline_spec['pipelineInfo']['name']} {datetime.datetime.now():%Y-%m-%d %H:%M}"


def _show(args: argparse.Namespace, result: dict[str, Any]) -> int:
    if args.json:
        print(json.dumps(result))
    elif "recurring_run_id" in result:
        print(f"{result['name']}: runs at {result['cron']!r} as {result['recurring_run_id']}")
        print(f"to stop it: sluice cancel --recurring {result['recurring_run_id']} --host {args.host}")
    else:
        print(f"{result['name']}: {result['state'].lower()}, run {result['run_id']}")
        print(f"next: sluice status {result['run_id']} --host {args.host}")
    return 0


def _password() -> str:
    password = os.environ.get(_PASSWORD_VARIABLE, "")
    if not password and sys.stdin.isatty():
        import getpass

        password = getpass.getpass("password: ")
    if not password:
        from pipeline.errors import ConfigError

        raise ConfigError(f"--dex-user needs a password: put it into ${_PASSWORD_VARIABLE}")
    return password
