"""The Prepare step's function: documents to a tokenizer, an n-gram baseline and packed sequences."""

import dataclasses
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from modules.textgen import ngram, packing
from modules.textgen.errors import TextDataError, TextSettingsError
from modules.textgen.near_duplicates import NearDuplicate, near_duplicates
from modules.textgen.tokenizer import Tokenizer, train_tokenizer

TRAIN = "train"
TEXT = "text"
TOKENIZER_FILE = "tokenizer.json"
NGRAM_FILE = "ngrams.npz"
SCHEMA_FILE = "schema.pbtxt"
REPORT_FILE = "report.json"
_FILES_PER_SPLIT = 2
_SHOWN = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrepareSettings:
    """`prepare.settings` of workload.yaml."""

    vocab_size: int = 1024
    """Tokens, of which 257 are the bytes and the end of a document."""
    context: int = 128
    """Tokens in a sequence, and what a prediction can look back on."""
    near_duplicate_overlap: float = 0.5
    """A document of another split counts as known from training if this share of it is in one training document."""
    max_near_duplicates: float = 0.0
    """Share of such documents that is let through; more stops the run."""
    baseline_bytes: int = 8_000_000
    """The n-gram baseline is counted on at most so much of the training text."""

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any]) -> "PrepareSettings":
        """Raises TextSettingsError for a key that is not known or a value that cannot be."""
        allowed = {field.name: type(field.default) for field in dataclasses.fields(cls)}
        for key, value in mapping.items():
            if key not in allowed:
                raise TextSettingsError(f"prepare.settings: unknown key {key!r}; allowed: {', '.join(allowed)}")
            kind = allowed[key]
            if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else int) or value < 0:
                raise TextSettingsError(f"prepare.settings: {key} is {value!r}; expected {kind.__name__}, 0 or more")
        settings = cls(**mapping)
        if settings.context < 2:
            raise TextSettingsError(f"prepare.settings: context is {settings.context}; expected at least 2")
        return settings


def prepare_fn(args: Any) -> None:
    """Writes packed sequences of every split, and tokenizer, baseline, schema and report beside them.

    Args:
      args: a PrepareArgs.

    Raises:
      TextDataError: there is no text, or documents of another split are near duplicates of training documents.
      TextSettingsError: a setting is wrong.
    """
    settings = PrepareSettings.from_dict(args.settings)
    documents = {split: _documents(split, files) for split, files in args.examples.items()}
    known = {split: _known(split, documents, settings) for split in documents if split != TRAIN}
    tokenizer = train_tokenizer(documents[TRAIN], settings.vocab_size)
    _write_text(f"{args.assets_dir}/{TOKENIZER_FILE}", tokenizer.to_json())
    _write_ngrams(
        f"{args.assets_dir}/{NGRAM_FILE}", ngram.count_ngrams(_up_to(documents[TRAIN], settings.baseline_bytes))
    )
    _write_text(f"{args.assets_dir}/{SCHEMA_FILE}", packing.schema(settings.context))
    report: dict[str, Any] = {"vocab_size": tokenizer.size, "context": settings.context, "splits": {}}
    for split, texts in documents.items():
        tokens = encode_all(tokenizer, texts)
        num_sequences = packing.write(packing.pack(tokens, settings.context), args.output_dirs[split], _FILES_PER_SPLIT)
        num_bytes, num_tokens = sum(map(len, texts)), sum(map(len, tokens))
        report["splits"][split] = {
            "documents": len(texts),
            "bytes": num_bytes,
            "tokens": num_tokens,
            "bytes_per_token": round(num_bytes / max(1, num_tokens), 3),
            "sequences": num_sequences,
            "near_duplicates": len(known.get(split, ())),
        }
    _write_text(f"{args.assets_dir}/{REPORT_FILE}", json.dumps(report, indent=1))


def encode_all(tokenizer: Tokenizer, texts: Sequence[bytes], num_bytes: int = 1 << 20) -> list[np.ndarray]:
    """The tokens of each text, int32, with about `num_bytes` of text in memory as tensors at a time."""
    encode = tf.function(tokenizer.encode, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    found: list[np.ndarray] = []
    while len(found) < len(texts):
        size, end = 0, len(found)
        while end < len(texts) and (size == 0 or size + len(texts[end]) <= num_bytes):
            size += len(texts[end])
            end += 1
        rows = encode(tf.constant(texts[len(found) : end]))
        found += np.split(rows.flat_values.numpy(), rows.row_splits.numpy()[1:-1])
    return found


def read_ngrams(path: str) -> ngram.NGrams:
    """The baseline that the step left."""
    with tf.io.gfile.GFile(path, "rb") as file:
        content = io.BytesIO(file.read())
    with np.load(content) as stored:
        names = [field.name for field in dataclasses.fields(ngram.NGrams)]
        return ngram.NGrams(
            **{name: tuple(stored[f"{name}_{order}"] for order in range(ngram.ORDER)) for name in names}
        )


def _documents(split: str, files: Sequence[str]) -> list[bytes]:
    spec = {TEXT: tf.io.FixedLenFeature([], tf.string, "")}
    texts: list[bytes] = []
    for records in tf.data.TFRecordDataset(list(files), "GZIP").batch(1024):
        texts += tf.io.parse_example(records, spec)[TEXT].numpy().tolist()
    texts = [text for text in texts if text]
    if not texts:
        raise TextDataError(
            f"no document of the split {split!r} has any text: expected a column `{TEXT}` in the ingested rows, and "
            "more documents where there are few"
        )
    return texts


def _known(split: str, documents: Mapping[str, list[bytes]], settings: PrepareSettings) -> list[NearDuplicate]:
    """The near duplicates that are let through."""
    found = near_duplicates(documents[split], documents[TRAIN], settings.near_duplicate_overlap)
    share = len(found) / len(documents[split])
    if share <= settings.max_near_duplicates:
        return found
    shown = "; ".join(
        f"{item.overlap:.0%} of {_head(documents[split][item.document])} is in {_head(documents[TRAIN][item.other])}"
        for item in sorted(found, key=lambda item: -item.overlap)[:_SHOWN]
    )
    raise TextDataError(
        f"{len(found)} of {len(documents[split])} documents of the split {split!r} are near duplicates of training "
        f"documents ({share:.1%}; at most {settings.max_near_duplicates:.1%} is let through): {shown}. Leave them out, "
        "keep what belongs together in one split (ingest.split.by: columns), or raise max_near_duplicates in "
        "prepare.settings"
    )


def _head(text: bytes) -> str:
    words = text.decode("utf-8", "replace").split()
    return repr(" ".join(words)[:60])


def _up_to(texts: Sequence[bytes], limit: int) -> list[bytes]:
    kept: list[bytes] = []
    size = 0
    for text in texts:
        if kept and size + len(text) > limit:
            break
        kept.append(text)
        size += len(text)
    return kept


def _write_text(path: str, content: str) -> None:
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(content)


def _write_ngrams(path: str, ngrams: ngram.NGrams) -> None:
    arrays = {f"{name}_{order}": part for name, parts in vars(ngrams).items() for order, part in enumerate(parts)}
    content = io.BytesIO()  # NumPy wants to seek
    np.savez_compressed(content, **arrays)
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(content.getvalue())
