"""The pipeline's configuration comes from the workload's file and the command line, or is refused."""

import pathlib
import sys

import pytest
import yaml

from pipeline import config, config_reader
from pipeline.errors import ConfigError

MINIMAL = """
name: mine
data: data
schema: null
train: {run_fn: mine.model.run_fn, train_steps: 10}
evaluate: {label_key: y, metrics: [{name: AUC, at_least: 0.5}]}
"""


def test_taxi_defaults():
    settings = config.make_config("taxi", root="somewhere")
    assert settings.workload.train.num_workers == 2
    assert settings.workload.train.precision == "mixed_bfloat16"
    assert len(list(pathlib.Path(settings.data).glob("*.csv"))) == 1
    assert settings.serving_dir == str(pathlib.Path("somewhere/serving/taxi").absolute())


def test_command_line_wins_over_file():
    settings = config.make_config("taxi", data="elsewhere", num_workers=3, precision="float32", train_steps=7)
    train = settings.workload.train
    assert (train.num_workers, train.precision, train.train_steps) == (3, "float32", 7)
    assert settings.data == str(pathlib.Path("elsewhere").absolute())


def test_unknown_workload_names_those_there_are():
    with pytest.raises(ConfigError, match=r"no workload `taxy`.*taxi"):
        config.make_config("taxy")


def test_workload_outside_modules_is_found_by_dotted_name(tmp_path, monkeypatch):
    folder = tmp_path / "company" / "churn"
    folder.mkdir(parents=True)
    (tmp_path / "company" / "__init__.py").touch()
    (folder / "__init__.py").touch()
    (folder / "workload.yaml").write_text(MINIMAL)
    monkeypatch.syspath_prepend(tmp_path)
    settings = config.make_config("company.churn")
    assert settings.workload.name == "mine"
    assert settings.data == str(folder / "data")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("at_least: 0.5", "at_leest: 0.5"), ["`at_leest`", "`at_least`"]),
        ((", at_least: 0.5", ""), ["no bound is set", "at_least"]),
        (("at_least: 0.5", "at_least: 0.9, at_most: 0.1"), ["AUC", "at_least 0.9 is above at_most 0.1"]),
        (("at_least: 0.5", "max_loss: -1"), ["AUC", "max_loss must be 0 or more"]),
        (("train_steps: 10", "train_steps: 0"), ["train_steps must be 1 or more"]),
        (("train_steps: 10", "train_steps: ten"), ["`train_steps`", "a whole number", "'ten'"]),
        (("train_steps: 10", "train_steps: 10, precision: float8"), ["'float8'", "mixed_bfloat16"]),
        (("schema: null", "schema: none.pbtxt"), ["`schema`", "none.pbtxt", "does not exist"]),
        (("data: data", "data: 'package:no_such_package_here/x'"), ["no_such_package_here", "not installed"]),
        (("data: data", "data: null"), ["--data DIR"]),
        (("name: mine", "name: [mine"), ["not valid YAML"]),
    ],
)
def test_refused_workloads(tmp_path, monkeypatch, change, words):
    folder = tmp_path / "mine_bad"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "workload.yaml").write_text(MINIMAL.replace(*change))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(config, "workload_folder", lambda name: folder)
    with pytest.raises(ConfigError) as caught:
        config.make_config("mine_bad")
    for word in ["workload.yaml", *words]:
        assert word in str(caught.value)


def test_a_changed_value_is_checked_again():
    with pytest.raises(ConfigError, match="num_workers: must be 1 or more, found 0"):
        config.make_config("taxi", num_workers=0)


@pytest.mark.parametrize(
    ("run_fn", "problem"),
    [
        ("mine.model.run_fn", None),
        ("mine.star.run_fn", None),
        ("mine.modle.run_fn", "`train.run_fn` is mine.modle.run_fn, but there is no module mine.modle"),
        ("nowhere.model.run_fn", "there is no module nowhere.model"),
        ("run_fn", "there is no module run_fn"),
        ("mine.model.run_fun", "model.py has no run_fun"),
    ],
)
def test_a_function_that_is_not_there_is_refused_before_any_step(tmp_path, monkeypatch, run_fn, problem):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "model.py").write_text("raise RuntimeError('imported')\ndef run_fn(fn_args): ...\n")
    (folder / "star.py").write_text("from mine.model import *\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    mapping = yaml.safe_load(MINIMAL.replace("mine.model.run_fn", run_fn))
    workload = config_reader.read(config.WorkloadConfig, mapping, "workload.yaml")
    if problem is None:
        config.check_functions(workload)
    else:
        with pytest.raises(ConfigError, match=problem):
            config.check_functions(workload)
