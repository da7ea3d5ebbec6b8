"""Several worker processes compute what one process computes on the same global batches.

200 examples in global batches of 48 leave a tail of 8, which three workers cannot share evenly.
"""

import json

import numpy as np
import pytest
import tensorflow as tf

STEPS = 10  # two epochs, with two tails


def scenario(model="plain", steps=STEPS, **config):
    return {
        "model": model,
        "steps": steps,
        "config": {"optimizer": "sgd", "learning_rate": 0.1, "sharding": "data", **config},
    }


SCENARIOS = {
    "sgd": scenario(),
    "adam": scenario(optimizer="adam", learning_rate=0.01),
    "adamw": scenario(optimizer="adamw", learning_rate=0.01, weight_decay=0.1),
    "lars": scenario(optimizer="lars", learning_rate=0.5, weight_decay=0.01, lars_trust=0.1),
    "clipped": scenario(clip_norm=0.05),
    "accumulated": scenario(accumulate=4),
    "class_weights": scenario(class_weights=[[0, 1.0], [1, 5.0], [2, 0.2]]),
    "batch_norm": scenario(model="batch_norm"),
    "everything": scenario(
        optimizer="adamw", learning_rate=0.01, weight_decay=0.1, clip_norm=0.05, accumulate=2, class_weights=[[1, 5.0]]
    ),
    "bfloat16": scenario(precision="mixed_bfloat16"),
    "float16": scenario(precision="mixed_float16"),
    "compressed": scenario(compress="bfloat16"),
    "by_file": scenario(sharding="file"),
}
TWO_WORKERS = [*SCENARIOS]
THREE_WORKERS = ["sgd", "adam", "everything"]
MIRRORED = ["everything", "float16"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data in four shards, the scenarios' settings, and the weights as the programs write them."""
    root = tmp_path_factory.mktemp("exact")
    generator = np.random.default_rng(3)
    for shard in range(4):
        with tf.io.TFRecordWriter(str(root / f"data-{shard}.tfrecord")) as writer:
            for _ in range(50):
                x = generator.standard_normal(8)
                y = int(np.argmax([x[0] + x[1], x[2] * x[3], 0.3]))
                feature = {
                    "x": tf.train.Feature(float_list=tf.train.FloatList(value=x)),
                    "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[y])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    (root / "scenarios.json").write_text(json.dumps(SCENARIOS))
    return root


@pytest.fixture(scope="module")
def trained(gang, folder):
    """`trained(name, num_workers, order)` gives the weights; every cluster trains all of its scenarios at once."""
    runs = {}

    def start(num_workers, order=None):
        names = {1: TWO_WORKERS, 2: TWO_WORKERS, 3: THREE_WORKERS, "mirrored": MIRRORED}[num_workers]
        processes = 1 if num_workers == "mirrored" else num_workers
        with gang("exact", [str(folder), str(num_workers), *names], processes, order) as workers:
            assert workers.wait() == [0] * processes, workers.logs()
        return {name: dict(np.load(folder / str(num_workers) / f"{name}.npz")) for name in names}

    def weights(name, num_workers, order=None):
        if num_workers not in runs:
            runs[num_workers] = start(num_workers, order)
        return runs[num_workers][name]

    return weights


def largest_difference(one, other):
    assert one.keys() == other.keys()
    return max(float(np.max(np.abs(one[key] - other[key]))) for key in one)


EXACT = ["sgd", "adam", "adamw", "lars", "clipped", "accumulated", "class_weights", "batch_norm"]
EXACT += ["everything"]


@pytest.mark.parametrize("name", EXACT)
def test_two_workers_equal_one_process(trained, name):
    assert largest_difference(trained(name, 2), trained(name, 1)) < 1e-5


@pytest.mark.parametrize("name", THREE_WORKERS)
def test_three_workers_started_in_another_order_equal_one_process(trained, name):
    assert largest_difference(trained(name, 3, order=[2, 0, 1]), trained(name, 1)) < 1e-5


def test_two_devices_of_one_process_equal_one(trained):
    assert largest_difference(trained("everything", "mirrored"), trained("everything", 1)) < 1e-5
    assert largest_difference(trained("float16", "mirrored"), trained("sgd", 1)) < 0.003


def test_accumulation_equals_the_whole_batch(trained):
    assert largest_difference(trained("accumulated", 1), trained("sgd", 1)) < 1e-5


@pytest.mark.parametrize(("name", "bound"), [("bfloat16", 0.02), ("float16", 0.003), ("compressed", 0.01)])
@pytest.mark.parametrize("num_workers", [1, 2])
def test_fewer_bits_stay_within_their_bounds(trained, name, num_workers, bound):
    assert 0 < largest_difference(trained(name, num_workers), trained("sgd", 1)) < bound or (
        name == "compressed" and num_workers == 1  # one process sends nothing
    )


def test_settings_make_a_difference(trained):
    """Guards the comparisons above against settings that do nothing at all."""
    for name in ["adam", "lars", "clipped", "class_weights"]:
        assert largest_difference(trained(name, 1), trained("sgd", 1)) > 0.01
