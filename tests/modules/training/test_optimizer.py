"""The learning rate over a training and over the size of a cluster. The optimizer of our own: test_lars.py."""

import pytest
import tensorflow as tf

from modules.training.config import TrainingConfig
from modules.training.optimizer import WarmupSchedule, build_optimizer


@pytest.mark.parametrize(
    ("shape", "step", "expected"),
    [
        ("constant", 0, 0.1),
        ("constant", 9, 1.0),
        ("constant", 99, 1.0),
        ("cosine", 4, 0.5),
        ("cosine", 55, 0.5),
        ("cosine", 100, 0.0),
        ("linear", 55, 0.5),
        ("linear", 500, 0.0),
    ],
)
def test_warm_up_and_decay(shape, step, expected):
    schedule = WarmupSchedule(1.0, warmup_steps=10, total_steps=100, shape=shape)
    assert float(schedule(tf.constant(step))) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("scaling", "expected"), [("none", 0.1), ("linear", 0.8), ("sqrt", 0.1 * 8**0.5)])
def test_the_learning_rate_follows_the_global_batch(scaling, expected):
    config = TrainingConfig(optimizer="sgd", batch_size=64, learning_rate=0.1, lr_scaling=scaling)
    rate = build_optimizer(config, num_replicas=8, total_steps=10).learning_rate
    assert float(rate) == pytest.approx(expected, rel=1e-6)
