"""`sluice push`: deploy a SavedModel, go back to the one before, or finish what a crash interrupted."""

import argparse
import json
import pathlib
import sys
from typing import Any

HELP = "deploy one model to a serving folder, verified and published by one rename"

_DEFAULT_BASE = str(pathlib.PurePath("build", "serving"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `sluice push`."""
    parser.add_argument(
        "model", nargs="?", metavar="MODEL_DIR", help="a SavedModel folder, a TFX Model artifact, or a registry entry"
    )
    parser.add_argument("--to", metavar="BASE", help=f"serving folder of all models (without it {_DEFAULT_BASE})")
    parser.add_argument("--name", required=True, help="the model's name: its folder under BASE, and in the server")
    parser.add_argument(
        "--server",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="a replica to wait for and probe, host:port (gRPC) or http://host:port (REST); repeat for each",
    )
    parser.add_argument(
        "--model-config", default="", metavar="FILE", help="the servers' model config file: deploy by labels through it"
    )
    parser.add_argument("--keep", type=int, metavar="N", help="versions to keep, the live one included (without it 2)")
    parser.add_argument("--require-golden", action="store_true", help="refuse a model without golden predictions")
    parser.add_argument("--hold-canary", action="store_true", help="stop at the canary, until --promote or --rollback")
    parser.add_argument("--target", metavar="FILE", help="a push target in JSON or YAML, for all other settings")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--rollback", action="store_true", help="make the version before the live one live again")
    action.add_argument("--promote", action="store_true", help="make the canary that was held stable")
    action.add_argument("--recover", action="store_true", help="finish or undo what a crash interrupted")
    action.add_argument("--history", action="store_true", help="print what was done to this model's folder")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Deploys, rolls back or recovers; prints what serves now."""
    from components.pusher.errors import PushConfigError
    from components.pusher.targets import make_deployer

    if bool(args.model) == (args.rollback or args.promote or args.recover or args.history):
        raise PushConfigError("give either MODEL_DIR, or one of --rollback, --promote, --recover and --history")
    target = _target(args)
    if not args.model:
        _check_known(target)
    deployer = make_deployer(target, boundary=_progress)
    if args.history:
        return _print_history(deployer, args.json)
    result = _act(deployer, args)
    if args.json:
        print(json.dumps(result.to_dict() if result else {"outcome": "nothing to recover"}))
    else:
        print(_sentence(result) if result else f"{deployer.folder.path}: nothing to recover")
    for warning in result.report.get("warnings", []) if result else ():
        print(f"warning: {warning}", file=sys.stderr)
    return 0


def _act(deployer: Any, args: argparse.Namespace) -> Any:
    """What was asked for, without the libraries' own logs unless --debug wants them."""
    from pipeline.quiet import NativeLogs

    native_logs = None if args.debug else NativeLogs()
    try:
        if args.rollback:
            return deployer.rollback()
        if args.promote:
            return deployer.promote()
        if args.recover:
            return deployer.recover()
        return deployer.push(_saved_model(pathlib.Path(args.model)))
    finally:
        if native_logs:
            native_logs.restore()


def _check_known(target: Any) -> None:
    """Refuses a name under which nothing was ever pushed: going on would make folders for a slip of the pen."""
    from components.pusher.errors import PushConfigError

    base = pathlib.Path(target.base)
    if (base / target.name).is_dir():
        return
    names = sorted(path.parent.name for path in base.glob("*/.sluice")) if base.is_dir() else []
    raise PushConfigError(
        f"{base / target.name}: nothing was pushed there; models in {base}: {', '.join(names) or 'none'}"
    )


def _progress(boundary: str) -> None:
    """One line per state reached: a large model takes minutes."""
    when, _, state = boundary.partition(" ")
    if when == "after":
        print(f"  {state.lower()}", file=sys.stderr, flush=True)


def _target(args: argparse.Namespace) -> Any:
    from components.pusher.config import PushTarget
    from components.pusher.errors import PushConfigError

    settings: dict[str, Any] = {}
    if args.target:
        import yaml

        try:
            settings = yaml.safe_load(pathlib.Path(args.target).read_text(encoding="utf-8")) or {}
        except (OSError, yaml.YAMLError) as error:
            raise PushConfigError(f"{args.target}: cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(settings, dict):
        raise PushConfigError(f"{args.target}: expected keys and values, such as `keep_versions: 3`")
    given = {
        "base": args.to or settings.get("base", _DEFAULT_BASE),
        "name": args.name,
        "keep_versions": args.keep,
        "servers": args.server or None,
        "kind": "model_config" if args.model_config else None,
        "model_config_file": args.model_config or None,
        "require_golden": args.require_golden or None,
        "hold_canary": args.hold_canary or None,
    }
    settings |= {key: value for key, value in given.items() if value is not None}
    return PushTarget.from_dict(settings, where=args.target or "push")


def _saved_model(path: pathlib.Path) -> pathlib.Path:
    """The SavedModel itself: a TFX Model artifact, and so a registry entry, keeps it in a folder below.

    A registry entry knows its digest, so one that was damaged or edited since is refused.
    """
    from components.model_registry.registry import RegistryError, check_unchanged, entry_of
    from components.pusher.errors import PushError

    entry = entry_of(path)
    if entry is not None:
        try:
            check_unchanged(path, entry)
        except RegistryError as error:
            raise PushError(str(error)) from None
    inner = path / "Format-Serving"
    return inner if inner.is_dir() and not (path / "saved_model.pb").exists() else path


def _sentence(result: Any) -> str:
    verb = {
        "pushed": "now serves",
        "unchanged": "already serves this model",
        "rolled back": "serves again",
        "held as canary": "is the canary until --promote or --rollback",
    }
    if result.outcome == "recovered: undone":
        return f"version {result.version} is undone: what that push left is removed, what served before serves on"
    happened = verb.get(result.outcome, result.outcome)
    asked = "" if result.observed else " (published; no server was asked)"
    before = f"; before: version {result.previous_version}" if result.previous_version else ""
    return f"version {result.version} {happened}{asked}{before}: {result.destination}"


def _print_history(deployer: Any, as_json: bool) -> int:
    live = deployer.rollout.live_version()
    records = [
        {"version": record.version, "state": str(record.state), "at": record.at, "reason": record.detail.get("reason")}
        for record in deployer.folder.journal.records()
    ]
    if as_json:
        print(json.dumps({"live": live, "versions": list(deployer.folder.versions()), "history": records}))
        return 0
    print(f"live: {live or 'none'}; on disk: {', '.join(map(str, deployer.folder.versions())) or 'none'}")
    for record in records:
        reason = f"  {record['reason']}" if record["reason"] else ""
        print(f"{record['at'][:19]}  {record['version']}  {record['state']}{reason}")
    return 0
