"""Real inputs for the engine's tests: a transform graph and TFRecords made by tf.Transform, once per session."""

import functools
import importlib.util
import sys
import types
from pathlib import Path

import numpy as np
import pytest


def raw_rows(count: int, seed: int = 1) -> list[dict]:
    """Trips whose label follows from distance and payment, with some noise."""
    generator = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        miles, card = float(generator.gamma(2.0, 2.0)), bool(generator.random() < 0.5)
        tips = float(card) * miles * generator.uniform(0.3, 1.2)
        rows.append({"miles": miles, "payment": b"card" if card else b"cash", "tips": tips})
    return rows


def preprocessing_fn(inputs):
    import tensorflow as tf
    import tensorflow_transform as tft

    return {
        "miles_xf": tft.scale_to_z_score(inputs["miles"]),
        "payment_xf": tft.compute_and_apply_vocabulary(inputs["payment"], num_oov_buckets=1, vocab_filename="payment"),
        "tipped_xf": tf.cast(inputs["tips"] > inputs["miles"] * 0.4, tf.int64),
    }


def write_records(path: Path, examples: list[bytes], compress: bool = True) -> None:
    import tensorflow as tf

    options = tf.io.TFRecordOptions(compression_type="GZIP" if compress else "")
    with tf.io.TFRecordWriter(str(path), options) as writer:
        for example in examples:
            writer.write(example)


def serialize(row: dict) -> bytes:
    import tensorflow as tf

    feature = {}
    for key, value in row.items():
        if isinstance(value, bytes):
            feature[key] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        elif isinstance(value, int | np.integer):
            feature[key] = tf.train.Feature(int64_list=tf.train.Int64List(value=[int(value)]))
        else:
            values = np.atleast_1d(value).tolist()
            feature[key] = tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString(deterministic=True)


def _serialize_arrays(row):  # no hints: Beam would check them against its own
    return serialize({key: np.asarray(value).reshape(-1)[0] for key, value in row.items()})


@pytest.fixture(scope="session")
def trips(tmp_path_factory) -> types.SimpleNamespace:
    """transform_graph, train and eval files of transformed trips, raw files of the same."""
    import apache_beam as beam
    import tensorflow as tf
    import tensorflow_transform as tft
    import tensorflow_transform.beam as tft_beam
    from apache_beam.options.pipeline_options import PipelineOptions
    from tensorflow_transform.tf_metadata import dataset_metadata, metadata_io, schema_utils

    root = tmp_path_factory.mktemp("trips")
    metadata = dataset_metadata.DatasetMetadata(
        schema_utils.schema_from_feature_spec(
            {
                "miles": tf.io.FixedLenFeature([1], tf.float32),
                "payment": tf.io.FixedLenFeature([1], tf.string),
                "tips": tf.io.FixedLenFeature([1], tf.float32),
            }
        )
    )
    rows = raw_rows(400)
    columns = [{key: [value] for key, value in row.items()} for row in rows]
    with (
        beam.Pipeline(runner="FnApiRunner", options=PipelineOptions([])) as pipeline,
        tft_beam.Context(temp_dir=str(root / "tmp")),
    ):
        data = (pipeline | beam.Create(columns), metadata)
        (transformed, _), transform_fn = data | tft_beam.AnalyzeAndTransformDataset(preprocessing_fn)
        _ = transform_fn | tft_beam.WriteTransformFn(str(root / "graph"))
        _ = transformed | beam.Map(_serialize_arrays) | beam.io.WriteToTFRecord(str(root / "all"))
    metadata_io.write_metadata(metadata, str(root / "graph" / tft.TFTransformOutput.RAW_METADATA_DIR))
    # Beam keeps no order; the tests need one.
    serialized = sorted(record.numpy() for record in tf.data.TFRecordDataset(tf.io.gfile.glob(f"{root}/all*")))
    np.random.default_rng(2).shuffle(serialized)
    write_records(root / "train-0.gz", serialized[:150])
    write_records(root / "train-1.gz", serialized[150:300])
    write_records(root / "eval-0.gz", serialized[300:])
    write_records(root / "raw-0.gz", [serialize(row) for row in rows])
    return types.SimpleNamespace(
        graph=str(root / "graph"),
        train=[str(root / "train-*.gz")],
        evaluation=[str(root / "eval-*.gz")],
        raw=[str(root / "raw-*.gz")],
        rows=rows,
        train_size=300,
        eval_size=100,
    )


def _load(name: str) -> types.ModuleType:
    """A module beside this one, which tests cannot import because tests are no package."""
    spec = importlib.util.spec_from_file_location(f"training_{name}", Path(__file__).with_name(f"{name}.py"))
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def gang():
    """`gang(program, arguments, num_workers)`: see gang.py."""
    return _load("gang").gang


@pytest.fixture(scope="session")
def new_job(gang, trips):
    """`new_job(folder)`: see training_job.py."""
    return functools.partial(_load("training_job").Job, gang, trips)


@pytest.fixture
def job(new_job, tmp_path):
    return new_job(tmp_path)


@pytest.fixture(scope="session")
def undisturbed(new_job, tmp_path_factory):
    """The weights of a training that nothing happened to: one worker with the same global batch."""
    job = new_job(tmp_path_factory.mktemp("undisturbed"))
    with job.start(num_workers=1) as workers:
        assert workers.wait() == [0], workers.logs()
    return job.result()


@pytest.fixture
def fn_args(trips, tmp_path):
    """TFX's FnArgs over the trips, with empty output folders."""
    from tfx.components.trainer.fn_args_utils import FnArgs

    return FnArgs(
        train_files=trips.train,
        eval_files=trips.evaluation,
        train_steps=40,
        eval_steps=0,
        transform_graph_path=trips.graph,
        serving_model_dir=str(tmp_path / "model" / "Format-Serving"),
        model_run_dir=str(tmp_path / "run"),
        custom_config={"training": {"batch_size": 32, "learning_rate": 0.01}},
    )
