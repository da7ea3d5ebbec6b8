"""The command's surface: help is instant, errors are one line, exit codes are those documented."""

import json
import subprocess
import sys

import pytest

from pipeline import cli
from pipeline.errors import ConfigError, ExitCode


def sluice(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "pipeline.cli", *arguments], capture_output=True, text=True, check=False, **options
    )


def test_help_names_every_command_and_imports_nothing_heavy():
    code = (
        "import sys\nfrom pipeline import cli\n"
        "try: cli.main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'tensorflow', 'tfx', 'apache_beam', 'numpy', 'kfp', 'yaml'} & set(sys.modules)\n"
        "print('heavy:', sorted(heavy))"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "heavy: []" in process.stdout
    for name in cli.COMMANDS:
        assert f"\n    {name}" in process.stdout


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help_without_heavy_imports(name):
    code = (
        "import sys\nfrom pipeline import cli\n"
        f"try: cli.main(['{name}', '--help'])\nexcept SystemExit as e: assert e.code == 0\n"
        "print('heavy:', sorted({'tensorflow', 'tfx', 'apache_beam', 'kfp'} & set(sys.modules)))"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert "heavy: []" in process.stdout
    assert f"sluice {name}" in process.stdout or f"{name} [-h]" in process.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "required"),
        (["nonsense"], "invalid choice"),
        (["run", "--nonsense"], "sluice run: error: unrecognized arguments: --nonsense"),
        (["run", "--workload", "nonsense"], "no workload `nonsense`"),
        (["run", "--workload", "../etc"], "no workload '../etc': expected a folder's name"),
        (["run", "--workload", ""], "no workload '': expected a folder's name"),
        (["run", "--precision", "float8"], "'float8' is not one of float32"),
        (["run", "--workers", "0"], "must be 1 or more, found 0"),
        (["run", "--beam", "FlinkRunner"], "expected STEP=FLAGS"),
        (["show", "x", "--root", "no-such-folder"], "no run under"),
        (["clean", "--keep", "0"], "at least 1 run has to stay"),
    ],
)
def test_wrong_usage_exits_2_in_few_words(arguments, words):
    process = sluice(*arguments)
    assert process.returncode == ExitCode.USAGE
    assert words in process.stderr
    assert "Traceback" not in process.stderr


def test_cleaning_where_nothing_ran_says_so_without_the_libraries_chatter(tmp_path):
    process = sluice("clean", "--root", str(tmp_path))
    assert process.returncode == 0
    assert process.stdout.startswith("removed 0 runs and 0 artifacts")
    assert process.stderr == ""


def test_a_range_of_steps_without_any_step_is_refused():
    from pipeline import local_runner

    names = ["ExampleGen", "Trainer", "Pusher"]
    for from_step, to_step in ((None, None), ("Trainer", None), (None, "Trainer"), ("Trainer", "Trainer")):
        local_runner.check_range(from_step, to_step, names)
    with pytest.raises(
        ConfigError, match=r"--from Pusher comes after --to Trainer: no step to run\. Steps: ExampleGen,"
    ):
        local_runner.check_range("Pusher", "Trainer", names)
    with pytest.raises(ConfigError, match="--to trainer: no such step"):
        local_runner.check_range("Pusher", "trainer", names)


@pytest.mark.e2e
def test_a_first_run_may_end_at_its_first_step(tmp_path):
    process = sluice("run", "--to", "ExampleGen", "--root", str(tmp_path), "--json")
    assert process.returncode == 0, process.stderr
    steps = {step["name"]: step["state"] for step in json.loads(process.stdout.splitlines()[-1])["steps"]}
    assert steps.pop("ExampleGen") == "ran"
    assert set(steps.values()) == {"not run"}


def test_an_unexpected_error_is_one_line_and_exit_1(capsys):
    assert cli.report_error(KeyError("some key"), debug=False) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: KeyError: 'some key'")
    assert error.count("\n") == 1


def test_debug_shows_the_trace(capsys):
    assert cli.report_error(ConfigError("wrong"), debug=True) == ExitCode.USAGE
    assert "ConfigError" in capsys.readouterr().err


def test_exit_codes_are_distinct():
    assert len({int(code) for code in ExitCode}) == len(ExitCode)


def test_the_process_ends_with_the_commands_code_after_threads_and_atexit_functions():
    program = """
import atexit, threading, time
import pipeline.cli as cli

def slow():
    threading.Event().wait(0.3)
    print("thread done")

def command(argv=None):
    threading.Thread(target=slow).start()
    atexit.register(print, "atexit done")
    return 4

cli.main = command
cli.console()
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert process.returncode == 4, process.stderr
    assert process.stdout.split("\n") == ["thread done", "atexit done", ""]
