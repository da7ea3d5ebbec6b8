"""Every sample of every rule names the line (or row) of the file that a person wrote, whatever the file looks like."""

import gzip
import json
import pathlib

import pyarrow as pa
import pyarrow.parquet
import pytest

from components.data_gate.stand_alone import validate

SCHEMA = """
feature { name: "id" type: INT presence { min_fraction: 1 } }
feature { name: "kind" type: BYTES presence { min_fraction: 1 } string_domain { value: "cash" value: "card" } }
feature { name: "fare" type: FLOAT presence { min_fraction: 1 }
          float_domain { min: 0 max: 90 disallow_nan: true disallow_inf: true } }
feature { name: "seats" type: INT presence { min_fraction: 1 } int_domain { min: 1 max: 8 } }
feature { name: "note" type: BYTES presence { min_fraction: 0 } }
"""
COLUMNS = ("id", "kind", "fare", "seats", "note")
BAD = 57  # the index of the row that each test makes bad


def rows(column="", value="", count=200):
    """Rows of text; ids differ in digits that float32 does not hold."""
    made = [
        [str(10**8 + i), ("cash", "card")[i % 2], str(i % 80 + 0.25), str(i % 8 + 1), f"n {i}"] for i in range(count)
    ]
    if column:
        made[BAD][COLUMNS.index(column)] = value
    return made


def csv_text(made, quote=False):
    quoted = [
        [f'"{cell}\nmore"' if name == "note" and quote else cell for name, cell in zip(COLUMNS, row, strict=False)]
        for row in made
    ]
    return "\n".join(",".join(row) for row in [list(COLUMNS), *quoted]) + "\n"


@pytest.fixture
def judged(tmp_path):
    """judged(**ingest options) -> findings over tmp_path/data."""
    (tmp_path / "data").mkdir()
    (tmp_path / "schema.pbtxt").write_text(SCHEMA)

    def run(policy=None, **ingest):
        verdict, _ = validate(
            data=str(tmp_path / "data"),
            schema_file=str(tmp_path / "schema.pbtxt"),
            policy=policy or {},
            ingest={"workers": 1, **ingest},
            scratch=str(tmp_path / "scratch"),
        )
        return verdict.findings

    return run


def only_sample(findings):
    (finding,) = findings
    (sample,) = finding.samples
    assert sample["row"]["id"] == 10**8 + BAD
    assert finding.rows == 1
    return finding, sample


@pytest.mark.parametrize(
    ("column", "text", "rule"),
    [
        ("kind", "Bitcoin", "unexpected-value"),
        ("fare", "nan", "missing-values"),
        ("fare", "-3.5", "out-of-range"),
        ("fare", "inf", "infinite"),
        ("fare", "$12.50", "type-changed"),
        ("seats", "2.5", "type-changed"),
    ],
)
def test_every_rule_names_line_and_text_of_a_csv(judged, tmp_path, column, text, rule):
    quoted = f'"{text}"' if "," in text else text
    (tmp_path / "data" / "trips.csv").write_text(csv_text(rows(column, quoted)))
    finding, sample = only_sample(judged())
    assert (finding.feature, finding.rule) == (column, rule)
    assert (sample["file"], sample["line"], sample["text"]) == ("trips.csv", BAD + 2, text)


def test_declared_nan_is_nan_where_the_words_are_others(judged, tmp_path):
    (tmp_path / "data" / "trips.csv").write_text(csv_text(rows("fare", "nan")))
    finding, sample = only_sample(judged(na=["-"], types={"fare": "float"}))
    assert (finding.rule, sample["line"], sample["text"]) == ("nan", BAD + 2, "nan")


def write_quoted(folder):
    (folder / "a.csv").write_text(csv_text(rows("kind", "Bitcoin"), quote=True))
    return "a.csv", "line", 2 * BAD + 2


def write_gzipped(folder):
    (folder / "a.csv.gz").write_bytes(gzip.compress(csv_text(rows("kind", "Bitcoin"), quote=True).encode()))
    return "a.csv.gz", "line", 2 * BAD + 2


def write_several(folder):
    made = rows("kind", "Bitcoin")
    for i in range(4):
        (folder / f"{i}.csv").write_text(csv_text(made[50 * i : 50 * i + 50]))
    return "1.csv", "line", BAD - 50 + 2


def write_splits(folder):
    for split, made in (("train", rows()), ("eval", rows("kind", "Bitcoin"))):
        (folder / split).mkdir()
        (folder / split / "trips.csv").write_text(csv_text([[row[0], *row[1:4], f"{split} {row[4]}"] for row in made]))
    return "trips.csv", "line", BAD + 2


def write_latin(folder):
    text = csv_text(rows("kind", "Fähre"))
    (folder / "a.csv").write_bytes(text.encode("latin-1"))
    return "a.csv", "line", BAD + 2


def write_json_lines(folder):
    typed = [
        dict(zip(COLUMNS, [int(r[0]), r[1], float(r[2]), int(r[3]), r[4]], strict=True))
        for r in rows("kind", "Bitcoin")
    ]
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in typed))
    return "a.jsonl", "line", BAD + 1


def write_parquet(folder):
    typed = [[int(r[0]), r[1], float(r[2]), int(r[3]), r[4]] for r in rows("kind", "Bitcoin")]
    table = pa.table({name: [row[i] for row in typed] for i, name in enumerate(COLUMNS)})
    pyarrow.parquet.write_table(table, folder / "a.parquet", row_group_size=50)
    return "a.parquet", "record", BAD + 1


@pytest.mark.parametrize(
    ("write", "options"),
    [
        (write_quoted, {}),
        (write_gzipped, {"chunk_bytes": 1024}),
        (write_several, {}),
        (write_splits, {}),
        (write_latin, {"encoding": "latin-1"}),
        (write_json_lines, {}),
        (write_parquet, {}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_every_format_names_its_place(judged, tmp_path, write, options):
    name, key, place = write(tmp_path / "data")
    finding, sample = only_sample(judged(**options))
    assert finding.rule == "unexpected-value"
    assert (sample["file"], sample[key]) == (name, place)


def test_rows_that_ingestion_refused_do_not_shift_lines(judged, tmp_path):
    made = rows("kind", "Bitcoin")
    made[3] = made[3][:3]
    made[5][2] = "free"
    (tmp_path / "data" / "trips.csv").write_text(csv_text(made))
    _, sample = only_sample(judged(bad_rows="skip", types={"fare": "float"}))
    assert sample["line"] == BAD + 2


def test_equal_rows_get_a_line_each_and_the_same_one_in_every_finding(judged, tmp_path):
    made = rows()
    for i in (20, 40, 60):
        made[i] = ["7", "Bitcoin", "-1.0", "3", "the same"]
    (tmp_path / "data" / "trips.csv").write_text(csv_text(made))
    findings = judged()
    lines = {finding.rule: sorted(sample["line"] for sample in finding.samples) for finding in findings}
    assert lines == {"unexpected-value": [22, 42, 62], "out-of-range": [22, 42, 62]}


def test_copies_in_two_splits_are_named_in_the_file_of_the_second(judged, tmp_path):
    made = rows()
    for split, part in (("train", made[:150]), ("eval", made[140:])):
        (tmp_path / "data" / split).mkdir()
        (tmp_path / "data" / split / f"{split}.csv").write_text(csv_text(part))
    (finding,) = judged()
    assert (finding.rule, finding.rows) == ("duplicates", 10)
    assert sorted((sample["file"], sample["line"]) for sample in finding.samples) == [
        ("eval.csv", line) for line in range(2, 12)
    ]


def test_one_cause_in_two_splits_is_one_finding_that_shows_both(judged, tmp_path):
    made = [[row[0], row[1], "-2", *row[3:]] for row in rows()]
    (tmp_path / "data" / "trips.csv").write_text(csv_text(made))
    found = [finding for finding in judged() if finding.rule == "out-of-range"]
    (finding,) = found
    assert finding.split == "train and eval"
    assert finding.rows == 200
    assert {sample["split"] for sample in finding.samples} == {"train", "eval"}
    assert len(finding.samples) == 20
    for sample in finding.samples:
        assert sample["line"] == sample["row"]["id"] - 10**8 + 2


def test_a_word_that_means_missing_is_said_though_nothing_blocks(judged, tmp_path):
    (tmp_path / "schema.pbtxt").write_text(
        SCHEMA.replace(
            'name: "fare" type: FLOAT presence { min_fraction: 1 }',
            'name: "fare" type: FLOAT presence { min_fraction: 0.5 }',
        )
    )
    (tmp_path / "data" / "trips.csv").write_text(csv_text(rows("fare", "nan")))
    assert judged() == ()
    verdict, _ = validate(
        data=str(tmp_path / "data"), schema_file=str(tmp_path / "schema.pbtxt"), scratch=str(tmp_path / "again")
    )
    (note,) = verdict.notes
    assert f"'nan' at trips.csv:{BAD + 2}" in note
    assert "counts as missing, not as NaN" in note


def test_tfrecords_name_file_and_record(judged, tmp_path):
    pathlib.Path(tmp_path, "data", "trips.csv").write_text(csv_text(rows("kind", "Bitcoin")))
    judged()
    made = tmp_path / "scratch" / "data" / "examples" / "Split-train"
    verdict, _ = validate(
        data=str(made.parent), schema_file=str(tmp_path / "schema.pbtxt"), scratch=str(tmp_path / "again")
    )
    (finding,) = verdict.findings
    assert finding.samples[0]["record"] >= 1
    assert finding.samples[0]["file"].startswith("data_")
    assert "hash" not in json.loads(verdict.to_json())["findings"][0]["samples"][0]
