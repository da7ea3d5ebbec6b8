"""Typed files whose values are not all of one kind, or are more than an example holds: JSON, Avro, Arrow, TFRecord."""

import decimal
import json
import uuid

import fastavro
import pyarrow as pa
import pytest

from components.example_gen.errors import IngestDataError

TEN = [{"i": i, "x": i * 2} for i in range(10)]


def json_lines(*more, base=TEN):
    return {"d.jsonl": "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in [*base, *more])}


def avro(kind, values):
    fields = [{"name": "i", "type": "long"}, {"name": "x", "type": kind}]
    schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": fields})

    def write(path):
        with open(path, "wb") as file:
            fastavro.writer(file, schema, [{"i": i, "x": value} for i, value in enumerate(values)])

    return {"d.avro": write}


def arrow(values):
    table = pa.table({"i": list(range(len(values))), "x": values})

    def write(path):
        with pa.ipc.new_file(str(path), table.schema) as file:
            file.write_table(table)

    return {"d.arrow": write}


# name: (lines after ten whole numbers, kind, the value that the first line has, what is told)
JSON = {
    "text": (
        ['{"i":10,"x":"foo"}'],
        "bytes_list",
        b"foo",
        "10 values are numbers and 1 are not (first: 'foo' at d.jsonl:11)",
    ),
    "a number as text": (['{"i":10,"x":"5"}'], "bytes_list", b"5", "(first: '5' at d.jsonl:11)"),
    "an empty text": (['{"i":10,"x":""}'], "bytes_list", b"", "10 values are numbers and 1 are not"),
    "a bool": (['{"i":10,"x":true}'], "int64_list", 1, "bool to int64 0 and 1: 1 values"),
    "a list": (['{"i":10,"x":[1,2]}'], "bytes_list", b"[1, 2]", "list or object written as text: 1 values"),
    "an object": (['{"i":10,"x":{"a":1}}'], "bytes_list", b'{"a": 1}', "list or object written as text: 1 values"),
    "beyond int64": (['{"i":10,"x":9223372036854775808}'], "bytes_list", b"9223372036854775808", "beyond int64"),
    "beyond float64's digits": (
        ['{"i":10,"x":9007199254740993}', '{"i":11,"x":0.5}'],
        "float_list",
        2.0**53,
        "more digits",
    ),
    "beyond float64": (
        ['{"i":10,"x":1e400}'],
        "float_list",
        float("inf"),
        "too large for float32 (first: '1e400' at d.jsonl:11)",
    ),
}


@pytest.mark.parametrize("name", JSON)
def test_json_values_of_another_kind_are_told(name, ingest_files):
    lines, kind, value, told = JSON[name]
    done = ingest_files(json_lines(*lines))
    assert done.report["columns"]["x"] == kind
    assert {row["i"][1][0]: row["x"][1][0] for row in done.rows()}[10] == value
    assert any(told in line for line in done.report["warnings"] + done.report["notes"]), done.report["warnings"]


def test_json_lines_that_are_no_rows_are_bad_rows(ingest_files):
    lines = [
        '{"x":1,"i":2,"x":3}',
        "null",
        "[1]",
        '{"i":1}{"i":2}',
        r'{"x":"\ud83d"}',
        '{"x":' + "[" * 2000 + "]" * 2000 + "}",
    ]
    done = ingest_files(json_lines(*lines), bad_rows="skip")
    assert done.report["rows"] == 10
    reasons = [(row["line"], row["reason"]) for row in done.report["bad_row_examples"]]
    assert [line for line, _ in reasons] == [11, 12, 13, 14, 15, 16]
    words = ["key 'x' is there twice", "another value", "another value", "Extra data", "surrogate", "recursion"]
    assert all(word in reason for word, (_, reason) in zip(words, reasons, strict=True))


def test_json_numbers_declared_bytes_keep_their_digits(ingest_files):
    done = ingest_files(json_lines('{"i":10,"x":1.50}', '{"i":11,"x":12345678901234567890123}'), types={"x": "bytes"})
    assert {b"1.50", b"12345678901234567890123", b"18"} <= set(done.column("x"))


def test_json_booleans_are_no_declared_ints(ingest_files):
    with pytest.raises(IngestDataError, match=r"d\.jsonl:11: column 'x': 'true' is not an int"):
        ingest_files(json_lines('{"i":10,"x":true}'), types={"x": "int"})


def test_avro_unions_become_what_all_of_their_values_are(ingest_files):
    done = ingest_files(avro(["null", "long", "string"], [None, 1, "a", 2, "b"] * 4))
    assert sorted(set(done.column("x")) - {None}) == [b"1", b"2", b"a", b"b"]
    assert done.report["column_details"]["x"]["missing"] == 4
    assert "8 values are numbers and 8 are not (first: 'a' at d.avro:3)" in done.report["warnings"][0]
    identities = [uuid.UUID(int=i) for i in range(9)]
    done = ingest_files(avro({"type": "string", "logicalType": "uuid"}, identities))
    assert sorted(done.column("x")) == [str(identity).encode() for identity in identities]


def test_avro_of_something_else_than_records_is_refused(ingest_files):
    def write(path):
        with open(path, "wb") as file:
            fastavro.writer(file, fastavro.parse_schema("long"), [1, 2])

    with pytest.raises(IngestDataError, match=r"d\.avro: .*not a record"):
        ingest_files({"d.avro": write})


@pytest.mark.parametrize(
    ("values", "types", "told"),
    [
        (pa.array([0, 2**64 - 1] * 5, pa.uint64()), {}, r"d\.arrow:2: column 'x': 18446744073709551615 is a uint64"),
        (
            pa.array([0, 10**17] * 5, pa.timestamp("s")),
            {},
            r"d\.arrow:2: column 'x': 10{17} is a timestamp\[s\] beyond",
        ),
        (pa.array([0, 1, 2, 3] * 5), {"x": "bool"}, r"d\.arrow:3: column 'x': '2' is not a bool"),
    ],
)
def test_values_that_do_not_fit_name_their_row(values, types, told, ingest_files):
    with pytest.raises(IngestDataError, match=told):
        ingest_files(arrow(values), types=types)


def test_numbers_that_become_floats_are_compared_with_what_they_were(ingest_files):
    for values in (pa.array([2**53 + 1] * 20), pa.array([decimal.Decimal(2**53 + 1)] * 20)):
        (line,) = ingest_files(arrow(values), types={"x": "float"}).report["warnings"]
        assert "(first: '9007199254740993' at d.arrow:1)" in line


def test_packed_arrow_types_are_their_values(ingest_files):
    runs = pa.RunEndEncodedArray.from_arrays([5, 10], ["a", "b"])
    assert sorted(ingest_files(arrow(runs)).column("x")) == [b"a"] * 5 + [b"b"] * 5
    assert (
        sorted(ingest_files(arrow(pa.array(["a", "b"] * 5, pa.string_view()))).column("x")) == [b"a"] * 5 + [b"b"] * 5
    )
    identities = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes([i]) * 16 for i in range(9)], pa.binary(16)))
    assert sorted(ingest_files(arrow(identities)).column("x"))[8] == b"\x08" * 16


def test_ones_own_missing_words_are_missing_in_typed_text(ingest_files):
    done = ingest_files(arrow(["-", "b"] * 9), na=["-"])
    assert done.column("x").count(None) == 9
    assert "9 values are in the list of missing words (first: '-' at d.arrow:1)" in done.report["notes"][0]


def test_an_empty_text_declared_a_number_is_told(ingest_files):
    done = ingest_files(arrow(["", "5"] * 9), types={"x": "int"})
    assert "9 words among numbers mean missing (first: '' at d.arrow:1)" in done.report["notes"][0]


def records(*more):
    import tensorflow as tf

    def example(**features):
        made = tf.train.Example()
        for name, value in features.items():
            kind = made.features.feature[name]
            (kind.int64_list if isinstance(value, int) else kind.float_list).value.append(value)
        return made.SerializeToString()

    def write(path):
        with tf.io.TFRecordWriter(str(path)) as file:
            for record in [*(example(i=i, x=i / 4) for i in range(10)), *more]:
                file.write(record if isinstance(record, bytes) else example(**record))

    return {"d.tfrecord": write}


def test_records_that_are_no_examples_are_bad_rows(ingest_files):
    done = ingest_files(records(b"\xff\xfe garbage", {"i": 11, "x": 3}, {"i": 12, "x": 0.5}), bad_rows="skip")
    assert [(row["line"], row["reason"][:40]) for row in done.report["bad_row_examples"]] == [
        (11, "not a tf.Example: DATA_LOSS: Unable to p"),
        (12, "column 'x': int64_list, but float_list i"),
    ]
    assert sorted(done.column("i")) == [*range(10), 12]


def test_sequence_examples_are_refused(ingest_files):
    import tensorflow as tf

    sequence = tf.train.SequenceExample()
    sequence.context.feature["i"].int64_list.value.append(1)
    sequence.feature_lists.feature_list["x"].feature.add().int64_list.value.append(2)

    def write(path):
        with tf.io.TFRecordWriter(str(path)) as file:
            file.write(sequence.SerializeToString())

    with pytest.raises(IngestDataError, match=r"d\.tfrecord:1: .*SequenceExample"):
        ingest_files({"d.tfrecord": write})


def test_a_cut_off_tfrecord_names_its_record(ingest_files):
    def write(path):
        records()["d.tfrecord"](path)
        path.write_bytes(path.read_bytes()[:-5])

    with pytest.raises(IngestDataError, match=r"d\.tfrecord:10: not a readable record: truncated record at \d+"):
        ingest_files({"d.tfrecord": write})
