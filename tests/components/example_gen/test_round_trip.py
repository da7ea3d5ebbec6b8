"""Whatever csv.writer writes is read as it was, however the file is cut."""

import csv
import gzip
import io
import json
import pathlib
import struct
import tempfile

from hypothesis import example, given, settings
from hypothesis import strategies as st

from components.example_gen import chunks, csv_records, readers
from components.example_gen.config import IngestConfig
from components.example_gen.sources import Source

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
SPECIAL = st.text(st.sampled_from('",;\n\r \ta'), max_size=8)
CELL = st.one_of(TEXT, SPECIAL, st.integers(-(2**40), 2**40).map(str))


@st.composite
def tables(draw):
    width = draw(st.integers(2, 4))
    return draw(st.lists(st.lists(CELL, min_size=width, max_size=width), min_size=1, max_size=25))


def written(rows, line_end, quoting):
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator=line_end, quoting=quoting)
    writer.writerow([f"c{number}" for number in range(len(rows[0]))])
    writer.writerows(rows)
    return buffer.getvalue().encode()


def read_back(content, **options):
    """The rows that chunk work stages for a file, in order, each as {name: (kind, values)}."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "d.csv"
        path.write_bytes(content)
        config = IngestConfig.from_dict(
            {"delimiter": ",", "shards": 1, "split": {"weights": {"all": 1}}, **options}, ""
        )
        source = Source(str(path), len(content), "csv")
        layout = readers.describe(source, config)
        job = chunks.Job(config, layout.columns, dict(config.types), folder)
        rows = []
        for number, span in enumerate(readers.plan(source, layout, config)):
            outcome = chunks.work(job, chunks.Chunk(0, number, source, layout, span))
            assert not outcome.error, outcome.error
            assert not outcome.bad_rows
            for piece in outcome.pieces:
                rows += records(gzip.decompress(pathlib.Path(piece.path).read_bytes()))
        return rows


def records(data):
    from tensorflow.core.example import example_pb2

    while data:
        (length,) = struct.unpack("<Q", data[:8])
        features = example_pb2.Example.FromString(data[12 : 12 + length]).features.feature
        yield {name: list(feature.bytes_list.value) for name, feature in features.items()}
        data = data[16 + length :]


@settings(deadline=None, max_examples=120)
@given(tables(), st.sampled_from(["\n", "\r\n"]))
@example([['a"b', "\n"], ["", '"']], "\n")
@example([["\r", "x"]] * 20, "\r\n")
def test_text_tables(rows, line_end):
    content = written(rows, line_end, csv.QUOTE_ALL)
    types = {f"c{number}": "bytes" for number in range(len(rows[0]))}
    got = read_back(content, types=types, chunk_bytes=1024)
    wanted = [{f"c{n}": [cell.encode()] if cell else [] for n, cell in enumerate(row)} for row in rows]
    assert got == wanted


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False))))
def test_numbers(rows):
    import numpy as np

    if not rows:
        return
    content = written([[str(i), json.dumps(f)] for i, f in rows], "\n", csv.QUOTE_MINIMAL)
    got = typed(content)
    assert [row[0] for row in got] == [i for i, _ in rows]
    with np.errstate(over="ignore"):
        assert [row[1] for row in got] == [float(np.float32(f)) for _, f in rows]


def typed(content):
    from tensorflow.core.example import example_pb2

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "d.csv"
        path.write_bytes(content)
        config = IngestConfig.from_dict({"types": {"c0": "int", "c1": "float"}, "split": {"weights": {"all": 1}}}, "")
        source = Source(str(path), len(content), "csv")
        layout = readers.describe(source, config)
        job = chunks.Job(config, layout.columns, dict(config.types), folder)
        (span,) = readers.plan(source, layout, config)
        outcome = chunks.work(job, chunks.Chunk(0, 0, source, layout, span))
        assert not outcome.error, outcome.error
        data = b"".join(gzip.decompress(pathlib.Path(piece.path).read_bytes()) for piece in outcome.pieces)
    rows = []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        features = example_pb2.Example.FromString(data[12 : 12 + length]).features.feature
        rows.append((features["c0"].int64_list.value[0], features["c1"].float_list.value[0]))
        data = data[16 + length :]
    return rows


@settings(deadline=None, max_examples=200)
@given(st.lists(st.lists(st.one_of(SPECIAL, st.just('5" pipe')), min_size=2, max_size=3), min_size=1, max_size=20))
def test_record_lines_and_boundaries_agree_with_the_csv_module(rows):
    content = written(rows, "\n", csv.QUOTE_ALL)
    reader = csv.reader(io.StringIO(content.decode(), newline=""))
    starts, line = [], 0
    for _ in reader:
        starts.append(line)
        line = reader.line_num
    if "\r" not in content.decode():
        assert csv_records.record_starts(content, ord(","))[0].tolist() == starts
    assert csv_records.last_boundary(content, ord(","), 10) == len(content)
    cut = csv_records.last_boundary(content[:-1], ord(","), 10)
    assert len(list(csv.reader(io.StringIO(content[:cut].decode(), newline="")))) == len(rows)
