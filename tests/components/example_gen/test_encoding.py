"""Encoded examples are what protobuf reads, and what tfx_bsl's encoder means."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.example_gen import encoding
from components.example_gen.features import Column, scalar_column

INT64 = st.integers(-(2**63), 2**63 - 1)
VALUES = {
    "int": (st.one_of(INT64, st.integers(-3, 300)), pa.int64()),
    "float": (st.floats(width=32, allow_nan=False), pa.float32()),
    "bytes": (st.binary(max_size=300), pa.large_binary()),
}
FIELDS = {"int": "int64_list", "float": "float_list", "bytes": "bytes_list"}


@st.composite
def columns(draw):
    num_rows = draw(st.integers(1, 12))
    made, wanted = {}, {}
    names = draw(st.lists(st.text(min_size=1, max_size=150), min_size=1, max_size=4, unique=True))
    for name in names:
        kind = draw(st.sampled_from(list(VALUES)))
        values, dtype = VALUES[kind]
        rows = draw(st.lists(st.one_of(st.none(), st.lists(values, max_size=4)), min_size=num_rows, max_size=num_rows))
        flat = [value for row in rows for value in row or []]
        offsets = np.concatenate([[0], np.cumsum([len(row or []) for row in rows])]).astype(np.int64)
        absent = np.asarray([row is None for row in rows])
        made[name] = Column(kind, pa.array(flat, dtype), offsets, absent if absent.any() else None)
        wanted[name] = (kind, rows)
    return num_rows, made, wanted


@settings(deadline=None, max_examples=150)
@given(columns())
def test_protobuf_reads_what_was_meant(generated):
    import tensorflow as tf

    num_rows, made, wanted = generated
    records = encoding.encode(made)
    assert len(records) == num_rows
    for row, record in enumerate(records.to_pylist()):
        features = tf.train.Example.FromString(record).features.feature
        assert set(features) == set(wanted)
        for name, (kind, rows) in wanted.items():
            assert features[name].WhichOneof("kind") == (None if rows[row] is None else FIELDS[kind])
            assert list(getattr(features[name], FIELDS[kind]).value) == (rows[row] or [])


@settings(deadline=None, max_examples=50)
@given(columns())
def test_tfx_bsl_encodes_the_same(generated):
    from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder, RecordBatchToExamplesEncoder

    _, made, _ = generated
    lists = [
        pa.LargeListArray.from_arrays(
            pa.array(column.offsets), column.values, mask=None if column.absent is None else pa.array(column.absent)
        )
        for column in made.values()
    ]
    theirs = RecordBatchToExamplesEncoder().encode(pa.RecordBatch.from_arrays(lists, list(made)))
    decode = ExamplesToRecordBatchDecoder().DecodeBatch
    mine, other = decode(encoding.encode(made).to_pylist()), decode(theirs)
    assert {name: mine.column(name).to_pylist() for name in mine.schema.names} == {
        name: other.column(name).to_pylist() for name in other.schema.names
    }


def test_equal_rows_give_equal_bytes():
    column = scalar_column("int", pa.array([7] * 1000))
    assert len(set(encoding.encode({f"c{i}": column for i in range(20)}).to_pylist())) == 1


@pytest.mark.parametrize("sizes", [[0, 1, 127, 128, 300_000]])
def test_tensorflow_reads_the_frames(sizes, tmp_path):
    import tensorflow as tf

    records = pa.array([bytes(size) for size in sizes], pa.large_binary())
    path = tmp_path / "records"
    path.write_bytes(encoding.frame(records))
    assert [len(record) for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()] == sizes
