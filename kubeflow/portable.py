"""Paths of the machine that compiles, as names that mean the same in the image.

A file inside a Python package becomes `package:NAME/INSIDE`; a step's entrypoint turns that back into a path.
"""

import importlib.util
import pathlib

from kubeflow.errors import CompileError, StepInputError

_SCHEME = "package:"


def to_image(value: str, step: str, key: str, shared: tuple[str, ...]) -> str:
    """`value` as the image sees it, where it is an absolute path of this machine; unchanged where it is not.

    Args:
      value: an exec property.
      step: id of the step, for the message.
      key: name of the exec property, for the message.
      shared: folders that pods see too, such as mounted claims.

    Raises:
      CompileError: for a path that exists here, in no package, and that no pod will see.
    """
    path = pathlib.Path(value) if value.startswith("/") else None
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


def from_image(value: str) -> str:
    """The inverse of `to_image`, in a step's container.

    Raises:
      StepInputError: where the package is not installed.
    """
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
