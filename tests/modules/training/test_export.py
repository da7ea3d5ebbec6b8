"""What lies in an exported model, and that it answers without anything that it was made of."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tensorflow.core.protobuf import saved_model_pb2
from tf_keras import layers

from modules.training import export as exporting
from modules.training.serving import ServingModule

SPEC = {"word": tf.io.FixedLenFeature([1], tf.string), "label": tf.io.FixedLenFeature([1], tf.int64)}


class Scaled(layers.Layer):
    """Holds a variable and a table outside of Keras's own tracking, as a library's module would."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.part = tf.Module()
        self.part.factor = tf.Variable(3.0, trainable=False)
        entries = tf.lookup.KeyValueTensorInitializer(tf.range(3, dtype=tf.int64), [10.0, 20.0, 30.0])
        self.part.table = tf.lookup.StaticHashTable(entries, 0.0)

    def call(self, inputs):
        return self.part.table.lookup(inputs) * self.part.factor


def serialized(word: bytes) -> bytes:
    feature = {"word": tf.train.Feature(bytes_list=tf.train.BytesList(value=[word]))}
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


@pytest.fixture
def exported(tmp_path):
    """A model with a vocabulary file and a table of its own, moved away from where it was written; the file is gone."""
    vocabulary = tmp_path / "words.txt"
    vocabulary.write_text("one\ntwo\n")
    word = tf_keras.Input((1,), name="word", dtype="string")
    output = Scaled(dtype="float32")(layers.StringLookup(vocabulary=str(vocabulary))(word))
    module = ServingModule(tf_keras.Model({"word": word}, {"answers": output}), raw_spec=SPEC, label_keys=["label"])
    folder = tmp_path / "model" / "Format-Serving"
    exporting.export(module, str(folder), [serialized(b"one")])
    vocabulary.unlink()
    shutil.move(folder, tmp_path / "elsewhere")
    return tmp_path / "elsewhere"


def test_tables_and_modules_inside_the_model_are_in_the_export(exported):
    loaded = tf.saved_model.load(str(exported))
    answers = loaded.signatures["serving_default"](
        examples=tf.constant([serialized(w) for w in (b"two", b"?", b"one")])
    )
    np.testing.assert_allclose(answers["answers"], [[90.0], [30.0], [60.0]])


def test_a_session_finds_the_tables_too(exported):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        graph = tf.compat.v1.saved_model.load(session, ["serve"], str(exported))
        signature = graph.signature_def["serving_default"]
        fed = {signature.inputs["examples"].name: [serialized(b"one")]}
        np.testing.assert_allclose(session.run(signature.outputs["answers"].name, fed), [[60.0]])


def test_keras_objects_are_not_in_the_export(exported):
    saved = saved_model_pb2.SavedModel.FromString((exported / "saved_model.pb").read_bytes())
    nodes = saved.meta_graphs[0].object_graph_def.nodes
    identifiers = {node.user_object.identifier for node in nodes if node.WhichOneof("kind") == "user_object"}
    assert identifiers
    assert not [name for name in identifiers if "keras" in name]


def test_what_was_trained_is_written_beside_the_model(exported):
    golden = json.loads(Path(exported, "assets.extra/golden_predictions.json").read_text())
    assert golden["outputs"] == {"answers": [[60.0]]}
    assert (golden["tolerance"], golden["absolute_tolerance"]) == (1e-3, 1e-6)
