"""`sluice validate` and `sluice schema` on real files, as a person runs them."""

import csv
import json
import pathlib
import shlex
import shutil
import subprocess
import sys

import pytest
import tensorflow as tf

from pipeline import cli

ROOT = pathlib.Path(__file__).parents[3]
SCHEMA = ROOT / "modules/taxi/schema.pbtxt"


@pytest.fixture(scope="module")
def table(data):
    """The first 2,000 rows of the taxi file, as text."""
    path = data._package("tfx") / "examples/chicago_taxi_pipeline/data/simple/data.csv"
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[:2001]


@pytest.fixture
def folder(table, tmp_path):
    """Writes the table, with cells changed as {(line, column): text}, and returns the folder."""

    def write(name="data", **cells):
        header, *rows = [list(row) for row in table]
        for place, text in cells.items():
            column, line = place.rsplit("_line", 1)
            rows[int(line) - 2][header.index(column)] = text
        target = tmp_path / name
        target.mkdir()
        with (target / "trips.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *rows])
        return str(target)

    return write


@pytest.fixture
def sluice(capsys):
    """Runs a command in this process; returns (exit code, standard output, standard error)."""

    def run(*arguments):
        capsys.readouterr()
        code = cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_good_data_is_accepted(sluice, folder):
    code, out, _ = sluice("validate", "--input", folder(), "--schema", SCHEMA)
    assert code == 0
    assert out.startswith("accepted (train ")
    assert "not checked: drift: there are no baseline statistics" in out


def test_bad_rows_are_named_by_file_and_line(sluice, folder, tmp_path):
    bad = folder(payment_type_line42="Bitcoin", trip_start_hour_line100="25")
    page = tmp_path / "page.html"
    code, out, err = sluice("validate", "--input", bad, "--schema", SCHEMA, "--json", "--html", page)
    assert code == 3
    verdict = json.loads(out.splitlines()[-1])
    assert verdict["verdict"] == "blocked"
    places = {f["feature"]: [(s["file"], s["line"]) for s in f["samples"]] for f in verdict["findings"]}
    assert places == {"payment_type": [("trips.csv", 42)], "trip_start_hour": [("trips.csv", 100)]}
    assert "error: data rejected: payment_type: unexpected-value" in err
    assert str(page) in err
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_word_among_numbers_is_one_finding_whose_advice_is_enough(sluice, folder, tmp_path):
    bad = folder(fare_line7="$12.50", fare_line9="free")
    code, out, _ = sluice("validate", "--input", bad, "--schema", SCHEMA, "--json")
    assert code == 3
    (finding,) = json.loads(out)["findings"]
    assert (finding["feature"], finding["rule"], finding["split"]) == ("fare", "type-changed", "train and eval")
    assert finding["rows"] == 2
    samples = {(sample["file"], sample["line"], sample["text"]) for sample in finding["samples"]}
    assert samples == {("trips.csv", 7, "$12.50"), ("trips.csv", 9, "free")}
    assert "So few rows are no reason" in finding["why"]
    policy = tmp_path / "policy.yaml"
    policy.write_text(finding["accept"].partition("leave them out with ")[2].partition(";")[0] + "\n")
    code, out, _ = sluice("validate", "--input", bad, "--schema", SCHEMA, "--policy", policy, "--json")
    assert code == 0, out
    assert sum(json.loads(out)["splits"].values()) == 1998


def test_a_type_that_few_rows_speak_against_changes_only_when_asked_for_by_name(sluice, folder, tmp_path):
    bad = folder(fare_line7="$12.50", payment_type_line42="Bitcoin")
    schema = tmp_path / "schema.pbtxt"
    shutil.copy(SCHEMA, schema)
    arguments = ["--input", bad, "--schema", schema]
    _, out, _ = sluice("schema", "diff", *arguments)
    assert "fare          type: FLOAT -> BYTES, and loses its range, drift_comparator, skew_comparator" in out
    assert "warning: 1 of 2000 rows with text that is no number ('$12.50' at trips.csv:7)" in out
    assert "only with --feature fare" in out
    sluice("schema", "update", *arguments)
    assert [line for line in schema.read_text().splitlines() if line not in SCHEMA.read_text().splitlines()] == [
        '  value: "Bitcoin"'
    ]
    sluice("schema", "update", *arguments, "--feature", "fare")
    assert "type: BYTES" in schema.read_text().partition('name: "fare"')[2].partition("}")[0]


def test_drift_against_a_baseline_and_a_policy_of_a_workload(sluice, folder, table, tmp_path):
    column = table[0].index("trip_miles")  # in halves of a mile
    cells = {f"trip_miles_line{i}": str(2 * float(row[column])) for i, row in enumerate(table[1:], start=2)}
    policy = tmp_path / "policy.yaml"
    policy.write_text("label: {feature: tips}\nduplicates: {max_rows: 0}\n", encoding="utf-8")
    arguments = ["validate", "--input", folder("new", **cells), "--schema", SCHEMA, "--baseline", folder("old")]
    code, out, _ = sluice(*arguments, "--policy", policy)
    assert code == 3
    assert "trip_miles: drift in train" in out
    assert "label" not in out
    code, out, _ = sluice(*arguments, "--policy", policy, "--allow", "trip_miles:drift")
    assert code == 0, out
    assert "allowed trip_miles: drift" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "nowhere"], "--input nowhere: no such folder; expected"),
        (["--schema", "nowhere.pbtxt"], "--schema nowhere.pbtxt: no such file"),
        (["--allow", "fare"], "--allow fare: expected FEATURE:RULE"),
        (["--policy", "nowhere.yaml"], "--policy nowhere.yaml: no such file; expected a gate policy"),
    ],
)
def test_mistakes_are_named(sluice, folder, arguments, message):
    code, _, err = sluice("validate", "--input", folder(), "--schema", SCHEMA, *arguments)
    assert code == 2
    assert message in err


@pytest.mark.parametrize("argument", ["--input", "--schema", "--baseline", "--serving", "--policy", "--html"])
def test_a_file_for_a_folder_and_a_folder_for_a_file_are_named(sluice, folder, tmp_path, argument):
    wrong = tmp_path / "empty.txt" if argument in ("--input", "--baseline", "--serving") else tmp_path
    (tmp_path / "empty.txt").touch()
    code, _, err = sluice("validate", "--input", folder(), "--schema", SCHEMA, argument, wrong)
    assert code == 2
    (line,) = err.splitlines()
    assert line.startswith(
        f"error: {argument} {wrong}: a fol" if wrong == tmp_path else f"error: {argument} {wrong}: a file"
    )
    assert "expected" in line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("allow: [{feature: fare, rule: drift, until: 2030-13-45}]", "gate.allow[0].until: '2030-13-45' is not a date"),
        ("gate: {lable: {feature: tips}}", "gate: 'lable' is not known; did you mean 'label'?"),
        ("- a", "keys and values"),
        ("a: [", "not YAML: line 1: "),
    ],
)
def test_a_mistake_in_the_policy_names_file_and_field(sluice, folder, tmp_path, text, message):
    policy = tmp_path / "policy.yaml"
    policy.write_text(text)
    code, _, err = sluice("validate", "--input", folder(), "--schema", SCHEMA, "--policy", policy)
    assert code == 2
    (line,) = err.splitlines()
    assert str(policy) in line
    assert message in line


def test_records_of_something_else_are_named(sluice, tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "records")) as writer:
        writer.write(b"\xff\xff\xffjunk")
    code, _, err = sluice("validate", "--input", tmp_path, "--schema", SCHEMA)
    assert code == 2
    assert f"--input {tmp_path}: {tmp_path}/records: damaged, or its records are no tf.Examples" in err


def test_a_schema_that_names_a_feature_twice_is_refused(sluice, folder, tmp_path):
    schema = tmp_path / "schema.pbtxt"
    schema.write_text(SCHEMA.read_text() + 'feature { name: "fare" type: INT }\n')
    code, _, err = sluice("validate", "--input", folder(), "--schema", schema)
    assert code == 2
    assert f"--schema {schema}: feature 'fare' is there twice" in err


def test_a_label_that_nobody_has_is_refused(sluice, folder):
    code, out, err = sluice("schema", "infer", "--input", folder(), "--label", "tipps")
    assert (code, out) == (2, "")
    assert "--label tipps: no such column" in err
    assert "did you mean 'tips'?" in err


def test_the_command_that_is_advised_accepts_all_at_once(sluice, folder, tmp_path):
    bad = pathlib.Path(folder(fare_line7="inf", payment_type_line42="Bitcoin", trip_start_hour_line9="25"))
    lines = (bad / "trips.csv").read_text().splitlines()
    lines = [f"{line},{f'{chr(34)}a new; ü{chr(34)}' if i == 0 else i % 3}" for i, line in enumerate(lines)]
    (bad / "trips.csv").write_text("\n".join(lines) + "\n")
    schema, policy = tmp_path / "schema.pbtxt", tmp_path / "workload.yaml"
    shutil.copy(SCHEMA, schema)
    policy.write_text("ingest: {workers: 1, na: ['-']}\ngate: {}\n")
    arguments = ["validate", "--input", bad, "--schema", schema, "--policy", policy, "--json"]
    verdict = json.loads(sluice(*arguments)[1])
    assert {(f["feature"], f["rule"]) for f in verdict["findings"]} == {
        ("a new; ü", "new-column"),
        ("fare", "infinite"),
        ("payment_type", "unexpected-value"),
        ("trip_start_hour", "out-of-range"),
    }
    command = verdict["accept"].removesuffix(", then commit the schema")
    assert f"--ingest {policy}" in command
    assert sluice(*shlex.split(command)[1:])[0] == 0
    code, out, _ = sluice(*arguments)
    assert code == 0, out


def test_libraries_are_not_heard(folder, tmp_path):
    """In a process of its own: native code writes past Python, and only while it is loaded first."""
    command = [
        sys.executable,
        "-m",
        "pipeline.cli",
        "validate",
        "--input",
        folder(fare_line7="inf"),
        "--schema",
        SCHEMA,
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300, check=False)
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: data rejected: fare: infinite in train")


def test_an_empty_baseline_is_a_mistake_of_the_command_and_a_missing_split_is_said(sluice, folder, tmp_path):
    (tmp_path / "empty").mkdir()
    arguments = ["validate", "--input", folder(), "--schema", SCHEMA]
    code, _, err = sluice(*arguments, "--baseline", tmp_path / "empty")
    assert code == 2
    assert "empty: the folder is empty" in err
    policy = tmp_path / "p.yaml"
    policy.write_text("min_rows: {evl: 3}\n")
    code, out, _ = sluice(*arguments, "--policy", policy)
    assert code == 3
    assert "There is no such split: the data has train, eval." in out


def test_a_file_with_a_gate_section_is_a_policy_too_and_the_page_gets_its_folder(sluice, folder, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("gate: {min_rows: {train: 5000}}\ningest:\n", encoding="utf-8")
    page = tmp_path / "new" / "folder" / "page.html"
    arguments = ["validate", "--input", folder(), "--schema", SCHEMA, "--policy", policy, "--html", page]
    code, out, _ = sluice(*arguments)
    assert code == 3
    assert "too-few-rows in train" in out
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_schema_update_accepts_what_diff_shows_and_keeps_the_rest(sluice, folder, tmp_path):
    bad = folder(payment_type_line42="Bitcoin", trip_start_hour_line100="25")
    schema = tmp_path / "schema.pbtxt"
    shutil.copy(SCHEMA, schema)
    code, out, _ = sluice("schema", "diff", "--input", bad, "--schema", schema)
    assert code == 0
    assert "payment_type     values: 11 listed -> also Bitcoin" in out
    assert "trip_start_hour  range: 0 to 23 -> 0 to 25" in out
    assert schema.read_text() == SCHEMA.read_text()

    sluice("schema", "update", "--input", bad, "--schema", schema, "--feature", "payment_type")
    changed = [line for line in schema.read_text().splitlines() if line not in SCHEMA.read_text().splitlines()]
    assert changed == ['  value: "Bitcoin"']
    sluice("schema", "update", "--input", bad, "--schema", schema)
    assert sluice("validate", "--input", bad, "--schema", schema)[0] == 0
    old = [line for line in SCHEMA.read_text().splitlines() if line.lstrip().startswith("#")]
    assert [line for line in schema.read_text().splitlines() if line.lstrip().startswith("#")] == old


def test_an_inferred_schema_accepts_its_own_data_and_catches_a_fault(sluice, folder, tmp_path):
    schema = tmp_path / "first.pbtxt"
    good = folder("good")
    assert sluice("schema", "infer", "--input", good, "--output", schema, "--label", "tips")[0] == 0
    assert sluice("validate", "--input", good, "--schema", schema)[0] == 0
    code, out, _ = sluice("validate", "--input", folder("bad", trip_start_hour_line9="99"), "--schema", schema)
    assert code == 3
    assert "trip_start_hour: out-of-range" in out
