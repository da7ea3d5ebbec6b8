"""What `sluice train` makes of folders and numbers, before anything is started."""

import pytest

from components.trainer.errors import TrainingConfigError
from components.trainer.stand_alone import make_spec


@pytest.fixture
def arguments(tmp_path):
    (tmp_path / "examples" / "Split-train").mkdir(parents=True)
    return {"run_fn": "a.b", "examples": tmp_path / "examples", "output": tmp_path / "out"}


def test_an_evaluation_split_may_be_missing(arguments):
    assert make_spec(**arguments).fn_args["eval_files"] == []
    (arguments["examples"] / "Split-eval").mkdir()
    assert make_spec(**arguments).fn_args["eval_files"] == [str(arguments["examples"] / "Split-eval" / "*")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"run_fn": "model"}, 'run_fn is "model"; expected a dotted path'),
        ({"run_fn": "..a"}, r'run_fn is "\.\.a"; expected a dotted path'),
        ({"run_fn": "a b.c"}, 'run_fn is "a b.c"; expected a dotted path'),
        ({"train_steps": 0}, "steps is 0; expected a number above 0"),
        ({"train_steps": -5}, "steps is -5; expected a number above 0"),
        ({"eval_steps": -1}, "eval_steps is -1; expected a number above 0"),
    ],
)
def test_what_cannot_be_is_refused(arguments, change, message):
    with pytest.raises(TrainingConfigError, match=message):
        make_spec(**arguments | change)


def test_a_wrong_folder_is_named(arguments, tmp_path):
    with pytest.raises(TrainingConfigError, match=r"examples: .*nothing has no folder Split-train"):
        make_spec(**arguments | {"examples": tmp_path / "nothing"})
    for name in ("schema", "transform_graph", "base_model"):
        with pytest.raises(TrainingConfigError, match=f"{name.replace('_', ' ')}: .*nothing does not exist"):
            make_spec(**arguments | {name: tmp_path / "nothing"})


def test_an_earlier_run_is_gone_on_with_only_when_asked(arguments):
    (arguments["output"] / "model_run" / "job").mkdir(parents=True)  # of a run that did not come to train anything
    make_spec(**arguments)
    (arguments["output"] / "model_run" / "checkpoints").mkdir(parents=True)
    with pytest.raises(TrainingConfigError, match="holds an earlier run; add --resume"):
        make_spec(**arguments)
    assert make_spec(**arguments, resume=True).fn_args["model_run_dir"].endswith("model_run")
