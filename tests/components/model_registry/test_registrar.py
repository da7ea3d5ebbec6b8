"""ModelRegistrar as TFX runs it."""

import json
import pathlib
import shutil

import pytest
from tfx import types
from tfx.types import standard_artifacts

from components.model_registry import ModelRegistry
from components.model_registry.component import ModelRegistrar, ModelRegistration
from components.model_registry.executor import Executor


@pytest.fixture
def execution(tmp_path, model):
    """Inputs, outputs and exec properties of one execution."""
    trained = standard_artifacts.Model()
    trained.uri = str(tmp_path / "trained")
    shutil.copytree(model("a"), tmp_path / "trained" / "Format-Serving")
    blessing = standard_artifacts.ModelBlessing()
    blessing.uri = str(tmp_path / "blessing")
    blessing.set_int_custom_property("blessed", 1)
    examples = standard_artifacts.Examples()
    examples.uri = str(tmp_path / "examples")
    examples.set_string_custom_property("span", "7")
    examples.set_string_custom_property("input_fingerprint", "files:3")
    schema = standard_artifacts.Schema()
    schema.uri = str(tmp_path / "schema")
    (tmp_path / "schema").mkdir()
    (tmp_path / "schema" / "schema.pbtxt").write_text("feature {}")
    registration = ModelRegistration()
    registration.uri = str(tmp_path / "registration")
    inputs = {"model": [trained], "model_blessing": [blessing], "examples": [examples], "schema": [schema]}
    properties = {
        "registry": str(tmp_path / "registry"),
        "name": "taxi",
        "promote_to": "stable",
        "code_fingerprint": "abc",
    }
    return inputs, {"registration": [registration]}, properties


def run(execution) -> tuple[ModelRegistration, dict]:
    inputs, outputs, properties = execution
    Executor().Do(inputs, outputs, properties)
    registration = outputs["registration"][0]
    return registration, json.loads((pathlib.Path(registration.uri) / "registration.json").read_text())


def pushed(flag: int) -> list[types.Artifact]:
    artifact = standard_artifacts.PushedModel()
    artifact.set_int_custom_property("pushed", flag)
    return [artifact]


def test_blessed_model_is_registered_with_its_lineage_and_becomes_stable(execution):
    registration, report = run(execution)
    assert (registration.registered, registration.model_version) == (1, 1)
    entry = ModelRegistry(execution[2]["registry"], "taxi").resolve("stable")
    assert entry.lineage.data_span == 7
    assert entry.lineage.data_fingerprint == "files:3"
    assert entry.lineage.code_fingerprint == "abc"
    assert len(entry.lineage.schema_fingerprint) == 64
    assert entry.lineage.parent is None
    assert report["aliases"] == {"stable": 1}


def test_second_model_names_the_first_as_its_parent(execution):
    run(execution)
    (pathlib.Path(execution[0]["model"][0].uri) / "Format-Serving" / "saved_model.pb").write_text("b")
    registration, _ = run(execution)
    registry = ModelRegistry(execution[2]["registry"], "taxi")
    assert registration.model_version == 2
    assert registry.resolve("stable").lineage.parent == 1
    assert registry.aliases() == {"stable": 2, "previous": 1}


def test_model_that_is_not_blessed_is_not_registered(execution):
    execution[0]["model_blessing"][0].set_int_custom_property("blessed", 0)
    registration, report = run(execution)
    assert registration.registered == 0
    assert report == {"registered": False, "reason": "the model is not blessed"}
    assert ModelRegistry(execution[2]["registry"], "taxi").entries() == []


@pytest.mark.parametrize(("flag", "aliases"), [(1, {"stable": 1}), (0, {})])
def test_alias_moves_only_if_the_model_was_pushed(flag, aliases, execution):
    execution[0]["pushed_model"] = pushed(flag)
    run(execution)
    assert ModelRegistry(execution[2]["registry"], "taxi").aliases() == aliases


def test_canary_that_is_held_is_canary_in_the_registry_too(execution):
    execution[0]["pushed_model"] = pushed(1)
    execution[0]["pushed_model"][0].set_string_custom_property("outcome", "held as canary")
    run(execution)
    assert ModelRegistry(execution[2]["registry"], "taxi").aliases() == {"canary": 1}


def test_component_contract():
    registrar = ModelRegistrar(
        model=types.Channel(type=standard_artifacts.Model), registry="r", name="taxi", code_fingerprint="abc"
    )
    assert registrar.exec_properties["promote_to"] == "stable"
    assert registrar.outputs["registration"].type == ModelRegistration
