"""The baseline from the model registry: what ModelRegistrar keeps with a model is what DataGate compares with."""

import json
import pathlib

import pytest
from google.protobuf import text_format
from tfx.types import artifact_utils, standard_artifacts

from components.artifacts import DataVerdict
from components.data_gate import blessed_statistics, executor
from components.data_gate.config import GatePolicy
from components.data_gate.errors import DataRejectedError
from components.model_registry import executor as registrar
from components.model_registry.component import ModelRegistration
from components.model_registry.registry import ModelRegistry


class World:
    """A registry, and the two steps that write and read it, on artifacts of their own."""

    def __init__(self, folder, schema):
        self.folder, self.schema = folder, schema
        self.registry = ModelRegistry(str(folder / "registry"), "taxi")
        self._count = 0

    def _artifact(self, artifact):
        self._count += 1
        artifact.uri = str(self.folder / f"{artifact.type_name}-{self._count}" / "1")
        pathlib.Path(artifact.uri).mkdir(parents=True)
        return artifact

    def statistics_of(self, statistics):
        """An artifact as StatisticsGen leaves it."""
        artifact = self._artifact(standard_artifacts.ExampleStatistics())
        artifact.split_names = artifact_utils.encode_split_names(sorted(statistics))
        for split, proto in statistics.items():
            split_folder = pathlib.Path(artifact.uri, f"Split-{split}")
            split_folder.mkdir()
            (split_folder / "FeatureStats.pb").write_bytes(proto.SerializeToString())
        return artifact

    def bless(self, statistics, fingerprint="", content="a", blessed=1):
        """ModelRegistrar with a model of `content`; returns its report."""
        model = self._artifact(standard_artifacts.Model())
        saved = pathlib.Path(model.uri, "Format-Serving")
        saved.mkdir()
        (saved / "saved_model.pb").write_text(content)
        blessing = self._artifact(standard_artifacts.ModelBlessing())
        blessing.set_int_custom_property("blessed", blessed)
        examples = self._artifact(standard_artifacts.Examples())
        examples.set_string_custom_property("input_fingerprint", fingerprint)
        registration = self._artifact(ModelRegistration())
        inputs = {"model": [model], "model_blessing": [blessing], "examples": [examples]}
        inputs["statistics"] = [self.statistics_of(statistics)]
        properties = {"registry": self.registry.root, "name": "taxi", "promote_to": "stable", "code_fingerprint": ""}
        registrar.Executor().Do(inputs, {"registration": [registration]}, properties)

    def judge(self, statistics):
        """DataGate, told of the registry and of no other baseline; returns what verdict.json holds."""
        schema = self._artifact(standard_artifacts.Schema())
        pathlib.Path(schema.uri, "schema.pbtxt").write_text(text_format.MessageToString(self.schema))
        verdict = self._artifact(DataVerdict())
        inputs = {"statistics": [self.statistics_of(statistics)], "schema": [schema], "baseline_statistics": []}
        policy = GatePolicy.from_dict({"severity": {"constant": "ignore"}}).to_json()
        properties = {"policy": policy, "registry": self.registry.root, "model_name": "taxi"}
        executor.Executor().Do(inputs, {"verdict": [verdict]}, properties)
        return json.loads(pathlib.Path(verdict.uri, "verdict.json").read_text())


@pytest.fixture
def world(tmp_path, taxi):
    return World(tmp_path, taxi.schema)


@pytest.fixture(scope="module")
def spans(taxi, data, tmp_path_factory):
    """Statistics of three spans: the first two alike, miles in the third are kilometres."""
    folder = tmp_path_factory.mktemp("spans")
    longer = {s: [m * 1.609344 for m in columns["trip_miles"]] for s, columns in taxi.splits.items()}
    cases = [
        taxi,
        taxi.change("train", **data.other_taxi(11, 6000)),
        taxi.change("train", trip_miles=longer["train"]).change("eval", trip_miles=longer["eval"]),
    ]
    return [data.inputs_of(case, folder).statistics for case in cases]


def not_checked(verdict):
    return {item["rule"] for item in verdict["not_checked"]}


def test_the_gate_compares_with_the_data_of_the_blessed_model(world, spans):
    first, alike, kilometres = spans
    assert "drift" in not_checked(world.judge(first))
    world.bless(first)
    assert "drift" not in not_checked(world.judge(alike))
    with pytest.raises(DataRejectedError, match="trip_miles: drift in train"):
        world.judge(kilometres)


def test_data_whose_model_nobody_blessed_is_no_measure(world, spans):
    world.bless(spans[2], blessed=0)
    assert "drift" in not_checked(world.judge(spans[0]))


def test_the_data_of_the_stable_model_counts_and_never_its_own(world, spans):
    first, alike, kilometres = spans
    for content, statistics in zip("abc", spans, strict=True):
        world.bless(statistics, content=content)
    before = blessed_statistics.before
    world.registry.promote(2, "stable")
    assert before(world.registry, {}) == (2, alike)
    assert before(world.registry, kilometres) == (2, alike)
    assert before(world.registry, alike) == (1, first)
    assert before(world.registry, first) == (None, {})


def test_the_same_files_are_the_same_data_though_statistics_differ(world, spans):
    world.bless(spans[0], fingerprint="files:3")
    assert blessed_statistics.before(world.registry, spans[1], "files:3") == (None, {})
    assert blessed_statistics.before(world.registry, spans[1], "files:4") == (1, spans[0])


def test_models_registered_without_statistics_are_passed_over(world, spans, tmp_path):
    world.bless(spans[0])
    (tmp_path / "by-hand").mkdir()
    (tmp_path / "by-hand" / "saved_model.pb").write_text("z")
    entry = world.registry.register(tmp_path / "by-hand")
    world.registry.promote(entry.version)
    assert blessed_statistics.before(world.registry, {}) == (1, spans[0])
