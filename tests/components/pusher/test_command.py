"""`sluice push` as a person runs it."""

import json

import pytest

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
    assert errors.count("\n") == 1

    code, output, _ = push(capsys, "--history", *where, "--json")
    history = json.loads(output)
    assert (code, history["live"], history["versions"]) == (0, first["version"], [first["version"]])
    assert history["history"][-1]["state"] == "ROLLED_BACK"
    assert push(capsys, "--history", *where)[1].startswith(f"live: {first['version']}; on disk: {first['version']}\n")

    code, output, _ = push(capsys, "--recover", *where)
    assert (code, "nothing to recover" in output) == (0, True)


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
