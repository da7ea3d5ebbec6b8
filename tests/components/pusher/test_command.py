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


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "give either MODEL_DIR, or one of"),
        (("model", "--rollback"), 2, "give either MODEL_DIR, or one of"),
        (("nowhere",), 5, "no such model folder"),
        (("nowhere", "--keep", "0"), 2, "keep_versions: must be at least 1"),
        (("nowhere", "--model-config", "models.config"), 2, "needs `servers` and `model_config_file`"),
        (("nowhere", "--target", "no-such-file.yaml"), 2, "cannot be read"),
    ],
)
def test_wrong_use(arguments, code, message, tmp_path, capsys):
    found, output, errors = push(capsys, *arguments, "--to", tmp_path, "--name", "line")
    assert (found, output) == (code, "")
    assert message in errors


def test_target_file_gives_what_options_do_not(tmp_path, capsys):
    target = tmp_path / "target.yaml"
    options = ("--history", "--to", tmp_path, "--name", "line", "--target", target)
    target.write_text("require_golden: true\nkeep_versions: 5\n")
    assert push(capsys, *options)[0] == 0
    target.write_text("keep: 5\n")
    code, _, errors = push(capsys, *options)
    assert (code, "unknown key 'keep'; allowed: available_timeout_s" in errors) == (2, True)
