"""`sluice models`: the registered models, their aliases and where they came from."""

import argparse
import json
import pathlib
from typing import Any

HELP = "list, show, promote, roll back and clean up registered models"

_DEFAULT_REGISTRY = str(pathlib.PurePath("build", "registry"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `sluice models`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")
    listing = actions.add_parser("list", help="every registered model, newest first")
    showing = actions.add_parser("show", help="one model: metrics, lineage, digest")
    promoting = actions.add_parser("promote", help="point an alias at a model; the old stable becomes previous")
    rolling = actions.add_parser("rollback", help="make the previous model stable again")
    cleaning = actions.add_parser("gc", help="delete old models, never one with an alias")
    for action in (showing, promoting):
        action.add_argument("model", metavar="MODEL", help="a version number, an alias, or latest")
    promoting.add_argument("--to", default="stable", metavar="ALIAS", help="the alias to move (default stable)")
    cleaning.add_argument("--keep", type=int, default=5, metavar="N", help="newest models to keep (default 5)")
    for action in (listing, showing, promoting, rolling, cleaning):
        action.add_argument(
            "--registry",
            default=_DEFAULT_REGISTRY,
            metavar="ROOT",
            help=f"folder or URL such as s3://bucket/registry (default {_DEFAULT_REGISTRY})",
        )
        action.add_argument("--name", default="", help="the model's name; needed where the registry holds several")
        action.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Runs one action."""
    from components.model_registry.registry import ModelRegistry, RegistryError, names

    found = [(root, name) for root in (args.registry, *_below(args.registry)) for name in names(root)]
    wanted = [(root, name) for root, name in found if args.name in ("", name)]
    known = ", ".join(dict.fromkeys(name for _, name in found)) or "none"
    if not wanted:
        missing = f"no model named {args.name!r}" if args.name else "no model is registered there"
        raise RegistryError(f"{args.registry}: {missing}; there are: {known}")
    if len(wanted) > 1:
        raise RegistryError(f"{args.registry}: choose one with --name or --registry: {known}")
    registry = ModelRegistry(*wanted[0])
    answer = {"list": _list, "show": _show, "promote": _promote, "rollback": _rollback, "gc": _gc}[args.action]
    lines, fields = answer(registry, args)
    print(json.dumps(fields) if args.json else "\n".join(lines))
    return 0


def _below(root: str) -> list[str]:
    """A folder may hold a registry for each workload: `build/registry/taxi`."""
    folder = pathlib.Path(root)
    return [str(path) for path in sorted(folder.iterdir()) if path.is_dir()] if folder.is_dir() else []


def _list(registry: Any, args: argparse.Namespace) -> tuple[list[str], dict]:
    aliases = registry.aliases()
    rows = [("VERSION", "CREATED", "MB", "SPAN", "METRICS", "ALIASES")]
    for entry in reversed(registry.entries()):
        metrics = ", ".join(f"{name} {value:.4g}" for name, value in sorted(entry.metrics.items())[:3]) or "-"
        names = ", ".join(sorted(alias for alias, version in aliases.items() if version == entry.version))
        span = "-" if entry.lineage.data_span is None else str(entry.lineage.data_span)
        rows.append((str(entry.version), entry.created[:19], f"{entry.size / 1e6:.1f}", span, metrics, names))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    models = [entry.to_dict() for entry in registry.entries()]
    return lines, {"name": registry.name, "aliases": aliases, "models": models}


def _show(registry: Any, args: argparse.Namespace) -> tuple[list[str], dict]:
    entry = registry.resolve(args.model)
    aliases = sorted(alias for alias, version in registry.aliases().items() if version == entry.version)
    lines = [f"{entry.name} version {entry.version}" + (f" ({', '.join(aliases)})" if aliases else "")]
    lines += [
        f"  {key:<20}{value}" for key, value in entry.to_dict().items() if key in ("created", "size", "digest", "uri")
    ]
    lines += [f"  {key:<20}{value}" for key, value in entry.to_dict()["lineage"].items() if value not in (None, "")]
    lines += [f"  {name:<20}{value:.6g}" for name, value in sorted(entry.metrics.items())]
    return lines, {**entry.to_dict(), "aliases": aliases}


def _promote(registry: Any, args: argparse.Namespace) -> tuple[list[str], dict]:
    entry = registry.promote(args.model, args.to)
    return [f"{args.to} is now version {entry.version}: {entry.uri}"], {"aliases": registry.aliases()}


def _rollback(registry: Any, args: argparse.Namespace) -> tuple[list[str], dict]:
    entry = registry.rollback()
    lines = [
        f"stable is version {entry.version} again: {entry.uri}",
        f"to serve it: sluice push {entry.uri} --name {registry.name}",
    ]
    return lines, {"aliases": registry.aliases()}


def _gc(registry: Any, args: argparse.Namespace) -> tuple[list[str], dict]:
    deleted = registry.gc(args.keep)
    kept = [entry.version for entry in registry.entries()]
    return [f"deleted: {_numbers(deleted)}; kept: {_numbers(kept)}"], {"deleted": deleted, "kept": kept}


def _numbers(versions: list[int]) -> str:
    return ", ".join(map(str, versions)) or "none"
