"""Global batches do not depend on how many workers read them; damage is named; positions are exact."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from modules.training.cluster import ClusterSpec
from modules.training.config import TrainingConfig
from modules.training.errors import TrainingConfigError, TrainingDataError
from modules.training.failures import translated
from modules.training.input import RecordInput, ReplicaPlacement, choose_sharding, class_weight, example_parser
from modules.training.records import count_records, describe_corruption, find_files

SPEC = {"id": tf.io.FixedLenFeature([1], tf.int64), "y": tf.io.FixedLenFeature([1], tf.int64)}


def example(number):
    feature = {name: tf.train.Feature(int64_list=tf.train.Int64List(value=[number])) for name in SPEC}
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def write(folder, sizes, compression=""):
    numbers = itertools.count()
    for shard, size in enumerate(sizes):
        options = tf.io.TFRecordOptions(compression_type=compression)
        with tf.io.TFRecordWriter(str(folder / f"data-{shard}"), options) as writer:
            for _ in range(size):
                writer.write(example(next(numbers)))
    return find_files([str(folder / "data-*")], "training")


def reader(files, config, replica=0, num_replicas=1, local=1, training=True, largest=lambda n: n):
    place = ReplicaPlacement(num_replicas, replica, local)
    return RecordInput(files, example_parser(SPEC, "y"), config, place, training=training, largest=largest)


def ids(data, num_batches, start=0):
    """[batch][example]: numbers that count, of one replica."""
    batches = []
    for features, _, _, mask in data.training_batches(start).take(num_batches):
        batches.append(features["id"].numpy()[mask.numpy() > 0].ravel().tolist())
    return batches


def config(**values):
    return TrainingConfig(**{"batch_size": 12, "shuffle_buffer": 16, "sharding": "data", **values})


@pytest.mark.parametrize("num_replicas", [2, 3, 4])
@pytest.mark.parametrize("cache", [False, True])
def test_replicas_share_the_global_batches_of_a_single_process(tmp_path, num_replicas, cache):
    files = write(tmp_path, [20, 17])  # 37 examples: batches of 12, 12, 12 and a tail of 1
    whole = ids(reader(files, config(cache=cache)), 8)
    shares = [
        ids(reader(files, config(cache=cache, batch_size=12 // num_replicas), r, num_replicas), 8)
        for r in range(num_replicas)
    ]
    together = [sorted(itertools.chain(*parts)) for parts in zip(*shares, strict=True)]
    assert together == [sorted(batch) for batch in whole]
    assert [len(batch) for batch in whole] == [12, 12, 12, 1] * 2
    assert sorted(itertools.chain(*whole[:4])) == list(range(37))
    assert whole[:4] != whole[4:]  # every epoch has its own order


def test_all_replicas_get_equally_long_batches(tmp_path):
    files = write(tmp_path, [37])
    shapes = []
    for replica in range(3):
        batches = reader(files, config(batch_size=4), replica, 3).training_batches().take(4)
        shapes.append([int(mask.shape[0]) for *_, mask in batches])
    assert shapes == [[4, 4, 4, 1]] * 3


def test_a_worker_with_two_replicas_feeds_both(tmp_path):
    files = write(tmp_path, [24])
    data = reader(files, config(batch_size=6, shuffle_buffer=0), replica=2, num_replicas=4, local=2)
    assert ids(data, 2) == [[2, 6, 10, 14, 18, 22], [3, 7, 11, 15, 19, 23]]


@pytest.mark.parametrize("sharding", ["data", "file"])
def test_an_epoch_without_a_whole_batch_is_refused_and_does_not_hang(tmp_path, sharding):
    data = reader(write(tmp_path, [5, 6]), config(drop_remainder=True, sharding=sharding))
    with pytest.raises(TrainingDataError, match="11 examples are less than one global batch of 12, and drop_remainder"):
        data.training_batches()


@pytest.mark.parametrize("start", [1, 4, 6, 11])
def test_a_position_is_the_same_batch_again(tmp_path, start):
    files = write(tmp_path, [20, 17])
    assert ids(reader(files, config()), 3, start) == ids(reader(files, config()), start + 3)[start:]


def test_sharding_by_file_reads_every_example_once_and_keeps_workers_in_step(tmp_path):
    files = write(tmp_path, [20, 3, 9, 5])
    settings = config(sharding="file", batch_size=4)
    shares = []
    for worker in range(2):
        shares.append(ids(reader(files, settings, worker, 2, largest=lambda n: max(n, 8)), 8))
    assert [len(share) for share in shares] == [8, 8]
    assert sorted(itertools.chain(*itertools.chain(*shares))) == list(range(37))


def test_sharding_is_by_file_only_where_files_suffice():
    assert choose_sharding(TrainingConfig(), 3, 4) == "data"
    assert choose_sharding(TrainingConfig(), 5, 4) == "data"
    assert choose_sharding(TrainingConfig(), 8, 4) == "file"
    assert choose_sharding(TrainingConfig(), 8, 1) == "data"
    with pytest.raises(TrainingConfigError, match="3 training files for 4 workers; write at least 4 shards"):
        choose_sharding(TrainingConfig(sharding="file"), 3, 4)


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_damage_is_named_with_file_record_and_offset(tmp_path, compression):
    files = write(tmp_path, [50], compression)
    assert count_records(files) == 50
    assert describe_corruption(files) is None
    path = tmp_path / "data-0"
    content = bytearray(path.read_bytes())
    if compression:
        path.write_bytes(content[: len(content) * 2 // 3])
        with pytest.raises(TrainingDataError, match=r"data-0: record \d+ at uncompressed byte \d+ is damaged"):
            count_records(files)
        return
    size = len(content) // 50
    content[7 * size + 14] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(TrainingDataError, match=rf"data-0: record 7 at byte {7 * size} is damaged \(wrong checksum"):
        count_records(files)


def test_missing_files_and_labels_are_named(tmp_path):
    with pytest.raises(TrainingDataError, match=r"no training files match .*nothing"):
        find_files([str(tmp_path / "nothing*")], "training")
    with pytest.raises(TrainingConfigError, match="the label 'z' is not among the features: id, y"):
        example_parser(SPEC, "z")


def test_class_weights_of_numbers_and_of_one_hot_labels():
    expected = [1.0, 5.0, 0.5]
    np.testing.assert_allclose(class_weight(tf.constant([[0], [1], [2]]), {1: 5.0, 2: 0.5}), expected)
    np.testing.assert_allclose(class_weight(tf.eye(3), {1: 5.0, 2: 0.5}), expected)


def test_examples_of_another_shape_are_bad_data_and_the_feature_is_named():
    short = tf.train.Example()
    short.features.feature["x"].float_list.value.extend([1.0, 2.0, 3.0])
    parse = tf.function(lambda records: tf.io.parse_example(records, {"x": tf.io.FixedLenFeature([4], tf.float32)}))
    with (
        pytest.raises(TrainingDataError, match=r"do not fit the feature spec: Key: x.*Values size: 3"),
        translated(ClusterSpec(tasks={})),
    ):
        parse(tf.constant([short.SerializeToString()]))


def test_a_folder_among_the_files_is_named(tmp_path):
    (tmp_path / "deeper").mkdir()
    with pytest.raises(TrainingDataError, match="deeper is a folder; expected TFRecord files"):
        find_files([str(tmp_path / "*")], "training")
