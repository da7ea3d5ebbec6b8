"""A workload's default data: a folder, files of an installed package, or what a function writes once."""

import importlib
import importlib.util
import json
import os
import pathlib
import shutil
import uuid

from pipeline.errors import ConfigError
from pipeline.fingerprint import code_fingerprint

PACKAGE = "package:"
FUNCTION = "function:"
# Hidden, so that ingestion does not take it for data.
_MADE_BY = ".made-by.json"


def resolve(location: str, folder: pathlib.Path, root: str, name: str) -> str:
    """An absolute path or pattern from what a workload's `data` says; nothing is written.

    Args:
      location: a path relative to `folder`, a URL, `package:NAME/FOLDER` or `function:DOTTED.NAME`.
      folder: the workload's.
      root: where runs write; what a function writes lies under its data/<name>.
      name: the workload's.

    Raises:
      ConfigError: where the package does not exist.
    """
    if location.startswith(PACKAGE):
        package, _, inside = location.removeprefix(PACKAGE).partition("/")
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise ConfigError(f"{folder / 'workload.yaml'}: `data` names the package {package}, which is not installed")
        return str(pathlib.Path(next(iter(spec.submodule_search_locations)), inside))
    if location.startswith(FUNCTION):
        return f"{root.rstrip('/')}/data/{name}"
    if "://" in location:
        return location
    return str((folder / location).resolve())


def make(location: str | None, target: str) -> None:
    """Calls the function that `location` names, unless it has written `target` before with the same code.

    Args:
      location: a workload's `data`; anything but `function:DOTTED.NAME` is left as it is.
      target: the folder to write. The function is called with the path of an empty folder, which takes this name when
        the function has returned: data is there whole, or not at all.

    Raises:
      ConfigError: there is no such function, or `target` holds something that no such function wrote.
    """
    if not location or not location.startswith(FUNCTION):
        return
    dotted = location.removeprefix(FUNCTION)
    made_by = {"function": dotted, "code": code_fingerprint(dotted)}
    record = pathlib.Path(target, _MADE_BY)
    if record.is_file() and json.loads(record.read_text(encoding="utf-8")) == made_by:
        return
    if os.path.isdir(target) and os.listdir(target) and not record.is_file():
        raise ConfigError(f"{target} holds files that {dotted} did not write: move them, or name them with --data")
    write = _function(dotted)
    scratch = f"{target}.writing-{uuid.uuid4().hex[:8]}"
    os.makedirs(scratch)
    try:
        write(scratch)
        pathlib.Path(scratch, _MADE_BY).write_text(json.dumps(made_by), encoding="utf-8")
        if os.path.isdir(target):
            shutil.rmtree(target)
        os.replace(scratch, target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def must_be_copied(location: str | None) -> bool:
    """Whether a function of the workload makes the data, which is called on the machine of `sluice run` only."""
    return bool(location) and str(location).startswith(FUNCTION)


def _function(dotted: str):
    module, _, name = dotted.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"`data: {FUNCTION}{dotted}` cannot be loaded: {error}") from None
