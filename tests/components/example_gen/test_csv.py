"""CSV files that real pipelines broke on, each with what must come of it."""

import bz2
import gzip

import pytest
import zstandard

from components.example_gen.errors import IngestDataError

HEADER = "a,b,label\n"
ROWS = "".join(f"{i},{i * 1.5},{i % 2}\n" for i in range(40))
KINDS = {"a": "int64_list", "b": "float_list", "label": "int64_list"}
TEXT = {"a": "int64_list", "s": "bytes_list"}


def text_rows(cell, count=20):
    return "a,s\n" + "".join(f"{i},{cell(i)}\n" for i in range(count))


def other_order():
    return "label,b,a\n" + "".join(f"{i % 2},{i * 1.5},{i}\n" for i in range(40, 80))


ZIPS = "zip,b\n" + "".join(f"0{i:04d},1.0\n" for i in range(20))
PLAIN = HEADER + ROWS

# name: (files, options, expectations). Expectations: rows, kinds, first (values of the row with the smallest `a`).
READ = {
    "plain": ({"d.csv": PLAIN}, {}, {"rows": 40, "kinds": KINDS, "first": {"a": 0, "b": 0.0, "label": 0}}),
    "no last line end": ({"d.csv": PLAIN.rstrip()}, {}, {"rows": 40, "kinds": KINDS}),
    "byte order mark": ({"d.csv": b"\xef\xbb\xbf" + PLAIN.encode()}, {}, {"rows": 40, "kinds": KINDS}),
    "CR LF": ({"d.csv": PLAIN.replace("\n", "\r\n")}, {}, {"rows": 40, "kinds": KINDS}),
    "CR only": ({"d.csv": PLAIN.replace("\n", "\r")}, {}, {"rows": 40, "kinds": KINDS}),
    "blank lines": ({"d.csv": "\n" + HEADER + "\n" + ROWS + "\n\n"}, {}, {"rows": 40, "kinds": KINDS}),
    "quoted comma": (
        {"d.csv": text_rows(lambda i: f'"x, y {i}"')},
        {},
        {"rows": 20, "kinds": TEXT, "first": {"s": b"x, y 0"}},
    ),
    "quoted line end": (
        {"d.csv": text_rows(lambda i: f'"one\ntwo {i}"')},
        {},
        {"rows": 20, "kinds": TEXT, "first": {"s": b"one\ntwo 0"}},
    ),
    "doubled quote": (
        {"d.csv": text_rows(lambda i: f'"he said ""hi"" {i}"')},
        {},
        {"rows": 20, "kinds": TEXT, "first": {"s": b'he said "hi" 0'}},
    ),
    "stray quotes": (
        {"d.csv": text_rows(lambda i: f'5" pipe {i}')},
        {},
        {"rows": 20, "kinds": TEXT, "first": {"s": b'5" pipe 0'}},
    ),
    "quoted header": (
        {"d.csv": '"a","b,c",label\n' + ROWS},
        {},
        {"rows": 40, "kinds": {"a": "int64_list", "b,c": "float_list", "label": "int64_list"}},
    ),
    "spaces around numbers": ({"d.csv": PLAIN.replace(",", ", ")}, {}, {"rows": 40, "kinds": KINDS}),
    "short row skipped": ({"d.csv": PLAIN + "1,2\n"}, {"bad_rows": "skip"}, {"rows": 40, "kinds": KINDS}),
    "long row skipped": ({"d.csv": PLAIN + "1,2,3,4\n"}, {"bad_rows": "skip"}, {"rows": 40, "kinds": KINDS}),
    "spaces at the end skipped": ({"d.csv": PLAIN + "   \n"}, {"bad_rows": "skip"}, {"rows": 40, "kinds": KINDS}),
    "NA in numbers": (
        {"d.csv": PLAIN + "100,NA,1\n101,NULL,0\nnan,1.5,1\n"},
        {},
        {"rows": 43, "kinds": KINDS},
    ),
    "own NA": ({"d.csv": PLAIN + "-,2.5,1\n?,3.5,0\n"}, {"na": ["-", "?"]}, {"rows": 42, "kinds": KINDS}),
    "NA is a text in a text column": ({"d.csv": "a,s\n1,NA\n2,DE\n" * 1 + "3,FR\n4,IT\n5,ES\n6,PL\n7,NL\n8,AT\n"}, {},
                                      {"rows": 8, "kinds": TEXT, "first": {"s": b"NA"}}),
    "zip codes as bytes": (
        {"d.csv": ZIPS},
        {"types": {"zip": "bytes"}},
        {"rows": 20, "kinds": {"zip": "bytes_list", "b": "float_list"}},
    ),
    "gzip": ({"d.csv.gz": gzip.compress(PLAIN.encode())}, {}, {"rows": 40, "kinds": KINDS}),
    "bzip2": ({"d.csv.bz2": bz2.compress(PLAIN.encode())}, {}, {"rows": 40, "kinds": KINDS}),
    "zstd": ({"d.csv.zst": zstandard.compress(PLAIN.encode())}, {}, {"rows": 40, "kinds": KINDS}),
    "marker files beside": (
        {"d.csv": PLAIN, ".DS_Store": b"\0\1Bud1", "_SUCCESS": "", "README.md": "# hello", "empty.csv": ""},
        {},
        {"rows": 40, "kinds": KINDS},
    ),
    "no suffix": ({"part-00000": PLAIN}, {}, {"rows": 40, "kinds": KINDS}),
    "columns in another order": ({"a.csv": PLAIN, "b.csv": other_order()}, {}, {"rows": 80, "kinds": KINDS}),
    "a second file with only a header": ({"a.csv": PLAIN, "b.csv": HEADER}, {}, {"rows": 40, "kinds": KINDS}),
    "semicolons": ({"d.csv": PLAIN.replace(",", ";")}, {"delimiter": ";"}, {"rows": 40, "kinds": KINDS}),
    "semicolons found out": ({"d.csv": PLAIN.replace(",", ";")}, {"delimiter": "auto"}, {"rows": 40, "kinds": KINDS}),
    "TAB by name": ({"d.tsv": PLAIN.replace(",", "\t")}, {}, {"rows": 40, "kinds": KINDS}),
    "TAB named": ({"d.csv": PLAIN.replace(",", "\t")}, {"delimiter": "\t"}, {"rows": 40, "kinds": KINDS}),
    "one column": (
        {"d.csv": "a\n" + "".join(f"{i}\n" for i in range(40))},
        {},
        {"rows": 40, "kinds": {"a": "int64_list"}},
    ),
    "Latin-1": (
        {"d.csv": text_rows(lambda i: f"caf\xe9{i}").encode("latin-1")},
        {"encoding": "latin-1"},
        {"rows": 20, "kinds": TEXT, "first": {"s": "caf\xe90".encode()}},
    ),
    "UTF-16": ({"d.csv": PLAIN.encode("utf-16")}, {"encoding": "utf-16"}, {"rows": 40, "kinds": KINDS}),
    "200,000 characters in a field": (
        {"d.csv": text_rows(lambda i: "x" * 200_000 + str(i))},
        {},
        {"rows": 20, "kinds": TEXT},
    ),
    "no header": ({"d.csv": ROWS}, {"column_names": ["a", "b", "label"]}, {"rows": 40, "kinds": KINDS}),
    "all whole numbers beyond int64": (
        {"d.csv": "a,b\n" + "".join(f"{i},{2**63 + i}\n" for i in range(20))},
        {},
        {"rows": 20, "kinds": {"a": "int64_list", "b": "bytes_list"}, "first": {"b": b"9223372036854775808"}},
    ),
    "hexadecimal is text": (
        {"d.csv": "a,b\n" + "".join(f"{i},0x{i:x}\n" for i in range(20))},
        {},
        {"rows": 20, "kinds": {"a": "int64_list", "b": "bytes_list"}, "first": {"b": b"0x0"}},
    ),
    "a column without values": (
        {"d.csv": "a,b\n" + "".join(f"{i},\n" for i in range(20))},
        {},
        {"rows": 20, "kinds": {"a": "int64_list", "b": "none"}},
    ),
    "declared bool and timestamp": (
        {"d.csv": "a,b,t\n" + "".join(f"{i},{'yes' if i else 'no'},2020-01-01T00:00:0{i % 9}Z\n" for i in range(20))},
        {"types": {"b": "bool", "t": "timestamp"}},
        {"rows": 20, "kinds": dict.fromkeys("abt", "int64_list"), "first": {"b": 0, "t": 1577836800000000}},
    ),
    "a dropped column": (
        {"d.csv": PLAIN},
        {"drop": ["b"]},
        {"rows": 40, "kinds": {"a": "int64_list", "label": "int64_list"}},
    ),
}  # fmt: skip

# name: (files, options, words that the message must have)
REFUSED = {
    "name twice": ({"d.csv": "a,a,label\n" + ROWS}, {}, ["d.csv", "'a'", "twice"]),
    "empty": ({"d.csv": ""}, {}, ["d.csv", "empty"]),
    "only a header": ({"d.csv": HEADER}, {}, ["d.csv", "0 rows"]),
    "only a line end": ({"d.csv": "\r"}, {}, ["d.csv"]),
    "no file": ({}, {}, ["no file"]),
    "short row": ({"d.csv": PLAIN + "1,2\n"}, {}, ["d.csv:42", "expected 3 fields, got 2", "1,2"]),
    "long row": ({"d.csv": PLAIN + "1,2,3,4\n"}, {}, ["d.csv:42", "got 4"]),
    "short row after a quoted line end": ({"d.csv": 'a,s\n1,"x\ny"\n2\n'}, {}, ["d.csv:4"]),
    "a last line of spaces": ({"d.csv": PLAIN + "   \n"}, {}, ["d.csv:42"]),
    "short row after a byte order mark": ({"d.csv": "\ufeff" + PLAIN + "1,2\n"}, {}, ["d.csv:42"]),
    "short row after blank lines": ({"d.csv": "\n\n" + HEADER + "\n" + ROWS + "1,2\n"}, {}, ["d.csv:45"]),
    "word in declared numbers": ({"d.csv": PLAIN + "x,2.0,1\n"}, {"types": {"a": "int"}}, ["d.csv:42", "'a'", "'x'"]),
    "beyond int64": (
        {"d.csv": PLAIN + "9223372036854775808,2.0,1\n"},
        {"types": {"a": "int"}},
        ["d.csv:42", "'a'", "9223372036854775808"],
    ),
    "impossible date": (
        {"d.csv": "a,t\n1,2020-01-01\n2,2020-02-31\n"},
        {"types": {"t": "timestamp"}},
        ["d.csv:3", "'t'", "2020-02-31"],
    ),
    "columns differ": ({"a.csv": PLAIN, "b.csv": "a,c,label\n" + ROWS}, {}, ["b.csv", "has c", "lacks b"]),
    "semicolons": ({"d.csv": PLAIN.replace(",", ";")}, {}, ["d.csv", "';'", "delimiter"]),
    "TAB": ({"d.csv": PLAIN.replace(",", "\t")}, {}, ["d.csv", "TAB", "\\t"]),
    "ambiguous delimiter": ({"d.csv": "a;b,c;d\n" + "1;2,3;4\n" * 9}, {}, ["d.csv", "ambiguous"]),
    "Latin-1": ({"d.csv": text_rows(lambda i: f"caf\xe9{i}").encode("latin-1")}, {}, ["d.csv:2", "utf-8", "encoding"]),
    "UTF-16": ({"d.csv": PLAIN.encode("utf-16")}, {}, ["d.csv", "utf-16"]),
    "wrong encoding": ({"d.csv": b"a,s\n1,\x81\n"}, {"encoding": "utf-16"}, ["d.csv", "utf-16"]),
    "cut off gzip": ({"d.csv.gz": gzip.compress(PLAIN.encode())[:-20]}, {}, ["d.csv.gz"]),
    "identical rows": ({"d.csv": HEADER + "1,2.0,0\n" * 100}, {}, ["split", "empty"]),
    "float loss refused": (
        {"d.csv": "a,t\n1,1600000000.123\n2,1.5\n3,2.5\n4,3.5\n5,4.5\n"},
        {"float_loss": "fail"},
        ["d.csv:2", "'t'", "1600000000.123"],
    ),
    "mixed formats": ({"a.csv": PLAIN, "b.jsonl": '{"a": 1}\n'}, {}, ["a.csv", "b.jsonl", "mixes formats"]),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_reads(name, ingest_files):
    files, options, expected = READ[name]
    done = ingest_files(files, **options)
    rows = done.rows()
    assert done.report["rows"] == len(rows) == expected["rows"]
    assert done.report["columns"] == expected["kinds"]
    first = min(rows, key=lambda row: row["a"][1] or [1 << 62]) if "a" in rows[0] else rows[0]
    for column, value in expected.get("first", {}).items():
        assert first[column] == (expected["kinds"][column], [value])


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name, ingest_files, tmp_path):
    files, options, words = REFUSED[name]
    with pytest.raises(IngestDataError) as caught:
        ingest_files(files, **options)
    assert [word for word in words if word not in str(caught.value)] == [], str(caught.value)
    left = [path.name for path in tmp_path.iterdir() if path.name != "in1"]
    assert left == [], "a refused ingestion leaves nothing behind"


# What happened to values is told: name: (content, options, column, words of a line in the report)
TOLD = {
    "NA": (PLAIN + "100,NA,1\n", {}, "b", ["1 words", "'NA' at d.csv:42", "missing"]),
    "own NA": (PLAIN + "-,1.5,1\n", {"na": ["-"]}, "a", ["'-' at d.csv:42", "missing"]),
    "own NA without nan": (PLAIN + "nan,1.5,1\n-,1.5,1\n", {"na": ["-"]}, "a", ["'-' at d.csv:43", "missing"]),
    "one x": (PLAIN + "x,2.0,1\n", {}, "a", ["'x' at d.csv:42", "bytes"]),
    "1,234": (PLAIN + '"1,234",2.0,1\n', {}, "a", ["'1,234' at d.csv:42", "bytes"]),
    "2**63": (PLAIN + "9223372036854775808,2.0,1\n", {}, "a", ["9223372036854775808", "d.csv:42", "bytes"]),
    "leading zeros": (ZIPS, {}, "zip", ["20 numbers", "leading zeros", "'00000' at d.csv:2"]),
    "float32": (
        "a,t\n1,1600000000.123\n2,2.5\n3,3.5\n4,4.5\n",
        {},
        "t",
        ["1 numbers", "float32", "'1600000000.123' at d.csv:2"],
    ),
    "1e400": ("a,t\n1,1e400\n2,2.5\n3,3.5\n4,4.5\n", {}, "t", ["infinite", "'1e400' at d.csv:2"]),
    "whole numbers in a float column": ("a,t\n1,1\n2,2.5\n3,3.5\n4,4.5\n", {}, "t", ["1 whole numbers", "float"]),
    "no value at all": ("a,t\n1,\n2,\n3,\n4,\n", {}, "t", ["no row has a value"]),
    "a column without a name": (",t\n1,2\n2,3\n3,4\n4,5\n", {}, "unnamed_1", ["no name"]),
}  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_tells(name, ingest_files):
    content, options, column, words = TOLD[name]
    report = ingest_files({"d.csv": content}, **options).report
    lines = [line for line in report["warnings"] + report["notes"] if line.startswith(f"{column}: ")]
    assert any(all(word in line for word in words) for line in lines), lines


def test_a_plain_file_has_nothing_to_tell(ingest_files):
    report = ingest_files({"d.csv": PLAIN.replace("0.0", "0.5")}).report
    assert report["warnings"] == []


def test_zero_and_false_words_are_values(ingest_files):
    done = ingest_files({"d.csv": "a,b,c\n0,0.0,False\n1,1.5,True\n2,2.5,x\n3,3.5,y\n"})
    assert sorted(done.column("a")) == [0, 1, 2, 3]
    assert sorted(done.column("b")) == [0.0, 1.5, 2.5, 3.5]
    assert b"False" in done.column("c")


def test_quarantine_keeps_the_refused_rows(ingest_files):
    import json

    done = ingest_files({"d.csv": PLAIN + "1,2\nx,1.0,1\n"}, bad_rows="quarantine", types={"a": "int"})
    lines = [json.loads(line) for line in (done.output / "quarantine.jsonl").read_text().splitlines()]
    assert [(line["line"], line["text"]) for line in lines] == [(42, "1,2"), (43, "x,1.0,1")]
    assert done.report["bad_rows"] == 2
    assert done.report["rows"] == 40


def test_float_loss_as_bytes_keeps_the_digits(ingest_files):
    content = "a,t,u\n1,1600000000.123,0.5\n2,2.5,1.5\n3,3.5,2.5\n4,4.5,3.5\n"
    done = ingest_files({"d.csv": content}, float_loss="bytes")
    assert sorted(done.column("t")) == [b"1600000000.123", b"2.5", b"3.5", b"4.5"]
    assert done.report["columns"]["u"] == "float_list"


@pytest.mark.parametrize("late", ["2.5", "x", ""])
def test_types_come_from_all_chunks(late, ingest_files):
    lines = [f"{i},{i}" for i in range(3000)] + [f"3000,{late}"]
    done = ingest_files({"d.csv": "a,b\n" + "\n".join(lines) + "\n"}, chunk_bytes=1024)
    kind = {"2.5": "float_list", "x": "bytes_list", "": "int64_list"}[late]
    assert done.report["columns"]["b"] == kind
    assert {row["b"][0] for row in done.rows()} == {kind}
    assert done.report["chunks"] > 5
    assert done.report["converted_again"] == (0 if kind == "int64_list" else done.report["chunks"] - 1)


def test_text_among_numbers_is_told_with_its_line_in_a_later_chunk(ingest_files):
    lines = [f"{i},{i}" for i in range(3000)] + ["3000,oops"]
    report = ingest_files({"d.csv": "a,b\n" + "\n".join(lines) + "\n"}, chunk_bytes=1024).report
    (line,) = [line for line in report["warnings"] if line.startswith("b: ")]
    assert "3000 values are numbers and 1 are not (first: 'oops' at d.csv:3002)" in line


def test_a_schema_declares_types(ingest_files, tmp_path):
    schema = tmp_path / "schema.pbtxt"
    schema.write_text('feature { name: "zip" type: BYTES } feature { name: "b" type: FLOAT }')
    done = ingest_files({"d.csv": ZIPS}, schema_file=str(schema))
    assert done.report["columns"] == {"zip": "bytes_list", "b": "float_list"}
    assert done.report["column_details"]["zip"]["declared"] == "bytes"
