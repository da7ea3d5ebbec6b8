"""A training job without artifacts or TFX: what the step hands to its workers, in a temporary folder."""

import importlib.util
import pathlib
import random

import pytest

from components.trainer.training_spec import TrainingSpec

RUN_FNS = pathlib.Path(__file__).parent / "run_fns"
SUMS_SCHEMA = """
feature { name: "x" type: FLOAT shape { dim { size: 4 } } presence { min_fraction: 1.0 } }
feature { name: "y" type: FLOAT shape { dim { size: 1 } } presence { min_fraction: 1.0 } }
"""


@pytest.fixture
def sums(tmp_path):
    """A folder with schema/schema.pbtxt and examples/Split-*, 512 rows each: y is the sum of the four numbers in x."""
    import tensorflow as tf

    numbers = random.Random(0)
    (tmp_path / "schema").mkdir()
    (tmp_path / "schema" / "schema.pbtxt").write_text(SUMS_SCHEMA)
    for split in ("train", "eval"):
        folder = tmp_path / "examples" / f"Split-{split}"
        folder.mkdir(parents=True)
        with tf.io.TFRecordWriter(str(folder / "data-00000-of-00001.gz"), options="GZIP") as writer:
            for _ in range(512):
                x = [numbers.random() for _ in range(4)]
                example = tf.train.Example()
                example.features.feature["x"].float_list.value.extend(x)
                example.features.feature["y"].float_list.value.append(sum(x))
                writer.write(example.SerializeToString())
    return tmp_path


@pytest.fixture
def make_spec(tmp_path, monkeypatch):
    """make_spec("scripted.trains", **fn_args) -> TrainingSpec; the run_fns of this folder can be imported."""
    monkeypatch.syspath_prepend(str(RUN_FNS))

    def make(run_fn, **fn_args):
        defaults = {
            "serving_model_dir": str(tmp_path / "model" / "Format-Serving"),
            "eval_model_dir": str(tmp_path / "model" / "Format-TFMA"),
            "model_run_dir": str(tmp_path / "run"),
            "train_files": [str(tmp_path / "examples" / "Split-train" / "*")],
            "custom_config": None,
        }
        return TrainingSpec(
            run_fn=run_fn,
            fn_args=defaults | fn_args,
            tfx={},
            model_dir=str(tmp_path / "model"),
            job_dir=str(tmp_path / "run" / "job"),
        )

    return make


@pytest.fixture
def marks(tmp_path):
    """The folder where scripted run_fns leave their marks."""
    return tmp_path / "run" / "marks"


@pytest.fixture
def processes():
    """The module that knows what is running (importlib mode keeps test folders off sys.path)."""
    spec = importlib.util.spec_from_file_location("processes", pathlib.Path(__file__).parent / "processes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def no_orphans(tmp_path, processes):
    """Fails the test when it leaves a worker behind."""
    yield
    assert processes.processes_naming(str(tmp_path / "run" / "job" / "spec.json")) == []
