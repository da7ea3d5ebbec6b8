"""`sluice serve`: the development model server."""

import argparse
import dataclasses
import json
import logging
import os
import signal
import sys
import threading
from typing import Any

HELP = "serve a folder of models over TensorFlow Serving's REST and gRPC API (a development server)"

_DEFAULT_BASE = os.path.join("build", "serving")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `sluice serve`."""
    parser.add_argument(
        "base",
        nargs="?",
        default=_DEFAULT_BASE,
        metavar="BASE",
        help="a model's base folder, or one that holds several",
    )
    parser.add_argument("--name", default="", help="model name in requests (default: the folder's name)")
    parser.add_argument("--model-config", metavar="FILE", help="TensorFlow Serving model config (text format)")
    parser.add_argument("--versions", default="latest", metavar="POLICY", help="latest, latest:N, all, or 3,5")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=N", help="name a version; repeatable")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; only this machine reaches the usual one"
    )
    parser.add_argument("--port", type=int, default=8501, help="REST port; 0 takes a free one")
    parser.add_argument("--grpc-port", type=int, default=8500, metavar="PORT", help="gRPC port; 0 takes a free one")
    parser.add_argument("--batching", metavar="FILE", help="TensorFlow Serving batching parameters (text format)")
    parser.add_argument("--max-request-mb", type=int, default=64, metavar="MB", help="largest request")
    parser.add_argument("--request-seconds", type=float, default=30.0, metavar="S", help="time for one request")
    parser.add_argument("--drain-seconds", type=float, default=20.0, metavar="S", help="time to finish when stopped")
    parser.add_argument("--poll-seconds", type=float, default=1.0, metavar="S", help="how often folders are looked at")
    parser.add_argument("--load-retries", type=int, default=5, metavar="N", help="attempts after a failed load")
    parser.add_argument("--load-retry-seconds", type=float, default=2.0, metavar="S", help="pause between attempts")
    parser.add_argument("--log-requests", metavar="DIR", help="write answered requests there, as PredictionLogs")
    parser.add_argument("--log-share", type=float, default=1.0, metavar="P", help="share of requests to log")
    parser.add_argument("--session-threads", type=int, default=0, metavar="N", help="threads of a model (0: all cores)")
    parser.add_argument("--json", action="store_true", help="print one JSON object with the addresses when ready")


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C, then drain."""
    from pipeline.quiet import NativeLogs

    native_logs = None if args.debug else NativeLogs()
    try:
        return _serve(args)
    finally:
        if native_logs:
            native_logs.restore()


def _serve(args: argparse.Namespace) -> int:
    from modules.serving.server import BANNER, ModelServer

    _check_numbers(args)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("tensorflow").setLevel(logging.INFO if args.debug else logging.WARNING)
    models, roots, discover = _models(args)
    stopped = threading.Event()
    previous = {number: signal.signal(number, lambda *_: stopped.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    log = _request_log(args)
    try:
        server = ModelServer(models, _config(args, log), roots, discover)
        with server:
            _announce(server, BANNER, args.json)
            stopped.wait()
            print("draining: no new requests, those in flight are answered", file=sys.stderr)
    finally:
        if log:
            log.close()
        for number, handler in previous.items():
            signal.signal(number, handler)
    return 0


def _check_numbers(args: argparse.Namespace) -> None:
    """Refuses numbers that mean nothing before any model is loaded: every request would fail, or the port not open."""
    from modules.serving.status import ServingUsageError

    for option in ("port", "grpc_port"):
        if not 0 <= getattr(args, option) <= 65535:
            raise ServingUsageError(f"{_flag(option)} {getattr(args, option)}: expected a port, 0 to 65535")
    if args.port and args.port == args.grpc_port:
        raise ServingUsageError(f"--port and --grpc-port are both {args.port}: REST and gRPC need a port each")
    for option in ("max_request_mb", "request_seconds", "poll_seconds"):
        if not getattr(args, option) > 0:
            raise ServingUsageError(f"{_flag(option)} {getattr(args, option):g}: expected more than 0")
    for option in ("drain_seconds", "load_retries", "load_retry_seconds", "session_threads"):
        if not getattr(args, option) >= 0:
            raise ServingUsageError(f"{_flag(option)} {getattr(args, option):g}: expected 0 or more")


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def _models(args: argparse.Namespace) -> tuple[list[Any], list[str], Any]:
    """What to serve, the folders outside of which nothing is loaded, and how to find models that appear later."""
    from modules.serving import model_config

    policy = model_config.VersionPolicy.parse(args.versions)
    labels = dict(_label(text) for text in args.label)
    if args.model_config:
        if labels:
            raise model_config.ServingUsageError("--label and --model-config: write version_labels into that file")
        models = model_config.read_model_config(args.model_config)
        roots = [model.base_path for model in models]
        return models, [*roots, args.base] if os.path.isdir(args.base) else roots, None
    models = model_config.models_under(args.base, args.name, policy)
    if labels:
        if len(models) != 1:
            raise model_config.ServingUsageError(f"--label needs one model, but {args.base} holds {len(models)}")
        models = [dataclasses.replace(models[0], labels=labels)]
    return models, [args.base], lambda: model_config.models_under(args.base, args.name, policy)


def _label(text: str) -> tuple[str, int]:
    from modules.serving.status import ServingUsageError

    name, _, number = text.partition("=")
    if not name or not number.isdecimal():
        raise ServingUsageError(f"--label {text}: expected NAME=VERSION, such as stable=3")
    return name, int(number)


def _request_log(args: argparse.Namespace) -> Any:
    from modules.serving.request_log import RequestLog
    from modules.serving.status import ServingUsageError

    if not args.log_requests:
        return None
    if not 0 < args.log_share <= 1:
        raise ServingUsageError(f"--log-share {args.log_share:g}: expected more than 0 and at most 1")
    try:
        return RequestLog(args.log_requests, args.log_share)
    except OSError as error:
        raise ServingUsageError(f"cannot log requests to {args.log_requests}: {error.strerror}") from None


def _config(args: argparse.Namespace, log: Any) -> Any:
    from modules.serving.batching_file import read_batching_file
    from modules.serving.manager import LoadingConfig
    from modules.serving.server import ServerConfig

    loading = LoadingConfig(
        poll_seconds=args.poll_seconds,
        max_retries=args.load_retries,
        retry_seconds=args.load_retry_seconds,
        threads=args.session_threads,
        batching=read_batching_file(args.batching) if args.batching else None,
        log=log,
    )
    return ServerConfig(
        host=args.host,
        rest_port=args.port,
        grpc_port=args.grpc_port,
        max_request_bytes=args.max_request_mb * 1024 * 1024,
        request_seconds=args.request_seconds,
        drain_seconds=args.drain_seconds,
        loading=loading,
    )


def _announce(server: Any, banner: str, as_json: bool) -> None:
    models = server.describe()
    if as_json:
        ready = {"rest": server.rest_url, "grpc": server.grpc_address, "metrics": server.metrics_url, "models": models}
        print(json.dumps(ready), flush=True)
        return
    print(banner)
    if not models:
        print("  no model yet: the first that appears as NAME/VERSION in the folder is served")
    for model in models:
        versions = ", ".join(map(str, model["versions"])) or "none yet"
        print(f"  model {model['name']}: versions {versions}  ({model['base_path']})")
        for version, error in model["errors"].items():
            print(f"    version {version} is not served: {error}")
        print(f"    REST {server.rest_url}/v1/models/{model['name']}:predict")
    print(f"  gRPC {server.grpc_address}   metrics {server.metrics_url}")
    print("  stop with Ctrl-C", flush=True)
