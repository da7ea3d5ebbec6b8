"""LARS against its definition in NumPy, and as the engine's optimizer."""

import numpy as np
import tensorflow as tf

from modules.training import TrainingConfig
from modules.training.lars import LARS
from modules.training.optimizer import build_optimizer


def reference(weights, gradients, rate, momentum, decay, trust):
    """Three steps by the paper, for a matrix; a vector takes plain momentum."""
    velocity = np.zeros_like(weights)
    for gradient in gradients:
        step = gradient
        if weights.ndim > 1:
            norms = np.linalg.norm(weights), np.linalg.norm(gradient)
            ratio = trust * norms[0] / (norms[1] + decay * norms[0]) if min(norms) > 0 else 1.0
            step = ratio * (gradient + decay * weights)
        velocity = momentum * velocity + rate * step
        weights = weights - velocity
    return weights


def test_steps_are_those_of_the_paper():
    generator = np.random.default_rng(5)
    starts = [generator.normal(size=shape).astype(np.float32) for shape in ((3, 4), (4,), (2, 2, 1, 3))]
    starts.append(np.zeros((2, 2), np.float32))
    variables = [tf.Variable(start) for start in starts]
    optimizer = LARS(0.5, momentum=0.9, decay=0.01, trust=0.02)
    optimizer.build(variables)
    gradients = [[generator.normal(size=start.shape).astype(np.float32) for start in starts] for _ in range(3)]
    for step in gradients:
        pairs = zip(map(tf.constant, step), variables, strict=True)
        optimizer.apply_gradients(list(pairs), skip_gradients_aggregation=True)
    for index, variable in enumerate(variables):
        expected = reference(starts[index], [step[index] for step in gradients], 0.5, 0.9, 0.01, 0.02)
        np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-4, atol=1e-6)


def test_the_engine_builds_it_with_its_schedule():
    config = TrainingConfig(optimizer="lars", learning_rate=2.0, warmup_steps=4, weight_decay=1e-4, lars_trust=0.01)
    optimizer = build_optimizer(config, num_replicas=1, total_steps=10)
    assert isinstance(optimizer, LARS)
    assert (optimizer.decay, optimizer.trust) == (1e-4, 0.01)
    assert float(optimizer.learning_rate) == 0.5
    copy = LARS.from_config(LARS(0.5, decay=0.1).get_config())
    assert (copy.momentum, copy.decay, copy.trust) == (0.9, 0.1, 0.001)
