"""Text files that are broken in ways that could be taken for data: quotes, encodings, headers, blank files."""

import gzip
import re

import pytest

from components.example_gen.errors import IngestDataError

ROWS = "".join(f"{i},{i * 1.5},t{i}\n" for i in range(12))
PLAIN = "a,b,s\n" + ROWS

REFUSED = {
    "a quote that nothing closes": (
        {"d.csv": PLAIN + '55,1,"abc\n56,1,z\n57,1,y\n'},
        {},
        [r"d\.csv:14: a quote", "55,1"],
    ),
    "the same, whatever becomes of bad rows": (
        {"d.csv": PLAIN + '55,1,"abc\n56,1,z\n'},
        {"bad_rows": "skip"},
        [r"d\.csv:14: a quote"],
    ),
    "the same in a compressed file": (
        {"d.csv.gz": gzip.compress((PLAIN + '1,1,"a\n').encode())},
        {},
        [r"gz:14: a quote"],
    ),
    "the same, many chunks before the end": (
        {"d.csv": PLAIN + '55,1,"abc\n' + ROWS * 200},
        {"chunk_bytes": 1024},
        [r"d\.csv:14: a quote"],
    ),
    "a quote closed by the next row's": (
        {"d.csv": PLAIN + '55,1,"abc\n56,1,"x"\n57,1,"y"\n'},
        {},
        [r"d\.csv:14: .*follows a closing quote"],
    ),
    "text after a closing quote": ({"d.csv": PLAIN + '55,1,"abc" d\n'}, {}, [r"d\.csv:14: ' d.*closing quote"]),
    "utf-32": ({"d.csv": PLAIN.encode("utf-32")}, {}, ["set encoding to utf-32"]),
    "utf-16 JSON": ({"d.jsonl": '{"a":1}\n'.encode("utf-16")}, {}, ["set encoding to utf-16"]),
    "utf-8 read as latin-1": (
        {"d.csv": b"\xef\xbb\xbf" + PLAIN.encode()},
        {"encoding": "latin-1"},
        [r"d\.csv: starts like utf-8"],
    ),
    "not ascii": ({"d.csv": PLAIN + "99,1,\xe9\n"}, {"encoding": "ascii"}, [r"d\.csv:14: not ascii"]),
    "gzip by another name": ({"d.csv": gzip.compress(PLAIN.encode())}, {}, ["is gzip"]),
    "Excel by another name": ({"d.csv": b"PK\x03\x04" + bytes(30)}, {}, ["Excel"]),
    "a zero byte": ({"d.csv": PLAIN + "55,1,x\0y\n"}, {}, [r"d\.csv:14: a zero byte after .*55,1,x"]),
    "a JSON array": ({"d.json": '[{"a": 1}]'}, {}, [r"d\.json: a JSON array; .*jq -c '\.\[\]' d\.json"]),
    "an object over several lines": ({"d.json": '{\n "a": 1\n}\n'}, {}, [r"over several lines; .*jq"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_file_and_line(name, ingest_files):
    files, options, words = REFUSED[name]
    with pytest.raises(IngestDataError) as raised:
        ingest_files(files, **options)
    for word in words:
        assert re.search(word, str(raised.value)), raised.value
    assert "while running" not in str(raised.value)


def test_only_the_row_with_the_stray_quote_is_bad(ingest_files):
    done = ingest_files({"d.csv": PLAIN + '55,1,"abc\n56,1,"x"\n57,1,"y"\n1,2\n58,1,"z" z\n59,1,z\n'}, bad_rows="skip")
    assert [row["line"] for row in done.report["bad_row_examples"]] == [14, 17, 18]
    assert sorted(done.column("a"))[-2:] == [57, 59]


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_no_byte_is_lost_where_text_grows_in_utf8(encoding, ingest_files):
    text = "\xe9\xe9\xe9\xe9\xe9,s\n" + "".join(f"{i},\xfc{i}\n" for i in range(1000, 1200))
    done = ingest_files({"d.csv": text.encode(encoding)}, encoding=encoding, chunk_bytes=1024)
    assert sorted(done.column("\xe9" * 5)) == list(range(1000, 1200))
    assert sorted(done.column("s"))[0] == "\xfc1000".encode()


@pytest.mark.parametrize("blank", [b"\n\n  \n", gzip.compress(b"")])
def test_a_file_of_nothing_beside_others_is_left_out(blank, ingest_files):
    name = "b.csv" if blank[:1] == b"\n" else "b.csv.gz"
    done = ingest_files({"a.csv": PLAIN, name: blank})
    assert [entry["why"] for entry in done.report["skipped_files"]] == ["nothing but white space"]


def test_a_file_of_only_a_header_beside_others_is_told(ingest_files):
    assert ingest_files({"a.csv": PLAIN, "b.csv": "a,b,s\n"}).report["warnings"] == [
        "b.csv: 0 rows: only a header, or no records at all"
    ]


def test_a_first_row_taken_for_a_header_is_told(ingest_files):
    done = ingest_files({"d.csv": "1,x\n" + "".join(f"{i},y\n" for i in range(9))})
    assert any("first row is lost" in line for line in done.report["warnings"])
    assert not ingest_files({"d.csv": PLAIN}).report["warnings"]


def test_a_header_in_the_middle_is_called_one(ingest_files):
    done = ingest_files({"d.csv": PLAIN + PLAIN})
    assert "'a' at d.csv:14), the header once more" in done.report["warnings"][0]


def test_other_columns_of_some_files_may_be_dropped(ingest_files):
    files = {"a.csv": PLAIN, "b.csv": "a,b,s,extra\n90,1.5,x,1\n"}
    with pytest.raises(IngestDataError, match="has extra"):
        ingest_files(files)
    assert ingest_files(files, drop=["extra"]).report["rows"] == 13
    assert ingest_files(files, keep=["a", "s"]).report["rows"] == 13


def test_json_by_the_name_of_text_is_json(ingest_files):
    done = ingest_files({"d.txt": "".join(f'{{"a": {i}, "b": "x"}}\n' for i in range(9))})
    assert sorted(done.column("a")) == list(range(9))
