"""`sluice push` as a person runs it."""

import contextlib
import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from components.pusher.base_folder import BaseFolder
from components.pusher.journal import State
from pipeline import cli


def push(capsys, *arguments: str) -> tuple[int, str, str]:
    code = cli.main(["push", *map(str, arguments)])
    output, errors = capsys.readouterr()
    return code, output, errors


def test_push_rollback_history_and_recover(exported, tmp_path, capsys):
    where = ("--to", tmp_path, "--name", "line")
    code, output, _ = push(capsys, exported["double"], *where, "--json")
    first = json.loads(output)
    assert (code, first["outcome"], first["observed"]) == (0, "pushed", False)
    assert (tmp_path / "line" / str(first["version"]) / "saved_model.pb").exists()

    code, output, _ = push(capsys, exported["double"], *where)
    assert (code, "already serves this model" in output) == (0, True)

    code, output, errors = push(capsys, exported["constant"], *where)
    assert code == 0
    assert "now serves (published; no server was asked); before: version" in output
    assert "warning: no assets.extra/golden_predictions.json" in errors

    code, output, _ = push(capsys, "--rollback", *where)
    assert (code, f"version {first['version']} serves again" in output) == (0, True)
    code, output, errors = push(capsys, "--rollback", *where)
    assert (code, output) == (5, "")
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1, "one line, and no trace"

    code, output, _ = push(capsys, "--history", *where, "--json")
    history = json.loads(output)
    assert (code, history["live"], history["versions"]) == (0, first["version"], [first["version"]])
    assert history["history"][-1]["state"] == "ROLLED_BACK"
    assert push(capsys, "--history", *where)[1].startswith(f"live: {first['version']}; on disk: {first['version']}\n")

    code, output, _ = push(capsys, "--recover", *where)
    assert (code, "nothing to recover" in output) == (0, True)


def test_killed_while_the_model_is_verified(exported, pushing, tmp_path, capsys):
    """The verifying process dies with its parent, and the next push starts afresh."""
    command = [sys.executable, "-m", "pipeline.cli", "push", str(exported["double"]), "--to", str(tmp_path)]
    process = subprocess.Popen([*command, "--name", "line"], env=pushing.environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    while "staged" not in process.stderr.readline():
        assert process.poll() is None
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 60
    while any(str(tmp_path) in command for command in running_commands()):
        assert time.monotonic() < deadline, "the verifying process outlives the push"
        time.sleep(0.05)
    assert BaseFolder(str(tmp_path), "line").versions() == {}
    code, output, _ = push(capsys, "--recover", "--to", tmp_path, "--name", "line", "--json")
    assert (code, json.loads(output)["outcome"]) == (0, "recovered: undone")
    assert list((tmp_path / "line" / ".sluice" / "staging").iterdir()) == []


def running_commands() -> Iterator[str]:
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_bytes().replace(b"\0", b" ").decode(errors="replace")


def test_model_artifact_of_tfx_and_of_the_registry_is_taken_as_it_is(exported, tmp_path, capsys):
    from components.model_registry import ModelRegistry

    entry = ModelRegistry(str(tmp_path / "registry"), "line").register(exported["double"])
    code, output, _ = push(capsys, entry.uri, "--to", tmp_path / "serving", "--name", "line", "--json")
    assert (code, json.loads(output)["outcome"]) == (0, "pushed")
    (pathlib.Path(entry.uri) / "Format-Serving" / "assets" / "vocabulary").write_text("edited since")
    code, output, errors = push(capsys, entry.uri, "--to", tmp_path / "serving", "--name", "line")
    assert (code, output, "not the model that was registered as version 1" in errors) == (5, "", True)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "give either MODEL_DIR, or one of"),
        (("model", "--rollback"), 2, "give either MODEL_DIR, or one of"),
        (("nowhere",), 5, "no such model folder"),
        ((__file__,), 5, "is a file; give the folder of a SavedModel"),
        (("{exported}",), 5, "give one of the folders in it: constant, double, triple"),
        (("{exported}/double", "--server", "replica"), 2, "expected HOST:PORT (gRPC) or http://HOST:PORT (REST)"),
        (("{exported}/double", "--server", "replica:https"), 2, "expected HOST:PORT"),
        (("--history",), 2, "nothing was pushed there; models in"),
        (("--rollback",), 2, "nothing was pushed there; models in"),
        (("--promote",), 2, "nothing was pushed there; models in"),
        (("--recover",), 2, "nothing was pushed there; models in"),
        (("nowhere", "--keep", "0"), 2, "keep_versions: must be at least 1"),
        (("nowhere", "--model-config", "models.config"), 2, "needs `servers` and `model_config_file`"),
        (("nowhere", "--target", "no-such-file.yaml"), 2, "cannot be read"),
    ],
)
def test_wrong_use(arguments, code, message, exported, tmp_path, capsys):
    arguments = [argument.format(exported=exported["double"].parent) for argument in arguments]
    found, output, errors = push(capsys, *arguments, "--to", tmp_path, "--name", "line")
    assert (found, output) == (code, "")
    assert message in errors
    assert errors.count("\n") == 1, "one line"
    if arguments[:1] and arguments[0].startswith("--"):
        assert not (tmp_path / "line").exists(), "a slip of the pen makes no folders"


def test_an_interrupted_push_is_not_said_to_be_published(exported, tmp_path, capsys):
    where = ("--to", tmp_path, "--name", "line")
    assert push(capsys, exported["double"], *where)[0] == 0
    folder = BaseFolder(str(tmp_path), "line")
    folder.journal.append(folder.next_version(0, 0), State.RESERVED)
    code, output, _ = push(capsys, "--recover", *where)
    assert (code, "is undone: what that push left" in output, "no server was asked" in output) == (0, True, False)


def test_target_file_gives_what_options_do_not(tmp_path, capsys):
    target = tmp_path / "target.yaml"
    options = ("--history", "--to", tmp_path, "--name", "line", "--target", target)
    (tmp_path / "line").mkdir()
    target.write_text("require_golden: true\nkeep_versions: 5\n")
    assert push(capsys, *options)[0] == 0
    target.write_text("keep: 5\n")
    code, _, errors = push(capsys, *options)
    assert (code, "unknown key 'keep'; allowed: available_timeout_s" in errors) == (2, True)
    target.write_text("- keep_versions\n")
    code, _, errors = push(capsys, *options)
    assert (code, "expected keys and values" in errors) == (2, True)
    target.write_text("servers: [1\n")
    code, _, errors = push(capsys, *options)
    assert (code, "cannot be read" in errors, errors.count("\n")) == (2, True, 1)
