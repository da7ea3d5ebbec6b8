"""Token generation: the cache against none, a batch against one by one, cost by position, and KerasHub's GPT-2.

    python benchmarks/generate.py    # everything, three minutes on two quiet cores; writes build/bench/generate.json

The weights are random: speed does not depend on them. All cases of one comparison run in this process, in turns.
"""

import argparse
import concurrent.futures
import importlib.util
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from pydoc_data.topics import topics

import httpx
import numpy as np
import tensorflow as tf
import tf_keras as keras

from modules.serving.batching_file import BatchingConfig
from modules.serving.manager import LoadingConfig
from modules.serving.model_config import VersionPolicy, models_under
from modules.serving.server import ModelServer, ServerConfig
from modules.textgen.decoder import DecoderConfig, build_decoder
from modules.textgen.export import TextGenerationModule
from modules.textgen.generation import Generator, Prompts
from modules.textgen.ngram import NGramScorer, count_ngrams
from modules.textgen.sampling import Sampling
from modules.textgen.tokenizer import Tokenizer, train_tokenizer

PROMPT, NEW = 64, 448
NO_STOP = -2  # no token is this: every row runs to its end
TARGETS = {"cache": 7.0, "batching": 3.0, "flat": 0.2, "keras_hub": 1.2}


def build(width: int, num_layers: int, num_heads: int, context: int) -> tuple[Generator, DecoderConfig, Tokenizer]:
    """A decoder with random weights that never ends a document by itself."""
    tokenizer = train_tokenizer([text.encode() for text in topics.values()], 1024)
    config = DecoderConfig(
        vocab_size=tokenizer.size, width=width, num_layers=num_layers, num_heads=num_heads, context=context
    )
    keras.utils.set_random_seed(0)
    model = build_decoder(config)
    for variable in model.variables:
        if len(variable.shape) == 2:
            variable.assign(variable * 2.0)
    return Generator(model, config, tokenizer), config, tokenizer


def greedy(count: int) -> Sampling:
    zeros = tf.zeros([count])
    return Sampling(zeros, tf.zeros([count], tf.int32), tf.ones([count]), tf.zeros([count], tf.int64))


def runner(generator: Generator, count: int, use_cache: bool):
    """A compiled function (prompt tokens [count, PROMPT], number of new tokens) to tokens."""
    vocabulary = generator.config.vocab_size

    @tf.function(
        autograph=False, input_signature=[tf.TensorSpec([count, PROMPT], tf.int32), tf.TensorSpec([], tf.int32)]
    )
    def run(tokens, new):
        prompts = Prompts(tokens, tf.fill([count], PROMPT), tf.fill([count], new))
        return generator.generate(prompts, greedy(count), tf.fill([count], NO_STOP), use_cache=use_cache)["tokens"]

    def call(new: int, seed: int = 0) -> tuple[float, np.ndarray]:
        tokens = np.random.default_rng(seed).integers(1, vocabulary, (count, PROMPT)).astype(np.int32)
        start = time.perf_counter()
        answer = run(tf.constant(tokens), tf.constant(new)).numpy()
        return time.perf_counter() - start, answer

    return call


def bench_cache(generator: Generator) -> dict:
    """PROMPT + NEW tokens with the cache and without it: seconds, their ratio, and whether the tokens are the same."""
    cached, plain = runner(generator, 1, True), runner(generator, 1, False)
    cached(2), plain(2)
    (first, ours), (second, _) = cached(NEW), cached(NEW)
    without, tokens = plain(NEW)
    seconds = [first, second]
    same = bool((tokens == ours).all())
    return {
        "with_cache_s": round(statistics.median(seconds), 2),
        "without_cache_s": round(without, 2),
        "ratio": round(without / statistics.median(seconds), 2),
        "tokens": int(ours.shape[1]),
        "identical_tokens": same,
    }


def bench_flat(generator: Generator) -> dict:
    """Milliseconds a token at the beginning, in the middle and at the end of one cache."""
    batch = 1
    slots = tf.constant(PROMPT + NEW)

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([], tf.int32)] * 2)
    def decode(first, count):
        _, memory = generator.prefill(tf.ones([batch, PROMPT], tf.int32), tf.fill([batch], PROMPT), slots)

        def body(number, token, memory):
            logits, memory = generator.decode(token, token, tf.fill([batch], first + number), memory, in_place=True)
            return number + 1, tf.argmax(logits, axis=1, output_type=tf.int32), memory

        return tf.while_loop(
            lambda number, *_: number < count,
            body,
            (tf.constant(0), tf.ones([batch], tf.int32), memory),
            parallel_iterations=1,
        )[1]

    def per_token(first: int) -> float:
        times = {}
        for count in (16, 112):
            start = time.perf_counter()
            decode(tf.constant(first), tf.constant(count)).numpy()
            times[count] = time.perf_counter() - start
        return (times[112] - times[16]) / 96 * 1000

    per_token(PROMPT)
    places = (PROMPT, PROMPT + NEW // 2 - 56, PROMPT + NEW - 112)
    rounds = [[per_token(place) for place in places] for _ in range(5)]
    medians = [statistics.median(column) for column in zip(*rounds, strict=True)]
    return {
        "positions": list(places),
        "ms_per_token": [round(value, 2) for value in medians],
        "spread": round(max(medians) / min(medians) - 1, 3),
    }


def bench_batching(generator: Generator, config: DecoderConfig, tokenizer: Tokenizer) -> dict:
    """Eight prompts through the development server: one after the other, and at the same time with dynamic batching."""
    module = TextGenerationModule(generator._model, config, tokenizer, NGramScorer(count_ngrams([b"text"])))
    settings = {"max_new": 128, "temperature": 0.0, "top_k": 0, "top_p": 1.0, "seed": 0, "stop": ""}
    names = sorted(topics)[:8]
    rows = [{"prompt": topics[name][:200], **settings} for name in names]
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module.trackable, f"{folder}/textgen/1", signatures=module.signatures())
        batching = BatchingConfig(max_batch_size=8, batch_timeout_micros=20_000, num_batch_threads=1)
        server_config = ServerConfig(
            rest_port=0, grpc_port=0, request_seconds=300, loading=LoadingConfig(batching=batching)
        )
        base = f"{folder}/textgen"
        with ModelServer(models_under(base, "textgen", VersionPolicy.parse("latest")), server_config, [base]) as server:
            # One connection pool for all: making a client costs more than a short answer.
            client = httpx.Client(base_url=server.rest_url, timeout=300)

            def ask(row: dict) -> str:
                body = {"signature_name": "generate", "instances": [row]}
                return client.post("/v1/models/textgen:predict", json=body).json()["predictions"][0]["text"]

            def one_by_one() -> tuple[float, list[str]]:
                start = time.perf_counter()
                answers = [ask(row) for row in rows]
                return time.perf_counter() - start, answers

            def together() -> tuple[float, list[str]]:
                with concurrent.futures.ThreadPoolExecutor(8) as pool:
                    start = time.perf_counter()
                    answers = list(pool.map(ask, rows))
                    return time.perf_counter() - start, answers

            one_by_one(), together()
            single, batched = zip(*[(one_by_one(), together()) for _ in range(3)], strict=True)
            client.close()
    single_s, batched_s = (statistics.median(seconds for seconds, _ in runs) for runs in (single, batched))
    return {
        "prompts": 8,
        "new_tokens_each": settings["max_new"],
        "one_by_one_s": round(single_s, 2),
        "batched_s": round(batched_s, 2),
        "ratio": round(single_s / batched_s, 2),
        "identical_texts": single[0][1] == batched[0][1],
    }


def bench_keras_hub(generator: Generator) -> dict:
    """KerasHub's GPT-2 of the same width, depth, heads and vocabulary, its `generate` in turns with ours."""
    if importlib.util.find_spec("keras_hub") is None:
        return {"not_measured": "keras-hub is not installed: install the packages of requirements/dev.lock"}
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras_hub

    config = generator.config
    backbone = keras_hub.models.GPT2Backbone(
        vocabulary_size=config.vocab_size,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        hidden_dim=config.width,
        intermediate_dim=config.feed_forward,
        max_sequence_length=PROMPT + NEW,
        dropout=0.0,
    )
    theirs = keras_hub.models.GPT2CausalLM(backbone=backbone, preprocessor=None)
    theirs.compile(sampler="greedy")
    row = np.arange(PROMPT + NEW)[np.newaxis]
    inputs = {"token_ids": np.ones(row.shape, np.int32), "padding_mask": (row < PROMPT).astype(np.int32)}
    ours = runner(generator, 1, True)

    def their_seconds() -> float:
        start = time.perf_counter()
        np.asarray(theirs.generate(inputs, stop_token_ids=None)["token_ids"])
        return time.perf_counter() - start

    ours(NEW), their_seconds()
    rounds = [(ours(NEW)[0], their_seconds()) for _ in range(3)]
    mine, other = (statistics.median(column) for column in zip(*rounds, strict=True))
    return {
        "version": keras_hub.__version__,
        "jit_compile": bool(getattr(theirs, "jit_compile", False)),
        "parameters": {"ours": generator._model.count_params(), "theirs": backbone.count_params()},
        "ours_s": round(mine, 2),
        "keras_hub_s": round(other, 2),
        "ratio": round(other / mine, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--only", choices=("cache", "flat", "batching", "keras_hub"), help="one part")
    parser.add_argument("--output", default="build/bench/generate.json")
    args = parser.parse_args()
    generator, config, tokenizer = build(args.width, args.layers, args.heads, PROMPT + NEW)
    parts = {
        "cache": lambda: bench_cache(generator),
        "flat": lambda: bench_flat(generator),
        "batching": lambda: bench_batching(generator, config, tokenizer),
        "keras_hub": lambda: bench_keras_hub(generator),
    }
    path = pathlib.Path(args.output)
    results = json.loads(path.read_text()) if path.is_file() and args.only else {}
    results |= {"model": vars(config) | {"parameters": generator._model.count_params()}, "targets": TARGETS}
    results["machine"] = {"cores": os.cpu_count(), "load_before": round(os.getloadavg()[0], 2)}
    for name, run in parts.items():
        if args.only in (None, name):
            results[name] = run()
            print(f"{name}: {results[name]}", flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1), encoding="utf-8")
    print(f"written: {path}")


if __name__ == "__main__":
    main()
