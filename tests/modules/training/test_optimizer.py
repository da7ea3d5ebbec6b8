"""The optimizer's own arithmetic, against the same written out in numpy."""

import numpy as np
import pytest
import tensorflow as tf

from modules.training.config import TrainingConfig
from modules.training.optimizer import WarmupSchedule, build_optimizer


def test_lars_scales_kernels_by_their_norm_and_leaves_vectors_alone():
    config = TrainingConfig(optimizer="lars", learning_rate=2.0, weight_decay=0.1, lars_trust=0.01)
    optimizer = build_optimizer(config, 1, 10)
    generator = np.random.default_rng(0)
    kernel, bias = generator.standard_normal((3, 4)), generator.standard_normal(4)
    variables = [tf.Variable(kernel, dtype=tf.float32), tf.Variable(bias, dtype=tf.float32)]
    optimizer.build(variables)
    velocities = [np.zeros((3, 4)), np.zeros(4)]
    for _ in range(3):
        slopes = [generator.standard_normal((3, 4)), generator.standard_normal(4)]
        optimizer.apply_gradients(
            [(tf.constant(g, tf.float32), v) for g, v in zip(slopes, variables, strict=True)],
        )
        norm = np.linalg.norm(kernel)
        ratio = 0.01 * norm / (np.linalg.norm(slopes[0]) + 0.1 * norm)
        velocities[0] = 0.9 * velocities[0] + 2.0 * ratio * (slopes[0] + 0.1 * kernel)
        velocities[1] = 0.9 * velocities[1] + 2.0 * slopes[1]
        kernel, bias = kernel - velocities[0], bias - velocities[1]
    np.testing.assert_allclose(variables[0], kernel, atol=1e-5)
    np.testing.assert_allclose(variables[1], bias, atol=1e-5)


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
