"""Documents as training sequences of equal length, one behind the other, with their boundaries kept.

The stream is END, document, END, document, ..., END, cut every `context` tokens. A position sees only tokens of its own
document (`segments`), and the END after a document is what its last token has to predict, so that the model learns to
stop.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from modules.textgen.tokenizer import END

NO_TARGET = -1
"""In `targets`, where the last sequence is filled up."""


def pack(documents: Sequence[np.ndarray], context: int) -> Iterator[dict[str, np.ndarray]]:
    """Sequences of `context` tokens.

    Args:
      documents: the tokens of each, without END.
      context: tokens in a sequence.

    Yields:
      int64 [context] each: `tokens`, `targets` (the token after each one) and `segments` (the document's number).
    """
    tokens = np.concatenate([[END], *(part for document in documents for part in (document, [END]))]).astype(np.int64)
    lengths = [len(document) + 1 for document in documents]
    segments = np.repeat(np.arange(len(documents)), lengths)
    inputs, targets = tokens[:-1], tokens[1:]
    missing = -len(inputs) % context
    inputs = np.pad(inputs, (0, missing), constant_values=END)
    targets = np.pad(targets, (0, missing), constant_values=NO_TARGET)
    segments = np.pad(segments, (0, missing), constant_values=len(documents))
    for start in range(0, len(inputs), context):
        part = slice(start, start + context)
        yield {"tokens": inputs[part], "targets": targets[part], "segments": segments[part]}


def write(sequences: Iterator[dict[str, np.ndarray]], folder: str, num_files: int) -> int:
    """Writes sequences in turn to `num_files` TFRecord files (GZIP); returns how many there were."""
    paths = [f"{folder}/sequences-{number:05d}-of-{num_files:05d}.gz" for number in range(num_files)]
    options = tf.io.TFRecordOptions(compression_type="GZIP")
    writers = [tf.io.TFRecordWriter(path, options) for path in paths]
    count = 0
    for sequence in sequences:
        writers[count % num_files].write(_example(sequence))
        count += 1
    for writer in writers:
        writer.close()
    return count


def _example(sequence: dict[str, np.ndarray]) -> bytes:
    features = {
        name: tf.train.Feature(int64_list=tf.train.Int64List(value=values)) for name, values in sequence.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def schema(context: int) -> str:
    """The schema of these records, as text."""
    names = ("tokens", "targets", "segments")
    return "".join(
        f'feature {{ name: "{name}" type: INT shape {{ dim {{ size: {context} }} }} '
        "presence { min_fraction: 1.0 min_count: 1 } }\n"
        for name in names
    )
