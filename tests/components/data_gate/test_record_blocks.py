"""Every record of a file, however it is compressed and wherever a read ends."""

import pytest
import tensorflow as tf

from components.data_gate import example_files, record_blocks
from components.data_gate.errors import GateConfigError

RECORDS = [b"x" * size for size in (0, 1, 700, 0, 5000, 3)] * 40


@pytest.fixture(params=["", "GZIP"])
def path(request, tmp_path):
    """A file of RECORDS."""
    target = str(tmp_path / "records")
    with tf.io.TFRecordWriter(target, tf.io.TFRecordOptions(compression_type=request.param)) as writer:
        for record in RECORDS:
            writer.write(record)
    return target


@pytest.mark.parametrize("piece", [64, 999, 1 << 22])
def test_all_records_in_order(path, piece, monkeypatch):
    monkeypatch.setattr(record_blocks, "_PIECE_BYTES", piece)
    found = [record for block in record_blocks.blocks(path) for record in block.records(range(len(block)))]
    assert found == RECORDS == [record for batch in example_files.record_batches(path) for record in batch]


def test_a_file_that_was_cut_off_is_named(tmp_path):
    target = tmp_path / "short"
    with tf.io.TFRecordWriter(str(target)) as writer:
        writer.write(b"x" * 100)
    target.write_bytes(target.read_bytes()[:-10])
    with pytest.raises(GateConfigError, match="short: ends within a record"):
        list(record_blocks.blocks(str(target)))
