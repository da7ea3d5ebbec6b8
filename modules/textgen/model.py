"""The Trainer step's function: the decoder trained on packed sequences, and exported with generation."""

import copy
import json
from typing import Any

import tensorflow as tf

from modules import training
from modules.textgen import prepare
from modules.textgen.decoder import DecoderConfig, build_decoder
from modules.textgen.export import TEXT, TextGenerationModule
from modules.textgen.ngram import NGramScorer
from modules.textgen.packing import NO_TARGET
from modules.textgen.tokenizer import Tokenizer
from modules.training import export as exporting

_NUM_GOLDEN = 8
_GOLDEN_BYTES = 400


def run_fn(fn_args: Any) -> None:
    """Trains on what modules.textgen.prepare left, and exports it on the chief."""
    assets = f"{fn_args.train_files[0].rpartition('/')[0].rpartition('/')[0]}/assets"
    tokenizer = Tokenizer.from_json(_read(f"{assets}/{prepare.TOKENIZER_FILE}"))
    context = _context(assets)
    config = DecoderConfig.from_dict({"context": context, **(fn_args.custom_config.get("model") or {})}, tokenizer.size)
    packed = copy.copy(fn_args)
    packed.schema_path = f"{assets}/{prepare.SCHEMA_FILE}"  # of the sequences, not of the documents
    packed.serving_model_dir = None  # what is served is more than the model
    result = training.train(packed, lambda: build_decoder(config), label_key="targets", loss=next_token_loss)
    if result.model is None or not fn_args.serving_model_dir:
        return
    ngrams = NGramScorer(prepare.read_ngrams(f"{assets}/{prepare.NGRAM_FILE}"))
    module = TextGenerationModule(result.model, config, tokenizer, ngrams)
    exporting.export(
        module,
        fn_args.serving_model_dir,
        _examples(fn_args, tokenizer),
        {"steps": result.steps, "metrics": result.metrics, "model": vars(config)},
        golden_signature="score",
    )


def next_token_loss(targets: tf.Tensor, outputs: Any) -> tf.Tensor:
    """The mean cross entropy of each sequence in nats per place, float32 [batch]; places without a target count 0."""
    logits = outputs["logits"] if isinstance(outputs, dict) else outputs
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(targets, 0), logits)
    return tf.reduce_mean(losses * tf.cast(targets != NO_TARGET, tf.float32), axis=1)


def _context(assets: str) -> int:
    return int(json.loads(_read(f"{assets}/{prepare.REPORT_FILE}"))["context"])


def _examples(fn_args: Any, tokenizer: Tokenizer) -> list[bytes]:
    """Beginnings of packed evaluation sequences as raw tf.Examples."""
    paths = [path for pattern in fn_args.eval_files for path in sorted(tf.io.gfile.glob(pattern))]
    examples = []
    for record in tf.data.TFRecordDataset(paths, "GZIP").take(_NUM_GOLDEN):
        tokens = tf.train.Example.FromString(record.numpy()).features.feature["tokens"].int64_list.value
        text = b"".join(tokenizer.pieces[token] for token in tokens)[:_GOLDEN_BYTES]
        feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[text]))
        examples.append(tf.train.Example(features=tf.train.Features(feature={TEXT: feature})).SerializeToString())
    return examples


def _read(path: str) -> str:
    with tf.io.gfile.GFile(path, "r") as file:
        return file.read()
