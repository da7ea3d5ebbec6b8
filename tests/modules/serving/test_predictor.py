"""Predictions from a folder: rows typed as the model parses them, and errors that name the row."""

import base64
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from modules.serving import example_rows, predictor
from modules.serving.saved_model import LoadedModel
from modules.serving.status import BadRowError, ServingError, ServingUsageError

SIGNATURE = "raw_examples"


class Parser(tf.Module):
    """Reads a feature of every kind."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(self, examples):
        parsed = tf.io.parse_example(
            examples,
            {
                "number": tf.io.FixedLenFeature([], tf.float32, default_value=-1.0),
                "pair": tf.io.FixedLenFeature([2], tf.float32, default_value=[0.0, 0.0]),
                "count": tf.io.FixedLenFeature([], tf.int64, default_value=-1),
                "words": tf.io.VarLenFeature(tf.string),
                "ids": tf.io.RaggedFeature(tf.int64),
            },
        )
        return {
            "number": parsed["number"],
            "count": parsed["count"],
            "pair": parsed["pair"],
            "num_words": tf.sparse.reduce_sum(
                tf.SparseTensor(
                    parsed["words"].indices, tf.ones_like(parsed["words"].values, tf.int64), parsed["words"].dense_shape
                ),
                axis=1,
            ),
            "sum_ids": tf.reduce_sum(parsed["ids"], axis=1),
        }


@pytest.fixture(scope="module")
def parser(tmp_path_factory):
    path = tmp_path_factory.mktemp("parser") / "1"
    module = Parser()
    tf.saved_model.save(module, str(path), signatures={"serving_default": module.serve})
    return str(path)


def test_the_features_are_found_in_the_graph(parser):
    with LoadedModel(parser) as model:
        kinds = example_rows.parsed_features(model.meta_graph)
    assert kinds == {"number": float, "pair": float, "count": int, "words": bytes, "ids": int}


class TwoParsers(Parser):
    """As after Transform: one signature reads raw features, the other what was made of them, by the same names."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def transformed(self, examples):
        read = {"number": tf.io.FixedLenFeature([], tf.int64), "other": tf.io.FixedLenFeature([], tf.float32)}
        return {"other": tf.io.parse_example(examples, read)["other"]}


def test_a_feature_has_the_type_that_the_asked_signature_reads(tmp_path):
    module = TwoParsers()
    signatures = {"serving_default": module.serve, "predict_transformed": module.transformed}
    tf.saved_model.save(module, str(tmp_path / "1"), signatures=signatures)
    with LoadedModel(str(tmp_path / "1")) as model:
        raw = example_rows.parsed_features(model.meta_graph)
        transformed = example_rows.parsed_features(model.meta_graph, "predict_transformed")
    assert raw == {"number": float, "pair": float, "count": int, "words": bytes, "ids": int}
    assert transformed == {"number": int, "other": float}
    with pytest.raises(BadRowError, match=r"reads \(count, ids, number, pair, words\)"):
        predictor.predict_rows(str(tmp_path / "1"), [{"other": 1.0}])


@pytest.mark.parametrize("row", [1, "text", [1, 2], None])
def test_a_row_that_is_no_object(parser, row):
    with pytest.raises(BadRowError, match="row 2: expected an object of feature names and values"):
        predictor.predict_rows(parser, [{"number": 1}, row])


def test_the_cause_comes_without_the_names_of_nodes(parser):
    with pytest.raises(BadRowError, match="Key: number") as raised:
        predictor.predict_rows(parser, [{"number": [1.0, 2.0]}])
    assert "{{" not in str(raised.value)


def test_values_take_the_type_that_the_model_reads(parser):
    rows = [
        {"number": 3, "count": 2.0, "pair": [1, 2], "words": ["a", "b"], "ids": [1, 2, 3], "label": "ignored"},
        {"number": "4.5", "count": "7", "words": 5},
        {"number": None, "count": "", "words": []},
    ]
    first, second, third = predictor.predict_rows(parser, [*rows[:2], {**rows[2], "ids": 1}])
    assert first == {"number": 3.0, "count": 2, "pair": [1.0, 2.0], "num_words": 2, "sum_ids": 6}
    assert (second["number"], second["count"], second["num_words"]) == (4.5, 7, 1)
    assert (third["number"], third["count"], third["num_words"]) == (-1.0, -1, 0), "missing values take the defaults"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"number": "many"}, "row 2, feature 'number': expected a number, got 'many'"),
        ({"count": 2.5}, "row 2, feature 'count': expected a whole number, got 2.5"),
        ({"count": 2**63}, "feature 'count'"),
        ({"colour": "red"}, "row 2: holds none of the features that the model reads"),
        ([1], "row 2: expected an object"),
    ],
)
def test_a_row_at_fault_is_named(parser, row, reason):
    with pytest.raises(BadRowError, match=reason):
        predictor.predict_rows(parser, [{"number": 1}, row])


def test_a_feature_without_default_must_be_there(exported):
    path = str(exported[2])
    assert predictor.predict_rows(path, [{"x": 0.5}], SIGNATURE) == [{"probabilities": 1.0}]
    with pytest.raises(BadRowError, match=r"x .*required"):
        predictor.predict_rows(path, [{"count": 1}], SIGNATURE)


def test_a_signature_of_plain_tensors(exported):
    path = str(exported[2])
    assert predictor.predict_rows(path, [{"x": [1, 2]}, {"x": [3, 4]}]) == [{"y": [2.0, 4.0]}, {"y": [6.0, 8.0]}]
    answers = predictor.predict_rows(path, [{"a": 1, "b": "text"}], "two")
    assert answers == [{"a_plus": 3, "raw_bytes": "text", "text": "text"}]
    with pytest.raises(BadRowError, match="row 1: input 'x' is missing"):
        predictor.predict_rows(path, [{"z": [1, 2]}])
    with pytest.raises(ServingUsageError, match="row by row"):
        predictor.predict_rows(path, [{"x": 1.0}], "total")
    with pytest.raises(ServingUsageError, match="not found in signature def"):
        predictor.predict_rows(path, [{"x": 1.0}], "absent")


def test_no_rows_no_answers(parser):
    assert predictor.predict_rows(parser, []) == []


def test_the_examples_that_the_trainer_stored(exported, tmp_path):
    version = tmp_path / "1"
    shutil.copytree(exported[1], version)
    assert predictor.golden_examples(str(version)) == []
    example = tf.train.Example()
    example.features.feature["x"].float_list.value.append(0.25)
    (version / "assets.extra").mkdir()
    golden = {"examples_b64": [base64.b64encode(example.SerializeToString()).decode()]}
    (version / "assets.extra" / "golden_predictions.json").write_text(json.dumps(golden))
    stored = predictor.golden_examples(str(version))
    assert example_rows.decode_example(stored[0]) == {"x": 0.25}
    assert predictor.predict_examples(str(version), stored, SIGNATURE) == [{"probabilities": 0.25}]
    with pytest.raises(ServingUsageError, match=r"takes no tf\.Examples"):
        predictor.predict_examples(str(version), stored)


def test_latest_version(tmp_path):
    with pytest.raises(ServingUsageError, match="no serving folder"):
        predictor.latest_version(str(tmp_path / "absent"))
    with pytest.raises(ServingUsageError, match="no version yet"):
        predictor.latest_version(str(tmp_path))
    for name in ("2", "10", ".staged-11", "12.tmp"):
        (tmp_path / name).mkdir()
    assert predictor.latest_version(str(tmp_path)) == 10


def test_a_folder_that_holds_no_model(tmp_path):
    with pytest.raises(ServingError, match=r"no saved_model\.pb"):
        LoadedModel(str(tmp_path))


class TestReadRows:
    @staticmethod
    def read(text):
        import io

        return list(example_rows.read_rows(io.StringIO(text), "rows.txt"))

    def test_csv_and_json_in_every_shape(self):
        assert self.read("a,b\n1,x\n2,\n") == [{"a": "1", "b": "x"}, {"a": "2", "b": ""}]
        assert self.read('\ufeffa,b\r\n1,"x, y"\r\n') == [{"a": "1", "b": "x, y"}]
        expected = [{"a": 1}, {"a": [2.5]}]
        for text in ('[{"a": 1}, {"a": [2.5]}]', '{"a": 1}\n{"a": [2.5]}\n', '{"a": 1},\n{"a": [2.5]}'):
            assert self.read(text) == expected

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("", "rows.txt is empty"),
            ("a,b\n", "no rows"),
            ("a,b\n1,2\n1,2,3\n", "rows.txt, line 3: expected 2 fields"),
            ("a,b\n1\n", "rows.txt, line 2"),
            ('a,b\n1,"x\n', "rows.txt, line"),
            ('{"a": 1}\n{"a": }\n', "rows.txt, line 2, column 7"),
        ],
    )
    def test_what_is_refused(self, text, reason):
        with pytest.raises(BadRowError, match=reason):
            self.read(text)


def test_plain_values():
    assert predictor.plain(np.array([[0.5]])) == 0.5
    assert predictor.plain(np.array([b"a", b"\xff"], object)) == ["a", "\ufffd"]
    assert predictor.plain(np.array([], np.float32)) == []
