"""Generation: with the cache as without it, alone as in company, and at the edges."""

import copy

import numpy as np
import pytest
import tensorflow as tf

from modules.textgen.sampling import Sampling, uniform
from modules.textgen.tokenizer import END, FIRST_BYTE

PROMPTS = [b"The import statement", b"", b"\xff\xfe\x00 bytes", b"word " * 200, "h\u00e9llo w\u00f6rld".encode()]
MAX_NEW = [20, 7, 1, 30, 12]


def sampling(count, temperature=0.0, top_k=0, top_p=1.0, seeds=None):
    return Sampling(
        temperature=tf.fill([count], float(temperature)),
        top_k=tf.fill([count], top_k),
        top_p=tf.fill([count], float(top_p)),
        seed=tf.constant(list(range(count)) if seeds is None else seeds, tf.int64),
    )


@pytest.fixture(scope="module")
def generate(generator):
    row = {"shape": [None], "dtype": tf.float32}
    whole = {"shape": [None], "dtype": tf.int32}

    @tf.function(
        autograph=False,
        input_signature=[
            tf.TensorSpec([None], tf.string),
            tf.TensorSpec(**whole),
            tf.TensorSpec(**row),
            tf.TensorSpec(**whole),
            tf.TensorSpec(**row),
            tf.TensorSpec([None], tf.int64),
            tf.TensorSpec(**whole),
            tf.TensorSpec([], tf.bool),
        ],
    )
    def compiled(texts, max_new, temperature, top_k, top_p, seed, stop, use_cache):
        settings = Sampling(temperature, top_k, top_p, seed)

        def run(cached):
            answer = generator.generate(generator.prompts(texts, max_new), settings, stop, use_cache=cached)
            return [answer[name] for name in ("tokens", "num_tokens", "finished", "text")]

        return tf.cond(use_cache, lambda: run(True), lambda: run(False))

    def call(texts, max_new, settings, stop=None, use_cache=True):
        stop = [-1] * len(texts) if stop is None else stop
        tokens, counts, finished, answers = compiled(
            tf.constant(texts, tf.string),
            tf.constant(max_new, tf.int32),
            settings.temperature,
            settings.top_k,
            settings.top_p,
            settings.seed,
            tf.constant(stop, tf.int32),
            tf.constant(use_cache),
        )
        rows = [[int(token) for token in row if token >= 0] for row in tokens.numpy()]
        assert [len(row) for row in rows] == counts.numpy().tolist()
        return rows, finished.numpy().tolist(), answers.numpy().tolist()

    return call


@pytest.mark.parametrize("settings", [{}, {"temperature": 1.0}, {"temperature": 0.8, "top_k": 20, "top_p": 0.9}])
def test_the_cache_changes_no_token(generate, settings):
    chosen = sampling(len(PROMPTS), **settings)
    cached, plain = (generate(PROMPTS, MAX_NEW, chosen, use_cache=use_cache) for use_cache in (True, False))
    assert cached == plain
    assert [len(row) for row in cached[0]] == MAX_NEW or any(cached[1])
    assert len({tuple(row) for row in cached[0]}) == len(PROMPTS)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_is_the_same_alone_as_in_company(generate, temperature):
    together, *_ = generate(PROMPTS, MAX_NEW, sampling(len(PROMPTS), temperature))
    for number, (prompt, max_new) in enumerate(zip(PROMPTS, MAX_NEW, strict=True)):
        alone, *_ = generate([prompt], [max_new], sampling(1, temperature, seeds=[number]))
        assert alone == [together[number]]


def test_a_prompt_that_is_too_long_keeps_its_end(generate, generator, decoder_config):
    long, short = b"first " * 100 + b"and then the last words of it", b""
    prompts = generator.prompts(tf.constant([long, short]), tf.constant([10, 500]))
    assert prompts.lengths.numpy().tolist() == [decoder_config.context - 10, 1]
    assert prompts.max_new.numpy().tolist() == [10, decoder_config.context - 1]
    kept = prompts.tokens[0, : decoder_config.context - 10]
    assert long.endswith(generator.tokenizer.decode(kept[tf.newaxis]).numpy()[0])
    rows, finished, _ = generate([long, short], [10, 500], sampling(2))
    assert len(rows[0]) == 10 or finished[0]
    assert len(rows[1]) == decoder_config.context - 1 or finished[1]


def test_nothing_is_asked_for(generate):
    rows, finished, texts = generate([b"abc", b"abc"], [0, 3], sampling(2))
    assert rows[0] == []
    assert len(rows[1]) == 3
    assert texts[0] == b""
    assert finished == [False, False]
    assert generate([b"abc"], [0], sampling(1))[0] == [[]]
    # The one that wants nothing fills the cache.
    alone, *_ = generate([b"a"], [5], sampling(1))
    assert generate([b"word " * 30, b"a"], [0, 5], sampling(2))[0] == [[], *alone]
    assert generate([b"abc"], [-5], sampling(1))[0] == [[]]


def test_a_stop_token_ends_its_row_alone(generate):
    free, *_ = generate([b"The import"] * 2, [20, 20], sampling(2))
    stop = free[0][6]
    before = free[0].index(stop)
    rows, finished, texts = generate([b"The import"] * 2, [20, 20], sampling(2), stop=[stop, -1])
    assert rows == [free[0][:before], free[1]]
    assert finished == [True, False]
    assert len(texts[0]) < len(texts[1])


def test_the_end_of_a_document_ends_a_row(generator, decoder_config):
    """Of a model that is sure of nothing but the end."""
    ending = copy.copy(generator)
    bonus = tf.one_hot(END, decoder_config.vocab_size) * 1e6
    ending._head = lambda hidden: generator._head(hidden) + bonus
    prompts = ending.prompts(tf.constant([b"any text"]), tf.constant([10]))
    answer = ending.generate(prompts, sampling(1), tf.constant([-1]))
    assert answer["num_tokens"].numpy().tolist() == [0]
    assert answer["finished"].numpy().tolist() == [True]
    assert answer["text"].numpy().tolist() == [b""]


def test_bytes_that_are_no_text_come_out_as_such(generator):
    answer = generator._answer(tf.constant([[FIRST_BYTE + 0xFF], [FIRST_BYTE + ord("a")]]), tf.constant([False]))
    assert answer["text"].numpy()[0].decode() == "\ufffda"


def test_draws_follow_the_probabilities():
    logits = tf.math.log(tf.constant([[0.5, 0.3, 0.15, 0.05]]))
    seeds = tf.range(20_000, dtype=tf.int64)

    def shares(**settings):
        chosen = sampling(20_000, seeds=seeds, **settings).choose(tf.repeat(logits, 20_000, axis=0), tf.constant(3))
        return np.bincount(chosen, minlength=4) / 20_000

    np.testing.assert_allclose(shares(temperature=1.0), [0.5, 0.3, 0.15, 0.05], atol=0.012)
    np.testing.assert_allclose(shares(temperature=1.0, top_k=2), [0.625, 0.375, 0, 0], atol=0.012)
    np.testing.assert_allclose(shares(temperature=1.0, top_p=0.6), [0.625, 0.375, 0, 0], atol=0.012)
    np.testing.assert_allclose(shares(temperature=1.0, top_p=0.01), [1, 0, 0, 0])
    np.testing.assert_allclose(shares(temperature=0.0), [1, 0, 0, 0])
    np.testing.assert_allclose(shares(temperature=0.5), np.square([0.5, 0.3, 0.15, 0.05]) / 0.365, atol=0.012)


def test_uniform_numbers_are_uniform_and_differ_by_seed_and_step():
    seeds = tf.constant(np.arange(-5_000, 5_000), tf.int64)
    first, second = uniform(seeds, tf.constant(0)).numpy(), uniform(seeds, tf.constant(1)).numpy()
    for values in (first, second):
        assert 0 <= values.min() <= values.max() < 1
        assert np.histogram(values, bins=10, range=(0, 1))[0] == pytest.approx(1000, abs=150)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.05
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 0.05
