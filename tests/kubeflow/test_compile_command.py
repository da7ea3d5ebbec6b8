"""`sluice compile`: which image it names, and what it says."""

import json
import pathlib

import pytest
import yaml

from pipeline import cli

DIGEST = "registry.example/team/sluice@sha256:" + "5" * 64


@pytest.fixture
def folder(tmp_path, monkeypatch) -> pathlib.Path:
    """Somewhere without kubeflow.yaml, and what `make image` leaves."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "build/kubeflow").mkdir(parents=True)
    return tmp_path


def note(folder: pathlib.Path, **values: object) -> None:
    built = {"image": DIGEST, "git_sha": "0123456789ab", "lock": "runtime", "bytes": 1, **values}
    (folder / "build/kubeflow/image.json").write_text(json.dumps(built))


def images(text: str) -> set[str]:
    spec = next(yaml.safe_load_all(text))
    return {executor["container"]["image"] for executor in spec["deploymentSpec"]["executors"].values()}


def test_digest_that_make_image_noted_is_in_every_step(folder, capsys):
    note(folder)
    assert cli.main(["compile", "--json"]) == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert said["images"] == [DIGEST]
    assert images((folder / said["path"]).read_text()) == {DIGEST}


def test_named_images_win_and_a_tag_is_mentioned(folder, capsys):
    note(folder)
    (folder / "kubeflow.yaml").write_text("image: registry.example/sluice:abc\n")
    assert cli.main(["compile"]) == 0
    out = capsys.readouterr().out
    assert "image: registry.example/sluice:abc (by tag; `make image PUSH=1` notes the digest)" in out
    assert cli.main(["compile", "--image", "other:def", "--output", "-"]) == 0
    assert images(capsys.readouterr().out) == {"other:def"}


def test_configuration_without_an_image_takes_the_built_one(folder, capsys):
    note(folder)
    (folder / "kubeflow.yaml").write_text("storage: /mnt/elsewhere\n")
    assert cli.main(["compile", "--output", "-"]) == 0
    out = capsys.readouterr().out
    assert images(out) == {DIGEST}
    assert "/mnt/elsewhere/registry" in out


@pytest.mark.parametrize("content", ["", "[]", '{"image": "a:b"}', "{"])
def test_what_make_image_did_not_write(folder, capsys, content):
    (folder / "build/kubeflow/image.json").write_text(content)
    assert cli.main(["compile"]) == 2
    assert "image.json: not what `make image` writes" in capsys.readouterr().err


def test_no_image_at_all(folder, capsys):
    assert cli.main(["compile"]) == 2
    assert "say which image the steps run in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "relative/folder"], "--data 'relative/folder': expected the data as pods see it"),
        (["--data", ""], "--data '': expected the data as pods see it"),
        (["--data", "C:\\data"], "expected the data as pods see it"),
        (["--image", "sluice"], "image 'sluice' has no fixed version"),
        (["--image", "sluice:latest"], "image 'sluice:latest' has no fixed version"),
        (["--image", "Sluice:A B"], "is not written as registry.example/team/name:tag"),
        (["--workers", "0"], "train.num_workers: must be 1 or more, found 0"),
        (["--precision", "float8"], "'float8' is not one of float32"),
        (["--train-steps", "0"], "train_steps must be 1 or more"),
        (["--workload", "none"], "no workload `none`"),
        (["--config", "none.yaml"], "none.yaml: No such file or directory"),
        (["--output", "folder"], "--output folder: Is a directory"),
        (["--output", "kubeflow.yaml/made.yaml"], "--output kubeflow.yaml/made.yaml: "),
    ],
)
def test_options_that_cannot_be_right(folder, capsys, arguments, message):
    (folder / "folder").mkdir()
    (folder / "kubeflow.yaml").write_text("image: registry.example/sluice:abc\n")
    assert cli.main(["compile", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe", "not valid YAML"),
        (b"a: [1", "not valid YAML"),
        (b"[]", "expected a mapping of keys to values"),
        (b"false", "expected a mapping of keys to values"),
        (b"imagge: a:b", "unknown key `imagge`. Did you mean `image`?"),
        (b"image: 3", "image"),
        (b"storage: relative", "storage: the path in the pods must be absolute"),
        (b"steps: {Trainer: {gpus: many}}", "gpus"),
    ],
)
def test_configuration_that_is_none(folder, capsys, content, message):
    note(folder)
    (folder / "kubeflow.yaml").write_bytes(content)
    assert cli.main(["compile"]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "kubeflow.yaml" in err


def test_storage_that_no_claim_holds_is_mentioned(folder, capfd):
    note(folder)
    assert cli.main(["compile"]) == 0
    err = capfd.readouterr().err
    assert "note: no claim is mounted at /mnt/sluice" in err
    assert len(err.splitlines()) == 2, "the libraries' own logs are no news"
    (folder / "kubeflow.yaml").write_text("default: {volumes: [{claim: sluice, path: /mnt/sluice}]}\n")
    assert cli.main(["compile"]) == 0
    assert "no claim" not in capfd.readouterr().err


def test_image_of_another_commit_is_mentioned(folder, capsys, monkeypatch):
    note(folder)
    monkeypatch.chdir(pathlib.Path(__file__).parents[2])
    from pipeline.commands import compile as command

    monkeypatch.setattr(command, "BUILT_IMAGE", str(folder / "build/kubeflow/image.json"))
    assert command._built_image() == DIGEST
    head = command._head()
    said = capsys.readouterr().err
    assert (f"built from 0123456789ab, and the last commit is {head[:12]}" in said) == bool(head)


@pytest.mark.parametrize(("data", "noted"), [(None, True), ("/mnt/mine", False)])
def test_data_that_only_a_run_makes_are_noted(folder, capsys, data, noted):
    note(folder)
    arguments = ["compile", "--workload", "textgen", *(["--data", data] if data else [])]
    assert cli.main(arguments) == 0
    said = capsys.readouterr().err
    assert ("/mnt/sluice/data/textgen, and no step puts them there" in said) == noted
