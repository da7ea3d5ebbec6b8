"""Equal rows are recognised however they were written."""

import numpy as np
import pyarrow as pa
import pytest
from tfx_bsl.coders import example_coder

from components.data_gate import example_files, row_hash
from components.data_gate.errors import GateConfigError
from components.data_gate.record_blocks import Block


@pytest.fixture(scope="module")
def batch(data, taxi):
    return data.to_batch(data.take(taxi.splits["train"], 0, 500), data._types(taxi.schema))


def encode(batch):
    return example_coder.RecordBatchToExamplesEncoder().encode(batch)


def test_rows_hash_alike_in_any_serialization_and_order(batch):
    """The encoder writes features in an order of its own each time, so that equal rows differ as bytes."""
    one, two = encode(batch), encode(batch)
    assert one != two
    order = np.random.RandomState(0).permutation(len(two))
    hashes = row_hash.row_hashes(example_files.decode(one))
    again = row_hash.row_hashes(example_files.decode([two[i] for i in order]))
    assert (hashes[order] == again).all()
    assert len(set(hashes.tolist())) == 500
    sums = row_hash.byte_sums(as_block(one))
    assert (sums[order] == row_hash.byte_sums(as_block([two[i] for i in order]))).all()
    assert len(set(sums.tolist())) > 450


def test_an_empty_record_has_a_sum_of_its_own():
    sums = row_hash.byte_sums(as_block([b"", b"ab", b"", b"ba", b"b"])).tolist()
    assert sums[0] == sums[2]
    assert sums[1] == sums[3]
    assert len(set(sums)) == 3


def as_block(records):
    ends = np.cumsum([len(record) + 16 for record in records]) - 4
    starts = ends - np.array([len(record) for record in records])
    return Block(np.frombuffer(b"".join(b"*" * 12 + record + b"*" * 4 for record in records), np.uint8), starts, ends)


@pytest.mark.parametrize(
    "rows",
    [
        [{"a": [1]}, {"b": [1]}],
        [{"a": [0]}, {"a": None}],
        [{"a": [1, 2]}, {"a": [2, 1]}],
        [{"a": [1], "b": [2]}, {"a": [2], "b": [1]}],
        [{"a": [1, 1]}, {"a": [1]}],
    ],
)
def test_different_rows_hash_differently(rows):
    names = sorted({name for row in rows for name in row})
    columns = [pa.array([row.get(name) for row in rows], pa.list_(pa.int64())) for name in names]
    first, second = row_hash.row_hashes(pa.RecordBatch.from_arrays(columns, names))
    assert first != second


def test_a_sample_of_contents_estimates_the_share_of_copies(taxi, tmp_path):
    train, evaluation = taxi.splits["train"], taxi.splits["eval"]
    mixed = {name: evaluation[name][:2400] + train[name][:600] for name in train}
    case = type(taxi)(**{**taxi.__dict__, "splits": {"train": train, "eval": mixed}, "with_rows": True})
    whole = case.judge(tmp_path).blocking
    sampled = case.with_policy(duplicates={"max_rows": 1500}).judge(tmp_path).blocking
    assert [finding.rule for finding in (*whole, *sampled)] == ["duplicates", "duplicates"]
    assert whole[0].rows == 600
    assert sampled[0].rows == pytest.approx(600, rel=0.25)
    assert "from a sample" in sampled[0].observed


@pytest.mark.parametrize("max_rows", [20_000, 1500])
def test_rows_may_be_the_same_by_some_columns(taxi, tmp_path, max_rows):
    train, evaluation = taxi.splits["train"], taxi.splits["eval"]
    mixed = {name: evaluation[name][:2400] + train[name][:600] for name in train}
    mixed["company"] = ["renamed"] * 3000
    case = type(taxi)(**{**taxi.__dict__, "splits": {"train": train, "eval": mixed}, "with_rows": True})
    assert "duplicates" not in [finding.rule for finding in case.judge(tmp_path).blocking]
    others = [name for name in train if name != "company"]
    policy = {"columns": others, "max_rows": max_rows}
    found = [f for f in case.with_policy(duplicates=policy).judge(tmp_path).blocking if f.rule == "duplicates"]
    assert found[0].rows == pytest.approx(600, rel=0.25 if max_rows == 1500 else 0.01)


def test_a_column_to_compare_rows_by_must_be_there(taxi, tmp_path):
    case = type(taxi)(**{**taxi.__dict__, "with_rows": True}).with_policy(duplicates={"columns": ["contents"]})
    with pytest.raises(
        GateConfigError, match=r"gate.duplicates.columns: neither .* column 'contents'; there are company"
    ):
        case.judge(tmp_path)
