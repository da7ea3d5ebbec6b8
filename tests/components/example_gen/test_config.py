"""The options: what is known, what is allowed, and that they travel as text."""

import pytest

from components.example_gen.config import IngestConfig
from components.example_gen.errors import IngestConfigError

FULL = {
    "pattern": "span-{SPAN}/*.csv",
    "delimiter": ";",
    "types": {"zip": "bytes"},
    "na": ["-"],
    "split": {"by": "columns", "columns": ["user"], "weights": {"train": 8, "eval": 1, "test": 1}, "seed": 3},
    "shards": 2,
    "beam_pipeline_args": ["--runner=FlinkRunner"],
}


def test_round_trips_through_json_in_split_order():
    config = IngestConfig.from_dict(FULL, "here")
    assert IngestConfig.from_json(config.to_json()) == config
    assert config.split.names == ["train", "eval", "test"]
    assert IngestConfig.from_json("") == IngestConfig()


def test_yaml_dates_and_nulls_are_what_they_look_like():
    import yaml

    text = "{na: [null, -], split: {by: time, time_column: t, cuts: {train: 2024-03-01, eval: null}}}"
    config = IngestConfig.from_dict(yaml.safe_load(text), "here")
    assert config.na == ("null", "-")
    assert config.split.cuts == {"train": "2024-03-01", "eval": None}
    assert IngestConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"delimeter": ";"}, ["here", "'delimeter'", "delimiter"]),
        ({"split": {"weigths": {}}}, ["here.split", "'weigths'", "weights"]),
        ({"types": {"a": "integer"}}, ["types: a", "'integer'", "int, float"]),
        ({"bad_rows": "ignore"}, ["bad_rows", "'ignore'", "quarantine"]),
        ({"delimiter": ";;"}, ["delimiter", "one ASCII character"]),
        ({"encoding": "utf-9"}, ["utf-9", "latin-1"]),
        ({"split": {"weights": {"train": 0}}}, ["train", "0"]),
        ({"split": {"by": "columns"}}, ["split.columns"]),
        ({"split": {"by": "time", "time_column": "t", "cuts": {"train": 3}}}, ["split.cuts"]),
        ({"keep": ["a"], "drop": ["a"]}, ["keep", "drop", "a"]),
        ({"keep": "a"}, ["keep", "list"]),
        ({"shards": 0}, ["shards", "0"]),
        ({"shards": True}, ["shards", "int"]),
        ({"chunk_bytes": 1}, ["chunk_bytes"]),
    ],
)
def test_mistakes_are_named(values, words):
    with pytest.raises(IngestConfigError) as caught:
        IngestConfig.from_dict(values, "here")
    assert [word for word in words if word not in str(caught.value)] == [], str(caught.value)
    assert caught.value.exit_code == 2


def test_unknown_columns_are_named(ingest_files):
    for options in ({"types": {"zip": "bytes"}}, {"keep": ["zip"]}, {"drop": ["zip"]}):
        with pytest.raises(IngestConfigError, match=r"no column 'zip' in d\.csv; it has a, b"):
            ingest_files({"d.csv": "a,b\n1,2\n"}, **options)
