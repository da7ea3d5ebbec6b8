"""`features_fn`: what it draws depends on the example's place in the training, not on who reads it."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from modules.training.config import TrainingConfig
from modules.training.input import RecordInput, ReplicaPlacement, example_parser
from modules.training.parameter_server import endless_batches
from modules.training.records import find_files

SPEC = {"id": tf.io.FixedLenFeature([1], tf.int64), "y": tf.io.FixedLenFeature([1], tf.int64)}


@pytest.fixture
def files(tmp_path):
    for shard in range(2):
        with tf.io.TFRecordWriter(str(tmp_path / f"data-{shard}")) as writer:
            for number in range(shard * 20, shard * 17 + 20):
                value = tf.train.Feature(int64_list=tf.train.Int64List(value=[number]))
                features = tf.train.Features(feature=dict.fromkeys(SPEC, value))
                writer.write(tf.train.Example(features=features).SerializeToString())
    return find_files([str(tmp_path / "data-*")], "training")


def noisy(features, seeds):
    """An example's number and what chance gives it."""
    if seeds is None:
        return {"id": features["id"], "noise": tf.zeros([tf.shape(features["id"])[0]])}
    noise = tf.map_fn(lambda seed: tf.random.stateless_uniform([], seed), seeds, fn_output_signature=tf.float32)
    return {"id": features["id"], "noise": noise}


def read(files, replica=0, num_replicas=1, start=0, training=True, batches=8, **settings):
    """[batch] of {number: noise} of the examples that count."""
    config = TrainingConfig(batch_size=12 // num_replicas, shuffle_buffer=16, **{"sharding": "data", **settings})
    place = ReplicaPlacement(num_replicas, replica, 1)
    data = RecordInput(files, example_parser(SPEC, "y"), config, place, training=training, features_fn=noisy)
    dataset = data.training_batches(start) if training else data.evaluation_batches()
    found = []
    for features, _, _, mask in dataset.take(batches):
        pairs = zip(features["id"].numpy().ravel().tolist(), features["noise"].numpy().tolist(), strict=True)
        found.append({number: noise for (number, noise), counts in zip(pairs, mask.numpy(), strict=True) if counts})
    return found


@pytest.mark.parametrize("cache", [False, True])
def test_any_number_of_workers_draws_the_same(files, cache):
    whole = read(files, cache=cache)
    shares = [read(files, replica, 3, cache=cache) for replica in range(3)]
    assert [{**a, **b, **c} for a, b, c in zip(*shares, strict=True)] == whole


def test_a_resumed_training_draws_the_same_and_a_new_epoch_does_not(files):
    whole = read(files)
    assert read(files, start=5, batches=3) == whole[5:]
    epochs = [dict(itertools.chain(*(batch.items() for batch in part))) for part in (whole[:4], whole[4:])]
    assert set(epochs[0]) == set(epochs[1]) == set(range(37))
    assert all(epochs[0][number] != epochs[1][number] for number in range(37))
    assert len(set(epochs[0].values())) == 37


def test_workers_with_files_of_their_own_draw_apart(files):
    first, second = (read(files, worker, 2, sharding="file", batches=2) for worker in range(2))
    drawn = [noise for share in (first, second) for batch in share for noise in batch.values()]
    assert len(set(drawn)) == len(drawn)


def test_nothing_is_random_in_evaluation(files):
    assert all(noise == 0 for batch in read(files, training=False, batches=4) for noise in batch.values())


def test_asynchronous_workers_draw_too(files):
    config = TrainingConfig(batch_size=10, shuffle_buffer=16)
    (features, _), *_ = endless_batches(files, example_parser(SPEC, "y"), config, noisy).take(1)
    assert len(np.unique(features["noise"])) == 10
