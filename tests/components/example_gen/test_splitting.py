"""Splits: by row, by group, by time and by file; what is equal stays together; nothing depends on chunks or order."""

import collections
import json

import pytest

from components.example_gen.errors import IngestConfigError, IngestDataError


def table(count=600):
    return "user,day,t,x\n" + "".join(f"u{i % 37},2024-0{1 + i % 6}-01,{i},{i * 0.5}\n" for i in range(count))


def by_row(done, name="t"):
    return {split: sorted(done.column(name, split)) for split in done.report["splits"]}


def test_shares_are_about_the_weights(ingest_files):
    done = ingest_files({"d.csv": table(3000)}, split={"weights": {"train": 7, "eval": 2, "test": 1}})
    splits = done.report["splits"]
    assert list(splits) == ["train", "eval", "test"]
    assert splits["train"] == pytest.approx(2100, rel=0.1)
    assert splits["test"] == pytest.approx(300, rel=0.25)


def test_a_row_goes_the_same_way_in_any_file_chunk_or_column_order(ingest_files):
    content = table()
    head, *lines = content.splitlines()
    reordered = "x,t,day,user\n" + "".join(",".join(reversed(line.split(","))) + "\n" for line in reversed(lines))
    half = len(lines) // 2
    parts = {"1.csv": "\n".join([head, *lines[half:]]) + "\n", "2.csv": "\n".join([head, *lines[:half]]) + "\n"}
    wanted = by_row(ingest_files({"d.csv": content}))
    assert by_row(ingest_files({"d.csv": content}, chunk_bytes=1024)) == wanted
    assert by_row(ingest_files({"d.csv": reordered})) == wanted
    assert by_row(ingest_files(parts)) == wanted


def test_another_seed_divides_otherwise(ingest_files):
    one, two = (by_row(ingest_files({"d.csv": table()}, split={"seed": seed})) for seed in (0, 1))
    assert one != two


def test_equal_rows_never_straddle_splits(ingest_files):
    rows = [f"{i % 50},{i % 50 / 4}\n" for i in range(500)]
    done = ingest_files({"d.csv": "a,b\n" + "".join(rows)}, chunk_bytes=1024)
    assert not set(done.column("a", "train")) & set(done.column("a", "eval"))


def test_equal_rows_never_straddle_splits_whatever_their_neighbours_lack(ingest_files):
    """Most blocks lack no value of `b`, some do: the same row must not be hashed otherwise there."""
    rows = [f"{i % 50},{i % 50 / 4},word{i % 50}\n" for i in range(500)]
    for place in (3, 333):
        rows.insert(place, f"{100 + place},,\n")
    done = ingest_files({"d.csv": "a,b,c\n" + "".join(rows)}, chunk_bytes=1024)
    counts = collections.Counter(done.column("a"))
    assert {counts.pop(103), counts.pop(433)} == {1}
    assert set(counts.values()) == {10}
    assert not set(done.column("a", "train")) & set(done.column("a", "eval"))


def test_equal_rows_never_straddle_splits_beside_longer_lists(ingest_files):
    lines = [json.dumps({"a": i % 50, "b": [i % 50] * (i % 50 % 3)}) + "\n" for i in range(500)]
    single = [line for i, line in enumerate(lines) if i % 50 % 3 == 1]
    done = ingest_files({"1.jsonl": "".join(lines), "2.jsonl": "".join(single)})
    assert not set(done.column("a", "train")) & set(done.column("a", "eval"))


def test_numbers_written_differently_are_equal_rows(ingest_files):
    for forms in (("1.5", "1.50", "15e-1"), ("0.0", "-0.0", "0e3")):
        done = ingest_files({"d.csv": "a,b\n" + "".join(f"{i},{form}\n" for i in range(60) for form in forms)})
        counts = collections.Counter(done.column("a", "train"))
        assert set(counts.values()) == {3}


@pytest.mark.parametrize("columns", [["user"], ["user", "day"], ["x"]])
def test_groups_stay_whole(columns, ingest_files):
    done = ingest_files({"d.csv": table()}, split={"by": "columns", "columns": columns}, chunk_bytes=1024)
    keys = {
        split: {tuple(str(row[name][1]) for name in columns) for row in done.rows(split)} for split in ("train", "eval")
    }
    assert keys["train"]
    assert not keys["train"] & keys["eval"]


@pytest.mark.parametrize(
    ("column", "cuts", "options"),
    [
        ("t", {"train": 400, "eval": 500, "test": None}, {}),
        ("day", {"train": "2024-04-01", "eval": "2024-05-01", "test": None}, {}),
        ("day", {"train": "2024-04-01", "eval": "2024-05-01", "test": None}, {"types": {"day": "timestamp"}}),
    ],
)
def test_time_splits_cut_in_order(column, cuts, options, ingest_files):
    done = ingest_files({"d.csv": table()}, split={"by": "time", "time_column": column, "cuts": cuts}, **options)
    values = {split: done.column(column, split) for split in cuts}
    assert max(values["train"]) < min(values["eval"]) <= max(values["eval"]) < min(values["test"])
    assert done.report["rows"] == 600


def test_a_time_split_needs_a_time_in_each_row(ingest_files):
    split = {"by": "time", "time_column": "t", "cuts": {"train": 400, "eval": None}}
    with pytest.raises(IngestDataError, match=r"d\.csv:602: column 't' has no value"):
        ingest_files({"d.csv": table() + "u1,2024-01-01,,1.0\n"}, split=split)


def test_cuts_out_of_order_are_refused(ingest_files):
    split = {"by": "time", "time_column": "t", "cuts": {"train": 400, "eval": 300, "test": None}}
    with pytest.raises(IngestConfigError, match="ascending"):
        ingest_files({"d.csv": table()}, split=split)


def test_splits_by_file_tell_of_rows_in_both(ingest_files):
    files = {"train-1.csv": table(300), "eval-1.csv": table(310)}
    split = {"by": "files", "files": {"train": "train*", "eval": "eval*"}}
    done = ingest_files(files, split=split)
    assert done.report["splits"] == {"train": 300, "eval": 310}
    assert any("300 of its distinct rows are in train too" in line for line in done.report["warnings"])
    with pytest.raises(IngestDataError, match="300 distinct rows are in both"):
        ingest_files(files, split={**split, "duplicates": "fail"})


def test_an_empty_split_is_an_error(ingest_files):
    split = {"by": "columns", "columns": ["user"], "weights": {"train": 1, "eval": 1}}
    with pytest.raises(IngestDataError, match=r"split .* is empty"):
        ingest_files({"d.csv": "user,x\n" + "u,1\n" * 50}, split=split)


def test_shuffle_changes_the_order_and_nothing_else(ingest_files):
    plain, once, twice = (
        ingest_files({"d.csv": table()}, shuffle=shuffle, shards=1) for shuffle in (False, True, True)
    )
    assert sorted(once.column("t", "train")) == sorted(plain.column("t", "train"))
    assert once.column("t", "train") != plain.column("t", "train")
    assert once.records("train") == twice.records("train")


def test_shards_are_as_many_as_asked_and_balanced(ingest_files):
    done = ingest_files({"d.csv": table(5000)}, shards=8, chunk_bytes=8192)
    sizes = [shard["rows"] for shard in done.report["shards"] if shard["split"] == "train"]
    assert len(sizes) == 8
    assert max(sizes) < 1.3 * min(sizes)
    assert len(list((done.output / "Split-train").iterdir())) == 8


def test_equal_inputs_give_equal_bytes(ingest_files):
    one, two = (ingest_files({"d.csv": table()}, chunk_bytes=2048) for _ in range(2))
    assert [path.read_bytes() for path in sorted(one.output.glob("Split-*/*"))] == [
        path.read_bytes() for path in sorted(two.output.glob("Split-*/*"))
    ]
