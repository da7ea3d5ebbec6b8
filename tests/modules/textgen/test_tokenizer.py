"""The tokenizer in the graph gives what the library that trained it gives, and loses no byte."""

import json

import hypothesis
import pytest
import tensorflow as tf
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library
from tokenizers import models

from modules.textgen.tokenizer import FIRST_BYTE, NUM_BASIC, Tokenizer, TokenizerError, split_words, train_tokenizer
from modules.textgen.words import MAX_WORD


@pytest.fixture(scope="module")
def encode(tokenizer):
    return tf.function(tokenizer.encode, input_signature=[tf.TensorSpec([None], tf.string)])


@pytest.fixture(scope="module")
def library(tokenizer):
    """The same merges in the library, where a byte is the character of its number."""
    texts = [piece.decode("latin-1") for piece in tokenizer.pieces]
    merges = [(texts[left], texts[right]) for left, right in tokenizer.merges]
    vocabulary = {text: number for number, text in enumerate(texts) if text}
    return Library(models.BPE(vocab=vocabulary, merges=merges))


def by_library(library, text):
    return [token for word in split_words(text) for token in library.encode(word.decode("latin-1")).ids]


def test_real_text_is_cut_as_by_the_library(encode, library, texts):
    rows = encode(tf.constant(texts)).to_list()
    assert rows == [by_library(library, text) for text in texts]
    assert sum(map(len, texts)) / sum(map(len, rows)) > 1.7


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(st.lists(st.one_of(st.binary(max_size=60), st.text(max_size=40).map(str.encode)), max_size=5))
def test_any_bytes_come_back_and_rows_do_not_matter_to_each_other(encode, library, tokenizer, texts):
    rows = encode(tf.constant(texts, tf.string))
    assert tokenizer.decode(rows.to_tensor(default_value=-1)).numpy().tolist() == texts
    assert rows.to_list() == [by_library(library, text) for text in texts]


@pytest.mark.parametrize("text", [b"", b"aaaa", b"aaaaaaa aaa", b" ", b"   x", b"\x00\x00", b"\xff\xfe", b"-" * 100])
def test_edges(encode, library, text):
    assert encode(tf.constant([text])).to_list() == [by_library(library, text)]


def test_words():
    text = b"def foo(a,  b=12):\n   return 'x'"
    words = [
        b"def",
        b" foo",
        b"(",
        b"a",
        b",",
        b" ",
        b" b",
        b"=",
        b"12",
        b"):",
        b"\n",
        b"  ",
        b" return",
        b" '",
        b"x",
        b"'",
    ]
    assert split_words(text) == words
    assert all(len(word) <= MAX_WORD for word in split_words(b"x" * 100 + b" " * 100))


def test_a_file_keeps_a_tokenizer(tokenizer):
    again = Tokenizer.from_json(tokenizer.to_json())
    assert again.pieces == tokenizer.pieces
    assert again.merges == tokenizer.merges


def test_training_is_repeatable(texts, tokenizer):
    assert train_tokenizer(texts, 400).merges == tokenizer.merges


def test_two_pairs_may_make_the_same_text():
    a, b, c = (FIRST_BYTE + code for code in b"abc")
    ab, bc = NUM_BASIC, NUM_BASIC + 1
    tokenizer = Tokenizer([(a, b), (b, c), (ab, c), (a, bc)])
    assert tokenizer.pieces[NUM_BASIC:] == [b"ab", b"bc", b"abc"]
    assert tokenizer.encode(tf.constant([b"abc"])).to_list() == [[NUM_BASIC + 2]]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("nonsense", "not a tokenizer file"),
        ("{}", "not a tokenizer file"),
        (json.dumps({"format": "other", "merges": []}), "'other'; expected"),
        (json.dumps({"format": "byte-pair encoding, version 1", "merges": [[1, 999]]}), "merge 1, 999"),
    ],
)
def test_other_files_are_refused(content, problem):
    with pytest.raises(TokenizerError, match=problem):
        Tokenizer.from_json(content)


def test_no_room_for_a_merge():
    with pytest.raises(TokenizerError, match="a tokenizer of 100 tokens"):
        train_tokenizer([b"abc"], 100)
