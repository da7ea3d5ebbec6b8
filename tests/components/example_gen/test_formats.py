"""Parquet, Arrow, Avro, JSON Lines and TFRecord: only null is missing, and odd types are converted or named."""

import datetime
import decimal
import gzip
import json

import fastavro
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from components.example_gen.errors import IngestDataError

ZEROS = {
    "i": [0, 1, None, 3] * 5,
    "f": [0.0, 1.5, None, 2.5] * 5,
    "s": ["", "x", None, "y"] * 5,
    "b": [False, True, None, True] * 5,
    "row": list(range(20)),
}


def parquet(table, **options):
    return lambda path: pyarrow.parquet.write_table(table, path, **options)


def avro(path):
    fields = [{"name": "row", "type": "long"}]
    fields += [
        {"name": n, "type": ["null", t]} for n, t in zip("ifsb", ["long", "double", "string", "boolean"], strict=True)
    ]
    rows = [{name: values[row] for name, values in ZEROS.items()} for row in range(20)]
    with open(path, "wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, rows)


def arrow_stream(path):
    table = pa.table(ZEROS)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


def json_lines(path):
    rows = [{name: values[row] for name, values in ZEROS.items()} for row in range(20)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


WRITERS = {
    "d.parquet": parquet(pa.table(ZEROS), row_group_size=7),
    "d.arrow": lambda path: pyarrow.feather.write_feather(pa.table(ZEROS), str(path), chunksize=6),
    "d.feather": lambda path: pyarrow.feather.write_feather(pa.table(ZEROS), str(path), version=1),
    "stream.arrow": arrow_stream,
    "d.avro": avro,
    "d.jsonl": json_lines,
    "d.jsonl.gz": lambda path: (json_lines(path), path.write_bytes(gzip.compress(path.read_bytes()))),
    "no_suffix": parquet(pa.table(ZEROS)),
}


@pytest.mark.parametrize("name", WRITERS)
def test_only_null_is_missing(name, ingest_files):
    done = ingest_files({name: WRITERS[name]})
    rows = sorted(done.rows(), key=lambda row: row["row"][1])
    assert done.report["columns"] == {
        "i": "int64_list",
        "f": "float_list",
        "s": "bytes_list",
        "b": "int64_list",
        "row": "int64_list",
    }
    assert [row["i"][1] for row in rows[:4]] == [[0], [1], [], [3]]
    assert [row["f"][1] for row in rows[:4]] == [[0.0], [1.5], [], [2.5]]
    assert [row["s"][1] for row in rows[:4]] == [[b""], [b"x"], [], [b"y"]]
    assert [row["b"][1] for row in rows[:4]] == [[0], [1], [], [1]]
    assert rows[2]["i"] == (None, [])
    assert done.report["column_details"]["i"]["missing"] == 5
    assert any(line.startswith("b: bool to int64") for line in done.report["notes"])


def test_moments_decimals_lists_and_categories_are_converted(ingest_files):
    day = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    table = pa.table(
        {
            "row": list(range(12)),
            "moment": [day + datetime.timedelta(seconds=i) for i in range(12)],
            "date": [day.date()] * 12,
            "price": [decimal.Decimal("1.25") + i for i in range(12)],
            "tags": [["a", "b"], [], None, ["c"]] * 3,
            "sizes": [[1, 2, 3], [], None, [0]] * 3,
            "city": pa.array(["Rome", "Oslo", None, "Rome"] * 3).dictionary_encode(),
            "raw": pa.array([b"\x00\xff"] * 12, pa.binary()),
        }
    )
    done = ingest_files({"d.parquet": parquet(table)})
    rows = sorted(done.rows(), key=lambda row: row["row"][1])
    assert rows[1]["moment"] == ("int64_list", [1577836801000000])
    assert rows[0]["date"] == ("int64_list", [1577836800000000])
    assert rows[0]["price"] == ("float_list", [1.25])
    assert [row["tags"] for row in rows[:4]] == [
        ("bytes_list", [b"a", b"b"]),
        ("bytes_list", []),
        (None, []),
        ("bytes_list", [b"c"]),
    ]
    assert [row["sizes"][1] for row in rows[:4]] == [[1, 2, 3], [], [], [0]]
    assert [row["city"][1] for row in rows[:4]] == [[b"Rome"], [b"Oslo"], [], [b"Rome"]]
    assert rows[0]["raw"] == ("bytes_list", [b"\x00\xff"])
    notes = " ".join(done.report["notes"])
    assert "moment: timestamp" in notes
    assert "price: decimal128" in notes


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ([[[1], [2]]] * 5, ["d.parquet", "'x'", "list"]),
        ([{"a": 1}] * 5, ["d.parquet", "'x'", "struct"]),
        (pa.array([2**64 - 1] * 5, pa.uint64()), ["d.parquet", "'x'", "uint64"]),
    ],
)
def test_types_that_an_example_cannot_hold_are_named(column, words, ingest_files):
    table = pa.table({"a": list(range(5)), "x": column})
    with pytest.raises(IngestDataError) as caught:
        ingest_files({"d.parquet": parquet(table)})
    assert [word for word in words if word not in str(caught.value)] == []
    assert ingest_files({"d.parquet": parquet(table)}, drop=["x"]).report["columns"] == {"a": "int64_list"}


def test_float64_that_float32_does_not_hold_is_told(ingest_files):
    table = pa.table({"t": [1600000000.123, 1e300, 0.5, 0.25, 1.5, 2.5]})
    lines = ingest_files({"d.parquet": parquet(table)}).report["warnings"]
    assert any("1 numbers have more digits" in line and "1600000000.123" in line for line in lines)
    assert any("infinite" in line and "1e+300" in line for line in lines)


def test_files_that_differ_in_type_agree_on_the_wider_one(ingest_files):
    one, two = pa.table({"a": list(range(9))}), pa.table({"a": [i + 0.5 for i in range(9)]})
    done = ingest_files({"1.parquet": parquet(one), "2.parquet": parquet(two)})
    assert {row["a"][0] for row in done.rows()} == {"float_list"}
    assert any("9 whole numbers among 9 others" in line for line in done.report["notes"])


def test_json_keys_may_come_and_go(ingest_files):
    lines = [{"a": i} for i in range(300)] + [{"a": i, "b": [1, 2]} for i in range(300, 320)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = ingest_files({"d.jsonl": text}, chunk_bytes=1024)
    rows = sorted(done.rows(), key=lambda row: row["a"][1])
    assert rows[0]["b"] == (None, [])
    assert rows[-1]["b"] == ("int64_list", [1, 2])
    assert done.report["column_details"]["b"]["missing"] == 300


def test_json_strings_stay_strings_and_mixed_columns_become_text(ingest_files):
    text = "".join(f'{{"d": "2020-01-0{i + 1}", "m": {i if i % 2 else json.dumps("x")}}}\n' for i in range(9))
    done = ingest_files({"d.jsonl": text})
    assert b"2020-01-01" in done.column("d")
    assert done.report["columns"] == {"d": "bytes_list", "m": "bytes_list"}


def test_broken_json_names_its_line(ingest_files):
    text = "".join(f'{{"a": {i}}}\n' for i in range(20)) + '{"a": \n'
    with pytest.raises(IngestDataError, match=r"d\.jsonl:21: not JSON"):
        ingest_files({"d.jsonl": text})
    assert ingest_files({"d.jsonl": text}, bad_rows="skip").report["bad_rows"] == 1


def test_broken_parquet_names_its_file(ingest_files):
    with pytest.raises(IngestDataError, match=r"d\.parquet"):
        ingest_files({"d.parquet": b"PAR1 and nothing else"})


def test_tfrecords_come_back_as_they_were(ingest_files, tmp_path):
    first = ingest_files({"d.jsonl": json_lines})
    records = {split.name: next(split.iterdir()).read_bytes() for split in first.output.glob("Split-*")}
    again = ingest_files({f"{name}.tfrecord.gz": content for name, content in records.items()})
    rows = sorted(first.rows(), key=lambda row: row["row"][1])
    wanted = [row for row in rows if row["row"][1][0] in set(again.column("row"))]
    assert sorted(again.rows(), key=lambda row: row["row"][1]) == wanted


def test_a_broken_tfrecord_is_refused(ingest_files):
    first = ingest_files({"d.jsonl": json_lines}, compression="none", shards=1)
    record = bytearray(next(first.output.glob("Split-train/*")).read_bytes())
    record[40] ^= 1
    with pytest.raises(IngestDataError, match=r"d\.tfrecord"):
        ingest_files({"d.tfrecord": bytes(record)})


def test_declared_bytes_keep_what_was_written(ingest_files):
    table = pa.table(
        {
            "row": list(range(9)),
            "price": [decimal.Decimal("1.10")] * 9,
            "big": pa.array([2**64 - 1] * 9, pa.uint64()),
            "moment": [datetime.datetime(2020, 1, 1)] * 9,
        }
    )
    types = dict.fromkeys(["price", "big", "moment"], "bytes")
    row = ingest_files({"d.parquet": parquet(table)}, types=types).rows()[0]
    assert row["price"] == ("bytes_list", [b"1.10"])
    assert row["big"] == ("bytes_list", [b"18446744073709551615"])
    assert row["moment"][1][0].startswith(b"2020-01-01 00:00:00")


def test_a_file_without_rows_is_refused(ingest_files):
    with pytest.raises(IngestDataError, match=r"0 rows in d\.parquet"):
        ingest_files({"d.parquet": parquet(pa.table({"a": pa.array([], pa.int64())}))})


def test_objects_without_keys_are_rows(ingest_files):
    done = ingest_files({"d.jsonl": "{}\n" * 40 + '{"a": 1}\n' * 3}, chunk_bytes=1024, split={"weights": {"all": 1}})
    assert done.report["rows"] == 43
    assert sum(value is None for value in done.column("a")) == 40
