"""A training job without artifacts or TFX: what the step hands to its workers, in a temporary folder."""

import importlib.util
import pathlib

import pytest

from components.trainer.training_spec import TrainingSpec

RUN_FNS = pathlib.Path(__file__).parent / "run_fns"


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
