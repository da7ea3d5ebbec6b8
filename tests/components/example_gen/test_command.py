"""`sluice ingest`, as a person and as a program use it."""

import json
import os
import resource

import pytest

from pipeline import cli

ROWS = "a,b,user\n" + "".join(f"{i},{i * 0.5},u{i % 9}\n" for i in range(200))


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "d.csv").write_text(ROWS)
    return folder


def run(capsys, *arguments):
    code = cli.main(["ingest", "--workers", "1", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_prints_one_json_object(folder, tmp_path, capsys):
    code, out, _ = run(capsys, "--input", folder, "--output", tmp_path / "out", "--json")
    content = json.loads(out.splitlines()[-1])
    assert code == 0
    assert content["rows"] == 200 == sum(content["splits"].values())
    assert content["columns"] == {"a": "int64_list", "b": "float_list", "user": "bytes_list"}
    assert content["bad_rows"] == 0
    assert content["files"] == [str(folder / "d.csv")]
    assert content["seconds"] > 0
    assert "<table>" in (tmp_path / "out/report.html").read_text()


@pytest.mark.parametrize(
    ("rule", "splits"),
    [
        ("train=8,eval=1,test=1", ["train", "eval", "test"]),
        ("train=0.7,eval=0.3", ["train", "eval"]),
        ("columns:user train=2,eval=1", ["train", "eval"]),
        ("time:a train=150,eval", ["train", "eval"]),
    ],
)
def test_split_rules(rule, splits, folder, tmp_path, capsys):
    code, out, _ = run(capsys, "--input", folder / "*.csv", "--output", tmp_path / "out", "--split", rule, "--json")
    assert code == 0
    assert list(json.loads(out)["splits"]) == splits


def test_bad_data_is_one_line_and_exit_code_3(folder, tmp_path, capsys):
    (folder / "d.csv").write_text(ROWS + "1,2\n")
    code, _, err = run(capsys, "--input", folder, "--output", tmp_path / "out")
    assert code == 3
    assert err.startswith("error: d.csv:202: expected 3 fields, got 2")
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_wrong_options_are_exit_code_2(folder, tmp_path, capsys):
    code, _, err = run(capsys, "--input", folder, "--output", tmp_path / "out", "--types", "a=integer")
    assert code == 2
    assert "'integer'" in err


def test_a_folder_with_other_things_is_not_replaced(folder, tmp_path, capsys):
    code, _, err = run(capsys, "--input", folder, "--output", folder)
    assert code == 2
    assert "d.csv" in err
    assert (folder / "d.csv").read_text() == ROWS


def test_a_second_ingestion_replaces_the_first(folder, tmp_path, capsys):
    run(capsys, "--input", folder, "--output", tmp_path / "out")
    (folder / "d.csv").write_text(ROWS + "200,1.5,u\n")
    code, out, _ = run(capsys, "--input", folder, "--output", tmp_path / "out", "--json")
    assert code == 0
    assert json.loads(out)["rows"] == 201
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_latest_span_is_taken_and_named(folder, tmp_path, capsys):
    for span, version in ((1, 1), (2, 1), (2, 3)):
        (folder / f"span{span}-v{version}.csv").write_text(ROWS + f"{span}{version},0.5,u\n")
    pattern = folder / "span{SPAN}-v{VERSION}.csv"
    code, out, err = run(capsys, "--input", pattern, "--output", tmp_path / "out", "--json")
    assert code == 0
    content = json.loads(out)
    assert (content["span"], content["version"]) == (2, 3)
    assert "span 2, version 3" in err
    assert content["files"] == [str(folder / "span2-v3.csv")]


def test_what_is_no_folder_for_output_is_refused_before_the_work(folder, tmp_path, capsys):
    (tmp_path / "file").write_text("precious")
    for output, words in ((tmp_path / "file", "is a file"), ("", "name a new folder"), ("/", "name a new folder")):
        code, _, err = run(capsys, "--input", folder, "--output", output)
        assert (code, words in err) == (2, True), err
    assert (tmp_path / "file").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "in"]


def test_a_link_to_a_folder_stays_one(folder, tmp_path, capsys):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert run(capsys, "--input", folder, "--output", tmp_path / "link")[0] == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "report.json").exists()


def test_no_room_for_the_output_is_one_line_and_leaves_nothing(folder, tmp_path, capsys):
    (folder / "d.csv").write_text("a\n" + "".join(f"{os.urandom(20).hex()}\n" for _ in range(2000)))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        code, _, err = run(capsys, "--input", folder, "--output", tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert code == 1
    assert err.startswith(f"error: {tmp_path}/.out-ingesting-")
    assert err.endswith(": File too large\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]


def test_what_is_not_read_is_told(folder, tmp_path, capsys):
    (folder / "more").mkdir()
    (folder / "more" / "e.csv").write_text(ROWS)
    (folder / "gone.csv").symlink_to("nowhere")
    os.mkfifo(folder / "pipe")
    code, _, err = run(capsys, "--input", folder, "--output", tmp_path / "out")
    assert code == 0
    for name, why in (("gone.csv", "a link to nothing"), ("more", "a folder"), ("pipe", "neither a file nor a folder")):
        assert f"left out {folder / name}: {why}" in err


def test_a_file_whose_name_looks_like_a_glob_is_read(folder, tmp_path, capsys):
    path = folder / "a [1]*.csv"
    path.write_text(ROWS)
    assert run(capsys, "--input", path, "--output", tmp_path / "out")[0] == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--split", "train=1,train=2"], "'train' is there twice"),
        (["--split", "../x=1,eval=2"], "split name '../x'"),
        (["--split", "=1,eval=2"], "split name ''"),
        (["--types", "a=int,a=float"], "'a' is there twice"),
        (["--split", "time:a train=30,mid=10,eval"], "not ascending: 30, 10"),
    ],
)
def test_options_that_contradict_themselves_are_refused(options, words, folder, tmp_path, capsys):
    code, _, err = run(capsys, "--input", folder, "--output", tmp_path / "out", *options)
    assert (code, words in err) == (2, True), err


@pytest.mark.parametrize(
    ("content", "words"),
    [("- a\n", "expected options"), ("ingest: 5\n", "expected options"), ("na: [no, null]\n", "in quotes")],
)
def test_a_file_of_options_is_checked(content, words, folder, tmp_path, capsys):
    (tmp_path / "c.yaml").write_text(content)
    code, _, err = run(capsys, "--input", folder, "--output", tmp_path / "out", "--config", tmp_path / "c.yaml")
    assert (code, words in err) == (2, True), err


def test_an_empty_section_of_options_is_the_defaults(folder, tmp_path, capsys):
    (tmp_path / "c.yaml").write_text("ingest:\n")
    assert run(capsys, "--input", folder, "--output", tmp_path / "out", "--config", tmp_path / "c.yaml")[0] == 0
