"""Imports go one way: kubeflow -> pipeline -> components -> TFX; modules import none of them."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parent.parent
ALLOWED = {
    "kubeflow": {"kubeflow", "pipeline", "components"},
    "pipeline": {"pipeline", "components"},
    "components": {"components"},
    "modules": {"modules"},
}
OURS = set(ALLOWED)


def _imports(path: pathlib.Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found & OURS


@pytest.mark.parametrize("package", ALLOWED)
def test_direction_of_imports(package):
    allowed = ALLOWED[package]
    wrong = []
    for path in (ROOT / package).rglob("*.py"):
        extra = {"modules"} if "commands" in path.parts else set()
        extra |= {"kubeflow"} if "commands" in path.parts and package == "pipeline" else set()
        wrong += [f"{path.relative_to(ROOT)} imports {name}" for name in _imports(path) - allowed - extra]
    assert wrong == []


@pytest.mark.parametrize("package", ALLOWED)
def test_no_file_names_that_say_nothing(package):
    names = {"utils.py", "util.py", "helpers.py", "common.py", "misc.py"}
    assert [str(path) for path in (ROOT / package).rglob("*.py") if path.name in names] == []


def test_component_definitions_do_not_postpone_annotations():
    """TFX reads the annotations of an @component function at run time."""
    wrong = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "components").rglob("*.py")
        if "@component" in path.read_text(encoding="utf-8")
        and "from __future__ import annotations" in path.read_text(encoding="utf-8")
    ]
    assert wrong == []
