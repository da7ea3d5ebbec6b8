"""The decoder: what may look at what, what a first loss is, and that it can learn."""

import math

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from modules.textgen.decoder import DecoderConfig, DecoderConfigError, build_decoder
from modules.textgen.model import next_token_loss
from modules.textgen.packing import NO_TARGET
from modules.training.precision import policy
from modules.training.recompute import recompute


def logits_of(model, tokens, segments=None):
    tokens = tf.constant(tokens, tf.int64)
    segments = tf.zeros_like(tokens) if segments is None else tf.constant(segments, tf.int64)
    return model({"tokens": tokens, "segments": segments})["logits"].numpy()


def test_a_later_token_never_changes_an_earlier_logit(model, decoder_config):
    tokens = np.random.default_rng(0).integers(0, decoder_config.vocab_size, (2, 20))
    before = logits_of(model, tokens)
    for place in (1, 7, 19):
        changed = tokens.copy()
        changed[:, place] = (changed[:, place] + 1) % decoder_config.vocab_size
        after = logits_of(model, changed)
        np.testing.assert_array_equal(after[:, :place], before[:, :place])
        assert not np.allclose(after[:, place:], before[:, place:])


def test_a_document_does_not_see_the_one_before_it(model, decoder_config):
    generator = np.random.default_rng(1)
    first, second = generator.integers(1, decoder_config.vocab_size, (2, 1, 8))
    segments = [[0] * 8 + [1] * 8]
    together = logits_of(model, np.concatenate([first, second], axis=1), segments)[:, 8:]
    other = logits_of(model, np.concatenate([first[:, ::-1], second], axis=1), segments)[:, 8:]
    np.testing.assert_array_equal(together, other)
    # Rotary positions are relative: the document reads the same wherever it stands.
    np.testing.assert_allclose(together, logits_of(model, second), atol=2e-3)


@pytest.mark.parametrize("kv_heads", [0, 1, 2])
def test_the_first_loss_is_that_of_guessing(kv_heads):
    keras.utils.set_random_seed(2)
    model = build_decoder(
        DecoderConfig(vocab_size=1000, width=64, num_layers=3, num_heads=4, num_kv_heads=kv_heads, context=64)
    )
    tokens = np.random.default_rng(2).integers(0, 1000, (4, 64))
    losses = next_token_loss(tf.constant(tokens), {"logits": logits_of(model, tokens)})
    assert float(tf.reduce_mean(losses)) == pytest.approx(math.log(1000), rel=0.02)


def test_it_overfits_one_batch(decoder_config):
    keras.utils.set_random_seed(3)
    model = build_decoder(decoder_config)
    tokens = tf.constant(np.random.default_rng(3).integers(0, decoder_config.vocab_size, (2, 17)))
    features = {"tokens": tokens[:, :-1], "segments": tf.zeros_like(tokens[:, :-1])}
    optimizer = keras.optimizers.Adam(0.01)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(next_token_loss(tokens[:, 1:], model(features, training=True)))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss

    losses = [float(step()) for _ in range(150)]
    assert losses[0] > 5
    assert losses[-1] < 0.05


def test_places_without_a_target_do_not_count():
    logits = tf.random.stateless_normal([2, 3, 5], [1, 2])
    targets = tf.constant([[1, 2, 3], [1, NO_TARGET, NO_TARGET]])
    losses = next_token_loss(targets, {"logits": logits})
    expected = tf.nn.sparse_softmax_cross_entropy_with_logits([1], logits[1, :1])[0] / 3
    assert float(losses[1]) == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("mixed_bfloat16", 0.02)])
def test_recomputed_blocks_give_the_same_gradients(decoder_config, precision, tolerance):
    tokens = tf.constant(np.random.default_rng(4).integers(0, decoder_config.vocab_size, (2, 16)))
    gradients = []
    for names in ([], ["block_0", "block_1"]):
        keras.utils.set_random_seed(4)
        with policy(precision):
            model = build_decoder(decoder_config)
        recompute(model, names)

        @tf.function
        def compute(model=model):
            with tf.GradientTape() as tape:
                outputs = model({"tokens": tokens, "segments": tf.zeros_like(tokens)}, training=True)
                loss = tf.reduce_mean(next_token_loss(tokens, outputs))
            return [tf.convert_to_tensor(g) for g in tape.gradient(loss, model.trainable_variables)]

        gradients.append(compute())
    for plain, again in zip(*gradients, strict=True):
        assert np.linalg.norm(plain - again) <= tolerance * np.linalg.norm(plain)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"width": 30, "num_heads": 4}, "even multiple"),
        ({"num_heads": 6, "num_kv_heads": 4, "width": 48}, "must divide"),
        ({"depth": 3}, "unknown key 'depth'; allowed: width"),
        ({"dropout": 1.5}, "dropout is 1.5"),
        ({"num_layers": 0}, "num_layers is 0"),
    ],
)
def test_sizes_that_cannot_be_are_named(settings, problem):
    with pytest.raises(DecoderConfigError, match=problem):
        DecoderConfig.from_dict(settings, 100)
