"""A fingerprint of the code that a step runs, so that the cache knows when it changed.

TFX's cache key holds the dotted path of a function, not its source: after an edit it would go on serving the old model.
"""

import ast
import functools
import hashlib
import importlib.metadata
import importlib.util
import pathlib
from collections.abc import Iterator

# Everything outside these libraries is either the project's own source, followed below, or the user's.
_LIBRARIES = ("tfx", "tensorflow", "tf-keras", "tensorflow-transform", "apache-beam")
_OUTSIDE = ("site-packages", "dist-packages")


def code_fingerprint(*dotted: str) -> str:
    """Sha256, as hex, of the source behind dotted names.

    Args:
      dotted: modules or functions in modules, such as `modules.taxi.model.run_fn`. What they import is followed as long
        as it lies outside the interpreter's library and site-packages; of the rest the main libraries' versions count.
    """
    digest = hashlib.sha256()
    for library in _LIBRARIES:
        digest.update(f"{library}=={importlib.metadata.version(library)}\n".encode())
    for module, path in sorted(_closure(dotted).items()):
        digest.update(f"{module}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def file_fingerprint(path: str) -> str:
    """Sha256, as hex, of one file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def source_files(*dotted: str) -> list[pathlib.Path]:
    """The files whose content decides `code_fingerprint(*dotted)`."""
    return sorted(_closure(dotted).values())


def _closure(dotted: tuple[str, ...]) -> dict[str, pathlib.Path]:
    found: dict[str, pathlib.Path] = {}
    waiting = [name for name in dotted if name]
    while waiting:
        module, path = _locate(waiting.pop())
        if path is None or module in found:
            continue
        found[module] = path
        waiting.extend(_imports(module, path, path.stat().st_mtime_ns))
    return found


def _locate(dotted: str) -> tuple[str, pathlib.Path | None]:
    """The module that `dotted` names or lies in, and its source file if it is one of ours. Imports nothing."""
    top, *rest = dotted.split(".")
    spec = importlib.util.find_spec(top) if top else None
    if spec is None:
        return dotted, None
    name, path = top, _own_source(spec.origin)
    folders = [pathlib.Path(folder) for folder in spec.submodule_search_locations or []]
    for part in rest:
        candidates = [c for f in folders for c in (f / part / "__init__.py", f / f"{part}.py") if c.is_file()]
        if not candidates:
            break
        name, path = f"{name}.{part}", _own_source(str(candidates[0]))
        folders = [candidates[0].parent] if candidates[0].name == "__init__.py" else []
    return name, path


def _own_source(origin: str | None) -> pathlib.Path | None:
    if not origin or not origin.endswith(".py"):
        return None
    path = pathlib.Path(origin)
    standard_library = pathlib.Path(ast.__file__).parent
    if any(part in _OUTSIDE for part in path.parts) or path.is_relative_to(standard_library):
        return None
    return path


@functools.cache  # steps share most of their sources
def _imports(module: str, path: pathlib.Path, changed: int) -> tuple[str, ...]:
    """What the file imports, as it was at `changed`, in nanoseconds."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return tuple(_names(ast.parse(path.read_bytes(), filename=str(path)), package))


def _names(tree: ast.AST, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = (
                importlib.util.resolve_name("." * node.level + (node.module or ""), package)
                if node.level
                else node.module
            )
            # A name may be a submodule or something inside the module: _locate finds the one that exists.
            yield from (f"{base}.{alias.name}" for alias in node.names)
