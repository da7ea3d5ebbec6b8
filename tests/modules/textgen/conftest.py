"""A small decoder with random weights and a tokenizer of real text, made once."""

from pydoc_data.topics import topics

import pytest
import tensorflow as tf
import tf_keras as keras

from modules.textgen.decoder import DecoderConfig, build_decoder
from modules.textgen.export import TextGenerationModule
from modules.textgen.generation import Generator
from modules.textgen.ngram import NGramScorer, count_ngrams
from modules.textgen.tokenizer import train_tokenizer


@pytest.fixture(scope="session")
def texts():
    return [topics[name].encode() for name in sorted(topics)[:20]]


@pytest.fixture(scope="session")
def tokenizer(texts):
    return train_tokenizer(texts, 400)


@pytest.fixture(scope="session")
def decoder_config(tokenizer):
    return DecoderConfig(vocab_size=tokenizer.size, width=32, num_layers=2, num_heads=4, num_kv_heads=2, context=48)


@pytest.fixture(scope="session")
def model(decoder_config):
    """Random weights, larger than a model's first ones so that its choices are clear."""
    keras.utils.set_random_seed(1)
    model = build_decoder(decoder_config)
    for variable in model.variables:
        variable.assign(variable * 4.0)
    return model


@pytest.fixture(scope="session")
def generator(model, decoder_config, tokenizer):
    return Generator(model, decoder_config, tokenizer)


@pytest.fixture(scope="session")
def module(model, decoder_config, tokenizer, texts):
    return TextGenerationModule(model, decoder_config, tokenizer, NGramScorer(count_ngrams(texts)))


@pytest.fixture(scope="session")
def saved_model(module, tmp_path_factory):
    """A version folder of a serving base named `textgen`."""
    folder = tmp_path_factory.mktemp("serving") / "textgen" / "1"
    tf.saved_model.save(module.trackable, str(folder), signatures=module.signatures())
    return folder
