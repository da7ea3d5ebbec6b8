"""Batching parameters, model configs and version policies: what is read, and what is refused."""

import pytest

from modules.serving.batching_file import BatchingConfig, parse_batching, read_batching_file
from modules.serving.model_config import ModelConfig, VersionPolicy, models_under, read_model_config
from modules.serving.status import ServingUsageError


class TestBatchingFile:
    def test_the_documented_start(self, tmp_path):
        file = tmp_path / "batching.config"
        file.write_text(
            "max_batch_size { value: 32 }\nbatch_timeout_micros { value: 100000 }\nnum_batch_threads { value: 4 }\n"
            "max_enqueued_batches { value: 64 }\nallowed_batch_sizes: [8, 32]\nthread_pool_name { value: 'pool' }\n"
        )
        assert read_batching_file(str(file)) == BatchingConfig(
            max_batch_size=32,
            batch_timeout_micros=100_000,
            num_batch_threads=4,
            max_enqueued_batches=64,
            allowed_batch_sizes=(8, 32),
        )

    def test_what_is_not_set_keeps_its_default(self):
        assert parse_batching("enable_large_batch_splitting { value: true }").max_batch_size == 1000

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("max_batch_size { value: 0 }", "max_batch_size is 0"),
            ("batch_timeout_micros { value: -1 }", "batch_timeout_micros"),
            ("max_batch_size { value: 8 } allowed_batch_sizes: [8, 4]", "increasing order"),
            ("max_batch_size { value: 8 } allowed_batch_sizes: [4]", "end at max_batch_size"),
            ("pad_variable_length_inputs: true", "not supported"),
            ("max_batch_sizes { value: 8 }", "max_batch_sizes"),
            ("max_batch_size: 8", "1:17|Expected|expected"),
        ],
    )
    def test_what_is_refused(self, tmp_path, text, reason):
        file = tmp_path / "batching.config"
        file.write_text(text)
        with pytest.raises(ServingUsageError, match=reason) as caught:
            read_batching_file(str(file))
        assert "batching.config" in str(caught.value)

    def test_no_file(self):
        with pytest.raises(ServingUsageError, match=r"absent\.config"):
            read_batching_file("absent.config")

    def test_padded_sizes(self):
        config = BatchingConfig(max_batch_size=8, allowed_batch_sizes=(2, 8))
        assert [config.padded(rows) for rows in (1, 2, 3, 8)] == [2, 2, 8, 8]


class TestModelConfig:
    def test_a_config_file(self, tmp_path):
        file = tmp_path / "models.config"
        file.write_text(
            'model_config_list { config { name: "a" base_path: "/models/a" model_platform: "tensorflow" '
            'model_version_policy { specific { versions: [1, 2] } } version_labels { key: "stable" value: 1 } } '
            'config { name: "b" base_path: "/models/b" model_platform: "tensorflow" '
            "model_version_policy { latest { num_versions: 2 } } } }"
        )
        assert read_model_config(str(file)) == [
            ModelConfig("a", "/models/a", VersionPolicy("specific", versions=frozenset({1, 2})), {"stable": 1}),
            ModelConfig("b", "/models/b", VersionPolicy("latest", count=2)),
        ]

    @pytest.mark.parametrize(
        ("entry", "reason"),
        [
            ('name: "a" base_path: "/a"', "model_platform"),
            ('name: "a" base_path: "a" model_platform: "tensorflow"', "absolute path"),
            ('base_path: "/a" model_platform: "tensorflow"', "name"),
            ('name: "a/b" base_path: "/a" model_platform: "tensorflow"', "name"),
            ('name: "a" base_path: "/a" model_platform: "tensorflow" model_version_policy { specific {} }', "versions"),
            ('nme: "a"', "nme"),
        ],
    )
    def test_what_is_refused(self, tmp_path, entry, reason):
        file = tmp_path / "models.config"
        file.write_text(f"model_config_list {{ config {{ {entry} }} }}")
        with pytest.raises(ServingUsageError, match=reason):
            read_model_config(str(file))

    def test_the_same_name_twice(self, tmp_path):
        entry = 'config { name: "a" base_path: "/a" model_platform: "tensorflow" }'
        (tmp_path / "models.config").write_text(f"model_config_list {{ {entry} {entry} }}")
        with pytest.raises(ServingUsageError, match="multiple times"):
            read_model_config(str(tmp_path / "models.config"))


class TestModelsUnder:
    def test_one_model_or_several(self, tmp_path):
        for path in ("taxi/1", "images/3", "notes"):
            (tmp_path / path).mkdir(parents=True)
        assert [model.name for model in models_under(str(tmp_path))] == ["images", "taxi"]
        assert [model.name for model in models_under(str(tmp_path / "taxi"))] == ["taxi"]
        assert models_under(str(tmp_path / "taxi"), "cab")[0].name == "cab"
        assert models_under(str(tmp_path / "notes")) == []
        assert [model.name for model in models_under(str(tmp_path / "notes"), "later")] == ["later"]

    def test_no_folder(self, tmp_path):
        with pytest.raises(ServingUsageError, match="absent"):
            models_under(str(tmp_path / "absent"))


def test_version_policies():
    assert VersionPolicy.parse("latest:2").choose([1, 2, 10]) == {2, 10}
    assert VersionPolicy.parse("1, 3").choose([1, 2]) == {1}
    for text in ("latest:0", "latest:x", "newest", "1,,2", "-1", ""):
        with pytest.raises(ServingUsageError, match="version policy"):
            VersionPolicy.parse(text)
