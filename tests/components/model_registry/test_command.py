"""`sluice models` as a person runs it."""

import json

import pytest

from components.model_registry import Lineage, ModelRegistry
from pipeline import cli


def models(capsys, *arguments: str) -> tuple[int, str, str]:
    code = cli.main(["models", *map(str, arguments)])
    output, errors = capsys.readouterr()
    return code, output, errors


@pytest.fixture
def registry(tmp_path, model) -> ModelRegistry:
    registry = ModelRegistry(str(tmp_path / "registry"), "taxi")
    registry.register(model("a"), lineage=Lineage(data_span=1, run="first"), metrics={"auc": 0.75})
    registry.register(model("b"), lineage=Lineage(data_span=2, run="second", parent=1), metrics={"auc": 0.8125})
    return registry


def test_list_shows_every_model_newest_first(registry, capsys):
    registry.promote(1)
    code, output, _ = models(capsys, "list", "--registry", registry.root)
    header, newest, oldest = output.splitlines()
    assert code == 0
    assert header.split() == ["VERSION", "CREATED", "MB", "SPAN", "METRICS", "ALIASES"]
    assert newest.split()[0] == "2"
    assert oldest.split()[-1] == "stable"
    assert "auc 0.8125" in newest


def test_promote_rollback_show_and_gc(registry, capsys):
    root = ("--registry", registry.root)
    assert models(capsys, "promote", "1", *root)[1].startswith("stable is now version 1: ")
    code, output, _ = models(capsys, "promote", "latest", "--json", *root)
    assert (code, json.loads(output)) == (0, {"aliases": {"stable": 2, "previous": 1}})
    code, output, _ = models(capsys, "rollback", *root)
    assert (code, output.startswith("stable is version 1 again: ")) == (0, True)
    code, output, _ = models(capsys, "show", "stable", *root, "--name", "taxi")
    assert output.startswith("taxi version 1 (stable)\n")
    assert "first" in output
    assert "auc                 0.75" in output
    code, output, _ = models(capsys, "gc", "--keep", "1", "--json", *root)
    assert (code, json.loads(output)) == (0, {"deleted": [], "kept": [1, 2]})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "9"), "no model '9'; aliases: none; versions: 1, 2"),
        (("rollback",), "nothing to roll back to"),
        (("list", "--name", "bus"), "no model named 'bus'; there are: taxi"),
        (("gc", "--keep", "0"), "keep must be at least 1"),
    ],
)
def test_wrong_use(arguments, message, registry, capsys):
    code, output, errors = models(capsys, *arguments, "--registry", registry.root)
    assert (code, output) == (2, "")
    assert message in errors


def test_several_names_and_none(registry, model, capsys, tmp_path):
    ModelRegistry(registry.root, "bus").register(model("c"))
    assert "choose one with --name or --registry: bus, taxi" in models(capsys, "list", "--registry", registry.root)[2]
    assert "no model is registered there" in models(capsys, "list", "--registry", tmp_path / "empty")[2]


def test_registries_of_several_workloads_in_one_folder(registry, model, capsys, tmp_path):
    """The pipeline keeps one registry for each workload."""
    ModelRegistry(str(tmp_path / "all" / "bus"), "bus").register(model("c"))
    ModelRegistry(str(tmp_path / "all" / "taxi"), "taxi").register(model("d"))
    code, output, _ = models(capsys, "show", "latest", "--name", "bus", "--registry", tmp_path / "all")
    assert (code, output.startswith("bus version 1")) == (0, True)
    assert models(capsys, "show", "latest", "--registry", tmp_path / "all")[0] == 2
