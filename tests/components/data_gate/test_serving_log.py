"""Logged requests in both forms that people have."""

import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2
from tfx_bsl.coders import example_coder

from components.data_gate.errors import GateConfigError
from components.data_gate.serving_log import serving_batches
from components.data_gate.statistics import statistics_of


def write(path, records):
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)


def as_prediction_logs(examples):
    for start in range(0, len(examples), 7):
        log = prediction_log_pb2.PredictionLog()
        log.predict_log.request.inputs["examples"].CopyFrom(tf.make_tensor_proto(examples[start : start + 7]))
        yield log.SerializeToString()


@pytest.fixture(scope="module")
def examples(data, taxi):
    batch = data.to_batch(data.take(taxi.splits["eval"], 0, 100), data._types(taxi.schema))
    return example_coder.RecordBatchToExamplesEncoder().encode(batch)


def test_prediction_logs_hold_the_same_as_examples(tmp_path, examples, taxi):
    write(tmp_path / "examples" / "a", examples)
    write(tmp_path / "logs" / "a", as_prediction_logs(examples))
    one, two = (statistics_of(serving_batches(str(tmp_path / f)), taxi.schema) for f in ("examples", "logs"))
    assert one.datasets[0].num_examples == two.datasets[0].num_examples == 100
    assert {f.path.step[0] for f in one.datasets[0].features} == {f.path.step[0] for f in two.datasets[0].features}


def test_classification_logs_are_read_too(tmp_path, examples):
    log = prediction_log_pb2.PredictionLog()
    log.classify_log.request.input.example_list.examples.extend(map(tf.train.Example.FromString, examples[:3]))
    write(tmp_path / "logs" / "a", [log.SerializeToString()])
    assert [batch.num_rows for batch in serving_batches(str(tmp_path / "logs"))] == [3]


def test_a_folder_without_logs_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing here")
    with pytest.raises(GateConfigError, match="no TFRecord files"):
        list(serving_batches(str(tmp_path)))
