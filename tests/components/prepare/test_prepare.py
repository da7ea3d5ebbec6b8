"""The Prepare step: what a function is given, and what it has to leave."""

import json
import os

import pytest
import tensorflow as tf
from tfx import types
from tfx.types import artifact_utils, standard_artifacts
from tfx.utils import json_utils

from components.prepare.component import Prepare
from components.prepare.errors import PrepareConfigError, PrepareError
from components.prepare.executor import Executor

FUNCTIONS = """
import json
import tensorflow as tf

def one_of_two(args):
    for split, files in args.examples.items():
        records = list(tf.data.TFRecordDataset(list(files), "GZIP").as_numpy_iterator())
        options = tf.io.TFRecordOptions(compression_type="GZIP")
        with tf.io.TFRecordWriter(f"{args.output_dirs[split]}/records.gz", options) as writer:
            for first, second in zip(records[::2], records[1::2]):
                writer.write(first + second)
    with open(f"{args.assets_dir}/seen.json", "w") as file:
        json.dump({"settings": dict(args.settings), "schema": args.schema_path}, file)

def train_only(args):
    open(f"{args.output_dirs['train']}/records.gz", "w").close()
"""


@pytest.fixture
def artifacts(tmp_path, monkeypatch):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "own_prepare.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    examples, prepared, schema = (
        standard_artifacts.Examples(),
        standard_artifacts.Examples(),
        standard_artifacts.Schema(),
    )
    examples.uri, prepared.uri, schema.uri = (str(tmp_path / name) for name in ("examples", "prepared", "schema"))
    examples.split_names = artifact_utils.encode_split_names(["train", "eval"])
    for split, count in (("train", 4), ("eval", 2)):
        folder = tmp_path / "examples" / f"Split-{split}"
        folder.mkdir(parents=True)
        with tf.io.TFRecordWriter(str(folder / "data.gz"), tf.io.TFRecordOptions(compression_type="GZIP")) as writer:
            for number in range(count):
                writer.write(b"%d" % number)
    (tmp_path / "schema").mkdir()
    (tmp_path / "schema" / "schema.pbtxt").touch()
    return examples, schema, prepared


def do(artifacts, function, settings=None):
    examples, schema, prepared = artifacts
    properties = {"prepare_fn": f"own_prepare.{function}", "settings": json_utils.dumps(settings or {})}
    Executor().Do({"examples": [examples], "schema": [schema]}, {"prepared_examples": [prepared]}, properties)


def test_records_of_several_rows(artifacts):
    do(artifacts, "one_of_two", {"size": 2})
    _, schema, prepared = artifacts
    assert artifact_utils.decode_split_names(prepared.split_names) == ["train", "eval"]
    for split, expected in (("train", [b"01", b"23"]), ("eval", [b"01"])):
        files = tf.io.gfile.glob(f"{artifact_utils.get_split_uri([prepared], split)}/*")
        assert list(tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator()) == expected
    with open(os.path.join(prepared.uri, "assets", "seen.json")) as file:
        assert json.load(file) == {"settings": {"size": 2}, "schema": os.path.join(schema.uri, "schema.pbtxt")}


def test_a_split_without_records_is_an_error(artifacts):
    with pytest.raises(PrepareError, match=r"own_prepare.train_only wrote no file for the split 'eval'"):
        do(artifacts, "train_only")


def test_the_function_is_named_by_its_path():
    with pytest.raises(PrepareConfigError, match='prepare_fn is "prepare"; expected a dotted path'):
        Prepare(prepare_fn="prepare", examples=types.Channel(type=standard_artifacts.Examples))
