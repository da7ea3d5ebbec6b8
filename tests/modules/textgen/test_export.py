"""What the SavedModel answers, in this process and through the development server, alone and in batches."""

import concurrent.futures
import json

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from modules.serving import example_rows, predictor
from modules.serving.batching_file import BatchingConfig
from modules.serving.client import PredictionClient
from modules.serving.manager import LoadingConfig
from modules.serving.model_config import VersionPolicy, models_under
from modules.serving.saved_model import LoadedModel
from modules.serving.server import ModelServer, ServerConfig
from modules.serving.status import ServingError
from pipeline import cli

PROMPTS = [("The import statement", 20), ("", 5), ("word " * 200, 9), ("h\u00e9llo", 1)]


def row(prompt, **changes):
    settings = {"max_new": 8, "temperature": 0.0, "top_k": 0, "top_p": 1.0, "seed": 0, "stop": ""}
    return {"prompt": prompt, **settings, **changes}


@pytest.fixture(scope="module")
def loaded(saved_model):
    with LoadedModel(str(saved_model)) as model:
        yield model


def rows_of(loaded, rows, name="generate"):
    """One answer for each row; the model stays loaded."""
    signature = loaded.signature(name)
    stacked = {key: np.array([item[key] for item in rows], dtype=object) for key in rows[0]}
    kinds = {
        key: object if spec.dtype == tf.string else spec.dtype.as_numpy_dtype for key, spec in signature.inputs.items()
    }
    outputs = loaded.run(signature, {key: values.astype(kinds[key]) for key, values in stacked.items()})
    return [{key: predictor.plain(values[number]) for key, values in outputs.items()} for number in range(len(rows))]


def examples_of(loaded, rows, name):
    """The same from rows that become tf.Examples."""
    examples = example_rows.encode_rows(rows, example_rows.parsed_features(loaded.meta_graph))
    return rows_of(loaded, [{"examples": example} for example in examples], name)


def ask(loaded, name, **inputs):
    return loaded.run(loaded.signature(name), {key: np.asarray(value) for key, value in inputs.items()})


def test_the_graph_holds_nothing_that_a_server_lacks(saved_model):
    content = saved_model_pb2.SavedModel.FromString((saved_model / "saved_model.pb").read_bytes())
    graph = content.meta_graphs[0].graph_def
    ops = {node.op for node in graph.node} | {node.op for f in graph.library.function for node in f.node_def}
    assert not {op for op in ops if op.startswith("Xla") or "HashTable" in op or op in ("PyFunc", "EagerPyFunc")}
    known = set(tf.raw_ops.__dict__)
    assert ops - {"_Arg", "_Retval"} <= known


def test_examples_take_defaults(loaded):
    rows = [
        {"text": "The import", "max_new": 8},
        {"text": "The import", "max_new": 8, "temperature": 0.9, "seed": 4},
        {"text": "x"},
    ]
    answers = examples_of(loaded, rows, "serving_default")
    plain = rows_of(loaded, [row("The import"), row("The import", temperature=0.9, seed=4)])
    assert [answer["text"] for answer in answers[:2]] == [answer["text"] for answer in plain]
    assert answers[0]["text"] != answers[1]["text"]
    assert answers[2]["num_tokens"] > 8


def test_single_steps_generate_what_the_loop_does(loaded, decoder_config):
    prompts = np.array([b"The import statement", b"", b"word " * 100], dtype=object)
    state = ask(loaded, "prefill", prompt=prompts)
    assert state["keys"].shape == (3, decoder_config.num_layers, 2, decoder_config.context, decoder_config.head_size)
    previous, chosen = state["token"], []
    for _ in range(6):
        token = state["logits"].argmax(axis=1).astype(np.int32)
        chosen.append(token)
        state = ask(
            loaded,
            "decode",
            token=token,
            previous=previous,
            length=np.minimum(state["length"], decoder_config.context - 1),
            keys=state["keys"],
            values=state["values"],
        )
        previous = token
    rows = [row(prompt, max_new=6) for prompt in prompts[:2]]
    answers = rows_of(loaded, rows)
    for number, answer in enumerate(answers):
        expected = [int(step[number]) for step in chosen]
        assert [token for token in answer["tokens"] if token >= 0] == expected[: answer["num_tokens"]]


def test_a_full_cache_is_an_error(loaded, decoder_config):
    state = ask(loaded, "prefill", prompt=np.array([b"a"], dtype=object))
    with pytest.raises(ServingError, match="the cache is full: the context is 48 tokens"):
        ask(
            loaded,
            "decode",
            token=np.array([1], np.int32),
            previous=np.array([1], np.int32),
            length=np.array([decoder_config.context], np.int32),
            keys=state["keys"],
            values=state["values"],
        )


def test_a_step_leaves_the_clients_cache_alone(loaded):
    """The loop writes into its cache; `decode` must not, because a session may read its inputs where they lie."""
    state = ask(loaded, "prefill", prompt=np.array([b"The import"], dtype=object))
    token = state["logits"].argmax(axis=1).astype(np.int32)
    before = {name: state[name].copy() for name in ("keys", "values")}
    inputs = {"token": token, "previous": state["token"], "length": state["length"]}
    first, second = (ask(loaded, "decode", **inputs, keys=state["keys"], values=state["values"]) for _ in range(2))
    np.testing.assert_array_equal(first["logits"], second["logits"])
    for name, values in before.items():
        np.testing.assert_array_equal(state[name], values)
        assert (first[name] != values).any()


def test_scores_of_windows_add_up(module, loaded, model, tokenizer):
    """A short document is scored in one piece; a long one costs about what its halves do."""
    text = b"The import statement is used"
    tokens = tokenizer.encode(tf.constant([text])).to_list()[0]
    logits = model({"tokens": tf.constant([[0, *tokens]]), "segments": tf.zeros([1, len(tokens) + 1], tf.int64)})
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits([[*tokens, 0]], logits["logits"])
    example = {"text": text}
    long = {"text": b"If the object is a string, it is printed. " * 30}
    answers = examples_of(loaded, [example, long, example], "score")
    assert answers[0]["score"][0] == pytest.approx(float(tf.reduce_sum(losses)), rel=1e-4)
    assert answers[0]["score"][2] == len(tokens) + 1
    assert answers[0] == answers[2]
    alone = examples_of(loaded, [long], "score")[0]
    assert alone["score"] == pytest.approx(answers[1]["score"], rel=1e-4)
    assert alone["num_bytes"] == len(long["text"])
    assert alone["bits_per_byte"] == pytest.approx(alone["score"][0] / np.log(2) / len(long["text"]), rel=1e-4)


def test_the_baseline_knows_its_own_text(loaded, texts):
    own, strange = examples_of(loaded, [{"text": texts[0][:400]}, {"text": "zqj xv kpf " * 36}], "score")
    assert own["score"][1] < strange["score"][1] / 2


def test_a_stop_of_several_tokens_is_refused_and_spares_the_others(saved_model, loaded):
    config = ServerConfig(
        rest_port=0,
        grpc_port=0,
        loading=LoadingConfig(
            batching=BatchingConfig(max_batch_size=8, batch_timeout_micros=50_000, num_batch_threads=1)
        ),
    )
    base = str(saved_model.parent)
    alone = [rows_of(loaded, [row(p, max_new=n)])[0]["text"] for p, n in PROMPTS]
    with ModelServer(models_under(base, "textgen", VersionPolicy.parse("latest")), config, [base]) as server:

        def request(prompt, max_new, stop=""):
            with PredictionClient(server.rest_url, "textgen") as client:
                return client.predict_rows([row(prompt, max_new=max_new, stop=stop)], "generate")[0]["text"]

        with concurrent.futures.ThreadPoolExecutor(len(PROMPTS) + 1) as pool:
            bad = pool.submit(request, "anything", 3, "several tokens, not one")
            answers = list(pool.map(lambda item: request(*item), PROMPTS))
            with pytest.raises(predictor.BadRowError, match="stop must be the text of one token"):
                bad.result()
    assert answers == alone


def test_the_command(saved_model, capsys):
    base = str(saved_model.parent)
    arguments = ["generate", "--base", base, "--prompt", "The import", "--prompt", "", "--max-new", "5", "--json"]
    assert cli.main(arguments) == 0
    generated = json.loads(capsys.readouterr().out.splitlines()[-1])["generated"]
    assert [item["prompt"] for item in generated] == ["The import", ""]
    assert all(len(item["tokens"]) == item["num_tokens"] <= 5 for item in generated)
    assert cli.main(["generate", "--base", base, "--prompt", "The import", "--max-new", "5"]) == 0
    assert capsys.readouterr().out == f"The import{generated[0]['text']}\n"


@pytest.mark.parametrize(
    ("arguments", "problem", "code"),
    [
        ([], "say what to continue: --prompt TEXT", 2),
        (["--prompt", "a", "--top-p", "0"], "--top-p is 0.0; expected more than 0 and at most 1", 2),
        (["--prompt", "a", "--top-p", "1.5"], "--top-p is 1.5; expected more than 0", 2),
        (["--prompt", "a", "--temperature", "-1"], "--temperature is -1.0; expected 0 or more", 2),
        (["--prompt", "a", "--temperature", "nan"], "--temperature is nan; expected 0 or more", 2),
        (["--prompt", "a", "--max-new", "-1"], "--max-new is -1; expected 0 to", 2),
        (["--prompt", "a", "--max-new", "99999999999"], "--max-new is 99999999999; expected", 2),
        (["--prompt", "a", "--seed", str(2**63)], "expected a whole number of 64 bits", 2),
        (["--prompt", "a", "--stop", "several tokens"], "stop must be the text of one token", 3),
        (["--prompt", "a", "--label", "stable"], "give --server", 2),
        (["--prompt", "a", "--version", "7"], "holds no version 7", 2),
    ],
)
def test_the_commands_errors(saved_model, capsys, arguments, problem, code):
    assert cli.main(["generate", "--base", str(saved_model.parent), *arguments]) == code
    assert problem in capsys.readouterr().err


def test_bytes_in_a_prompt_reach_the_model(saved_model):
    """Also a zero byte at the end, which NumPy's own strings would lose."""
    odd, plain = predictor.predict_rows(str(saved_model), [row(b"\xff\x00"), row(b"\xff")], "generate")
    assert odd["tokens"] != plain["tokens"]
