"""Distances of distributions: right on known values, quiet on chance, and what TFDV's own measure does not see."""

import math
import random

import pytest
import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0 import schema_pb2

from components.data_gate import divergence
from components.data_gate.distribution import Bucket, Distribution
from components.data_gate.statistics import statistics_of
from components.data_gate.summary import CategorySummary, ColumnSummary, summarize


def categories(**counts):
    total = sum(counts.values())
    category = CategorySummary(counts=counts, num_values=total, unique=len(counts), complete=True)
    return ColumnSummary(name="x", type="BYTES", num_present=total, num_missing=0, category=category)


def numbers(data, values):
    return summarize(statistics_of([data.to_batch({"x": values}, {})])).columns["x"]


def test_known_values():
    one, other = categories(a=500, b=500), categories(c=1000)
    assert divergence.jensen_shannon(one, other).value == pytest.approx(1.0)
    assert divergence.jensen_shannon(one, one).value == 0
    assert divergence.infinity_norm(one, categories(a=900, b=100)).value == pytest.approx(0.4)
    half_moved = divergence.jensen_shannon(categories(a=1000), one).value
    assert half_moved == pytest.approx(0.5 * (math.log2(4 / 3) + 0.5 * math.log2(2 / 3) + 0.5), rel=1e-6)


def test_the_largest_change_is_named():
    distance = divergence.infinity_norm(categories(cash=900, card=100), categories(cash=500, card=400, other=100))
    assert (distance.largest, distance.before, distance.after) == ("cash", 0.5, 0.9)


@pytest.mark.parametrize("size", [300, 3000])
def test_two_samples_of_one_source_stay_within_chance(data, size):
    source = random.Random(5)
    for _ in range(10):
        draws = [[source.choice("aabbbcdefgh") for _ in range(size)] for _ in range(2)]
        one, two = (numbers(data, draw) for draw in draws)
        for distance in (divergence.jensen_shannon(one, two), divergence.infinity_norm(one, two)):
            assert distance.value <= distance.noise


def test_deciles_see_a_change_of_unit_that_equal_widths_do_not(data, taxi):
    """TFDV's Jensen-Shannon divergence over ten equal widths misses seconds that became minutes, among outliers."""
    before = [second for second in taxi.baseline["trip_seconds"] if second is not None] + [72_000]
    after = [second // 60 for second in taxi.splits["train"]["trip_seconds"] if second is not None] + [72_000]
    schema = schema_pb2.Schema()
    feature = schema.feature.add(name="x", type=schema_pb2.INT)
    feature.drift_comparator.jensen_shannon_divergence.threshold = 0
    old, new = (statistics_of([data.to_batch({"x": values}, {})]) for values in (before, after))
    measured = tfdv.validate_statistics(new, schema, previous_statistics=old).drift_skew_info[0].drift_measurements[0]
    ours = divergence.jensen_shannon(numbers(data, after), numbers(data, before))
    assert measured.value < 0.05
    assert ours.value > 0.4


def test_zeros_are_taken_out_of_the_buckets_that_hold_them():
    distribution = Distribution.make([Bucket(0, 0, 10), Bucket(0, 2, 10), Bucket(2, 4, 10)], num_zeros=15)
    assert [bucket.count for bucket in distribution.buckets] == [5, 10]
    assert distribution.total == 30
    assert distribution.share_above(0) == pytest.approx(0.5)
    assert distribution.share_above(3) == pytest.approx(5 / 30)


def test_a_number_and_a_category_are_not_compared(data):
    assert divergence.jensen_shannon(numbers(data, [1, 2, 3]), categories(a=3)) is None
    assert divergence.infinity_norm(numbers(data, [1, 2, 3]), numbers(data, [1, 2, 3])) is None
