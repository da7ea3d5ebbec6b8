"""Numbers, words and moments as people write them: each is what it says, or there is a line about it."""

import pytest

from components.example_gen.errors import IngestDataError


def column(*values, before=10):
    """A CSV file whose column x has whole numbers and then `values`."""
    return "i,x\n" + "".join(f'{i},"{value}"\n' for i, value in enumerate([*range(1, before + 1), *values]))


def test_what_is_no_float_names_its_line(ingest_files):
    content = column("1_0", "1,0", "0x1p3", "1d", "nan(1)", "9,5", "5%", "1.5.2")
    with pytest.raises(IngestDataError, match=r"d\.csv:12: column 'x': '1_0' is not a float .*7 more bad rows"):
        ingest_files({"d.csv": content}, types={"x": "float"})
    assert ingest_files({"d.csv": content}, types={"x": "float"}, bad_rows="skip").report["bad_rows"] == 8


def test_what_is_a_float_is_read(ingest_files):
    values = ["+5", "5.", ".5", "1E3", "-Infinity", " 5.5 "]
    done = ingest_files({"d.csv": column(*values)}, types={"x": "float"})
    assert {float(value) for value in values} <= set(done.column("x"))


@pytest.mark.parametrize("kinds", [{}, {"tiny": "float", "long": "float", "large": "float"}])
def test_digits_that_float64_already_lost_are_told(kinds, ingest_files):
    rows = "".join(f"{i},{i}.5,{i}.5,{i}.5\n" for i in range(12))
    content = "i,tiny,long,large\n" + rows + "12,1e-400,9007199254740993,1e400\n"
    lines = ingest_files({"d.csv": content}, types=kinds).report["warnings"]
    for line, value in zip(lines, ["1e-400", "9007199254740993", "1e400"], strict=True):
        assert f"(first: '{value}' at d.csv:14)" in line
    with pytest.raises(IngestDataError, match="1e-400"):
        ingest_files({"d.csv": content}, types=kinds, float_loss="fail")


def test_plain_zeros_and_round_numbers_are_not_lost(ingest_files):
    done = ingest_files({"d.csv": column("0.0000000", "9007199254740992", "1e-5", "0e0000000")})
    assert done.report["warnings"] == []


def test_white_space_among_numbers_is_missing_and_told(ingest_files):
    done = ingest_files({"d.csv": column("   ", " NA ")})
    assert done.report["columns"]["x"] == "int64_list"
    assert done.report["column_details"]["x"]["missing"] == 2
    assert "2 words among numbers mean missing (first: '   ' at d.csv:12)" in done.report["notes"][0]


def test_white_space_in_text_stays(ingest_files):
    done = ingest_files({"d.csv": column("  ", " a", "b ")})
    assert {b"  ", b" a", b"b "} <= set(done.column("x"))
    assert "10 values are numbers and 2 are not" in done.report["warnings"][0]


def test_nothing_but_missing_words_is_told(ingest_files):
    done = ingest_files({"d.csv": "i,x\n" + "".join(f"{i},NA\n" for i in range(9))})
    assert "nothing but words that often mean missing (first: 'NA' at d.csv:2)" in done.report["warnings"][0]


def test_numbers_in_another_notation_are_told(ingest_files):
    columns = {
        "comma": ["0,5", "1,5"],
        "thousands": ["1,000", "12,345.5"],
        "percent": ["5%", "12 %"],
        "money": ["$5", "$7"],
    }
    other = {
        "day": ["2024-01-01", "2024-02-01"],
        "dots": ["01.02.2024", "10.0.0.1"],
        "mix": ["a1", "0,5"],
        "range": ["5-10", "1-2"],
    }
    both = columns | other
    rows = [";".join(values[i % 2] for values in both.values()) + f";{i}\n" for i in range(12)]
    done = ingest_files({"d.csv": ";".join(both) + ";i\n" + "".join(rows)}, delimiter=";")
    told = "values look like numbers, but not in the form 1234.5 (first: {!r} at d.csv:2): the whole column is bytes"
    assert done.report["warnings"] == [f"{name}: {told.format(values[0])}" for name, values in columns.items()]


def test_leading_zeros_are_told_among_floats_too(ingest_files):
    (line,) = ingest_files({"d.csv": column("007", "1.5", "0.5", "0")}).report["warnings"]
    assert "1 numbers have leading zeros (first: '007' at d.csv:12)" in line


def test_a_file_of_text_says_where_it_made_a_column_text(ingest_files):
    numbers = "a,b\n" + "".join(f"{i},{i}\n" for i in range(10))
    done = ingest_files({"1.csv": numbers, "2.csv": numbers.replace(",", ",t").replace("tb", "b")})
    assert "(first: 't0' at 2.csv:2)" in done.report["warnings"][0]


def test_moments_with_and_without_zone_in_one_column(ingest_files):
    moments = {
        "2024-01-01": 1704067200000000,
        "2024-01-01T00:00:00Z": 1704067200000000,
        "2024-01-01 00:00:00.123456789": 1704067200123456,
        "2024-01-01T00:00:00+02:00": 1704060000000000,
        "2024-01-01T00:00:00-0500": 1704085200000000,
        "2024-01-01T00:00": 1704067200000000,
        " 2024-01-01 ": 1704067200000000,
        "1600-01-01": -11676096000000000,
        "9999-12-31": 253402214400000000,
    }
    bad = ["2024-13-01", "2024-02-30", "20240101", "01/02/2024", "2024-01-01T24:00:00", "Jan 1 2024"]
    done = ingest_files(
        {"d.csv": column(*moments, *bad, before=0)},
        types={"x": "timestamp"},
        bad_rows="skip",
        split={"weights": {"a": 1}},
    )
    assert sorted(done.column("x")) == sorted(moments.values())
    assert [row["line"] for row in done.report["bad_row_examples"]] == [11, 12, 13, 14, 15, 16]
    assert done.report["notes"] == ["x: less than a microsecond cut off: 1 values"]


def test_a_cut_may_have_a_zone(ingest_files):
    days = "d,x\n" + "".join(f"2024-03-{day:02}T00:00:00Z,{day}\n" for day in range(1, 11))
    split = {"by": "time", "time_column": "d", "cuts": {"train": "2024-03-05T01:00:00+02:00", "eval": None}}
    done = ingest_files({"d.csv": days}, types={"d": "timestamp"}, split=split)
    assert sorted(done.column("x", "train")) == [1, 2, 3, 4]
