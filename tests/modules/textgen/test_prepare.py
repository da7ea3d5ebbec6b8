"""From documents to sequences: packed without loss, with the tokenizer and the baseline beside them."""

import json
import math
import pathlib
import types

import numpy as np
import pytest
import tensorflow as tf

from modules.textgen import documents, packing
from modules.textgen.errors import TextDataError, TextSettingsError
from modules.textgen.metrics import BaselineBitsPerByte, BitsPerByte, BitsPerByteSaved, Perplexity
from modules.textgen.near_duplicates import near_duplicates
from modules.textgen.ngram import NGramScorer, count_ngrams
from modules.textgen.prepare import encode_all, prepare_fn, read_ngrams
from modules.textgen.tokenizer import END, Tokenizer


def write_documents(path, texts):
    with tf.io.TFRecordWriter(str(path), tf.io.TFRecordOptions(compression_type="GZIP")) as writer:
        for text in texts:
            feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[text]))
            writer.write(tf.train.Example(features=tf.train.Features(feature={"text": feature})).SerializeToString())
    return str(path)


def prepare_args(folder, train, evaluation, **settings):
    outputs = {split: folder / f"Split-{split}" for split in ("train", "eval")}
    for output in (*outputs.values(), folder / "assets"):
        output.mkdir()
    return types.SimpleNamespace(
        examples={
            "train": (write_documents(folder / "train.gz", train),),
            "eval": (write_documents(folder / "eval.gz", evaluation),),
        },
        schema_path=None,
        output_dirs={split: str(output) for split, output in outputs.items()},
        assets_dir=str(folder / "assets"),
        settings={"vocab_size": 300, "context": 16, **settings},
    )


def sequences(folder):
    found = []
    for record in tf.data.TFRecordDataset(sorted(map(str, pathlib.Path(folder).iterdir())), "GZIP"):
        features = tf.train.Example.FromString(record.numpy()).features.feature
        found.append({name: list(features[name].int64_list.value) for name in ("tokens", "targets", "segments")})
    return found


def test_documents_come_out_of_the_sequences_whole(tmp_path, texts):
    args = prepare_args(tmp_path, texts[:12], texts[12:14], max_near_duplicates=1.0)
    prepare_fn(args)
    tokenizer = Tokenizer.from_json((tmp_path / "assets" / "tokenizer.json").read_text())
    report = json.loads((tmp_path / "assets" / "report.json").read_text())
    found = sequences(args.output_dirs["train"])
    assert tokenizer.size == report["vocab_size"] == 300
    assert len(found) == report["splits"]["train"]["sequences"]
    assert report["splits"]["train"]["documents"] == 12
    assert all(len(values) == 16 for sequence in found for values in sequence.values())
    kept = read_ngrams(str(tmp_path / "assets" / "ngrams.npz"))
    for mine, theirs in zip(kept.keys, count_ngrams(texts[:12]).keys, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_the_stream_keeps_boundaries():
    found = list(packing.pack([np.array([5, 6, 7]), np.array([], int), np.array([8])], 4))
    assert [sequence["tokens"].tolist() for sequence in found] == [[0, 5, 6, 7], [0, 0, 8, 0]]
    assert [sequence["targets"].tolist() for sequence in found] == [[5, 6, 7, 0], [0, 8, 0, -1]]
    assert [sequence["segments"].tolist() for sequence in found] == [[0, 0, 0, 0], [1, 2, 2, 3]]


def test_documents_larger_than_a_batch_are_encoded_too(tokenizer, texts):
    expected = tokenizer.encode(tf.constant(texts[:5])).to_list()
    assert [part.tolist() for part in encode_all(tokenizer, texts[:5], num_bytes=100)] == expected


def test_a_near_duplicate_across_splits_stops_the_run(tmp_path, texts):
    words = texts[3].split()
    changed = b" ".join([b"otherwise", *words[: len(words) * 3 // 4], b"and", b"then", b"some"])
    with pytest.raises(
        TextDataError, match=r"1 of 2 documents of the split 'eval' are near duplicates .*'otherwise"
    ) as error:
        prepare_fn(prepare_args(tmp_path, texts[:8], [changed, b"nothing like the others in here at all, not a word"]))
    assert error.value.exit_code == 3


def test_near_duplicates_are_found_and_others_are_not():
    base = b" ".join(str(number).encode() for number in range(400))
    half = base[: len(base) * 2 // 3] + b" and then it goes on as nothing before it did " * 2
    found = near_duplicates([base, half, b"short text", b"1 2 3"], [b"x y z", base, b"short text"], 0.5)
    assert [(item.document, item.other) for item in found] == [(0, 1), (1, 1), (2, 2)]
    assert found[0].overlap == 1
    assert near_duplicates([half], [base], 0.99) == []


def test_the_default_documents(tmp_path):
    documents.write(str(tmp_path))
    rows = [json.loads(line) for line in (tmp_path / "documents.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(rows) > 200
    assert sum(len(item["text"]) for item in rows) > 300_000
    assert {item["source"] for item in rows} == {"statements", "expressions", "lexical", "data-model", "library"}
    texts = [item["text"].encode() for item in rows]
    assert near_duplicates(texts[1::2], texts[::2], 0.5) == []


def test_text_files_become_documents(tmp_path, capsys):
    (tmp_path / "in" / "letters").mkdir(parents=True)
    (tmp_path / "in" / "letters" / "one.txt").write_text("Dear \u00c5se,\nall is well.")
    (tmp_path / "in" / "note.md").write_text("# A note")
    (tmp_path / "in" / "picture.png").write_bytes(b"\x89PNG")
    (tmp_path / "in" / "nothing.txt").write_text("\n")
    assert documents.main([str(tmp_path / "in"), str(tmp_path / "out")]) == 0
    lines = (tmp_path / "out" / "documents.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"source": "letters", "text": "Dear \u00c5se,\nall is well."},
        {"source": ".", "text": "# A note"},
    ]
    (tmp_path / "in" / "bad.txt").write_bytes(b"caf\xe9")
    assert documents.main([str(tmp_path / "in"), str(tmp_path / "out")]) == 3
    assert "bad.txt is not UTF-8: byte 3 is 0xe9" in capsys.readouterr().err
    assert documents.main([str(tmp_path / "out"), str(tmp_path / "out")]) == 3
    (tmp_path / "taken").touch()
    (tmp_path / "in" / "bad.txt").unlink()
    assert documents.main([str(tmp_path / "in"), str(tmp_path / "taken")]) == 2
    assert "taken: File exists" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "a.txt").touch()
    assert documents.main([str(tmp_path / "empty"), str(tmp_path / "out")]) == 3
    assert "no text: all 1 files below" in capsys.readouterr().err


def test_settings_that_cannot_be_are_named(tmp_path, texts):
    with pytest.raises(TextSettingsError, match="unknown key 'vocabulary'; allowed: vocab_size"):
        prepare_fn(prepare_args(tmp_path, texts[:2], texts[2:3], vocabulary=3))


@pytest.mark.parametrize(("key", "value"), [("context", 1), ("context", "many"), ("max_near_duplicates", -0.1)])
def test_values_that_cannot_be_are_named(tmp_path, texts, key, value):
    with pytest.raises(TextSettingsError, match=f"{key} is {value!r}"):
        prepare_fn(prepare_args(tmp_path, texts[:2], texts[2:3], **{key: value}))


def test_no_text_at_all(tmp_path):
    with pytest.raises(TextDataError, match="no document of the split 'train' has any text: expected a column `text`"):
        prepare_fn(prepare_args(tmp_path, [b""], [b"text"]))


def by_definition(train, symbols):
    """Interpolated Kneser-Ney of order 5 as it is defined: the probability of the last symbol after those before it."""

    def padded(text):
        return [256] * 4 + list(text) + [256]

    def count(gram):  # occurrences at the highest order, different symbols before it below
        places = [(text, at) for text in map(padded, train) for at in range(4, len(text))]
        ends = [tuple(text[at - 4 : at + 1]) for text, at in places]
        if len(gram) == 5:
            return sum(end == gram for end in ends)
        longer = {end[-len(gram) - 1 :] for end in ends}
        return sum(other[1:] == gram for other in longer)

    def probability(gram):
        if not gram:
            return 1 / 257
        context = [count((*gram[:-1], symbol)) for symbol in range(257)]
        lower, total = probability(gram[1:]), sum(context)
        if not total:
            return lower
        return max(count(gram) - 0.75, 0) / total + 0.75 * sum(number > 0 for number in context) / total * lower

    return probability(tuple(symbols[-5:]))


def test_the_baseline_is_kneser_ney():
    train, text = [b"abab", b"abc"], b"abd"
    padded = [256] * 4 + list(text) + [256]
    expected = -sum(math.log(by_definition(train, padded[: at + 1])) for at in range(4, len(padded)))
    scorer = NGramScorer(count_ngrams(train))
    assert float(scorer.nats(tf.constant([text]))[0]) == pytest.approx(expected, rel=1e-5)


def test_the_baseline_prefers_what_it_counted(texts):
    scorer = NGramScorer(count_ngrams(texts[:5]))
    known, unknown, nothing = scorer.nats(tf.constant([texts[0], texts[0][::-1], b""])).numpy()
    assert known < unknown / 2
    assert nothing > 0
    assert float(scorer.nats(tf.constant([texts[0]]))[0]) == pytest.approx(known, rel=1e-5)


def test_metrics_are_of_all_text_together():
    score = np.array([[7.0, 14.0, 3.0], [14.0, 28.0, 6.0]])
    num_bytes = np.array([[10.0], [11.0]])
    expected = {
        BitsPerByte: 21 / math.log(2) / 21,
        BaselineBitsPerByte: 42 / math.log(2) / 21,
        BitsPerByteSaved: 21 / math.log(2) / 21,
        Perplexity: math.exp(21 / 9),
    }
    for kind, value in expected.items():
        metric = kind.from_config(kind().get_config())
        for part in range(2):
            metric.update_state(num_bytes[part : part + 1], score[part : part + 1])
        assert float(metric.result()) == pytest.approx(value)
        metric.reset_states()
        assert float(metric.result()) == (1 if kind is Perplexity else 0)


def test_the_end_is_predicted():
    (sequence,) = packing.pack([np.array([9])], 2)
    assert sequence["targets"].tolist() == [9, END]
