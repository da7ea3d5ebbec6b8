"""Paths of the machine that compiles, as names that mean the same in the image.

A file inside a Python package becomes `package:NAME/INSIDE`; a step's entrypoint turns that back into a path.
"""

import importlib.util
import json
import pathlib
from collections.abc import Callable
from typing import Any

from kubeflow.errors import CompileError, StepInputError

_SCHEME = "package:"


def to_image(value: str, step: str, key: str, shared: tuple[str, ...]) -> str:
    """`value` as the image sees it, where it is or holds an absolute path of this machine; unchanged where not.

    Args:
      value: an exec property; paths in the texts of a JSON object or list, such as a component's settings, count too.
      step: id of the step, for the message.
      key: name of the exec property, for the message.
      shared: folders that pods see too, such as mounted claims.

    Raises:
      CompileError: for a path that exists here, in no package, and that no pod will see.
    """
    return _mapped(value, lambda path: _path_to_image(path, step, key, shared))


def from_image(value: str) -> str:
    """The inverse of `to_image`, in a step's container.

    Raises:
      StepInputError: where the package is not installed.
    """
    return _mapped(value, _path_from_image) if _SCHEME in value else value


def _mapped(value: str, of_path: Callable[[str], str]) -> str:
    """`value` with `of_path` done to it, or to every text inside it where it is JSON."""
    if not value.startswith(("{", "[")):
        return of_path(value)
    try:
        content = json.loads(value)
    except json.JSONDecodeError:
        return value
    changed = _mapped_inside(content, of_path)
    return value if changed == content else json.dumps(changed)


def _mapped_inside(content: Any, of_path: Callable[[str], str]) -> Any:
    if isinstance(content, dict):
        return {key: _mapped_inside(item, of_path) for key, item in content.items()}
    if isinstance(content, list):
        return [_mapped_inside(item, of_path) for item in content]
    return _mapped(content, of_path) if isinstance(content, str) else content


def _path_to_image(value: str, step: str, key: str, shared: tuple[str, ...]) -> str:
    path = pathlib.Path(value) if value.startswith("/") and len(value) > 1 else None
    if path is None or "\n" in value or any(path.is_relative_to(folder) for folder in shared):
        return value
    packaged = _inside_package(path)
    if packaged:
        return _SCHEME + packaged
    if _exists(path):
        raise CompileError(
            f"step {step!r}: {key} is {value}, a path of this machine that no pod sees. Put the file into a package "
            f"under modules/ or into the shared storage ({', '.join(shared)})."
        )
    return value


def _path_from_image(value: str) -> str:
    if not value.startswith(_SCHEME):
        return value
    package, _, inside = value.removeprefix(_SCHEME).partition("/")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise StepInputError(f"{value}: the image has no package {package!r}")
    return str(pathlib.Path(next(iter(spec.submodule_search_locations)), inside))


def _inside_package(path: pathlib.Path) -> str | None:
    """`NAME/INSIDE` where `path` lies in a package that can be found here by its name."""
    for folder in path.parents:
        if (folder / "__init__.py").is_file() and not (folder.parent / "__init__.py").is_file():
            spec = importlib.util.find_spec(folder.name)
            locations = list(spec.submodule_search_locations or []) if spec else []
            if any(pathlib.Path(location).resolve() == folder.resolve() for location in locations):
                return f"{folder.name}/{path.relative_to(folder)}"
    return None


def _exists(path: pathlib.Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False
