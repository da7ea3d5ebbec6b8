"""A folder that a person names, as statistics and example files by split.

Understood are: an Examples or ExampleStatistics artifact (Split-<name> folders), folders named after splits, a folder
of TFRecords of tf.Examples, and whatever the project's ingestion reads (CSV and others).
"""

import dataclasses
import os
from collections.abc import Iterator, Mapping

import pyarrow as pa
import tensorflow as tf
import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx.components.statistics_gen.stats_artifact_utils import BINARY_PB_BASENAME

from components.data_gate import example_files
from components.data_gate.context import Statistics
from components.data_gate.errors import GateConfigError
from components.data_gate.source_lines import Ingested
from components.data_gate.statistics import statistics_of
from components.data_gate.word_notes import missing_words
from components.example_gen import storage
from components.example_gen.config import IngestConfig, SplitConfig
from components.example_gen.ingest import Result, ingest
from components.example_gen.report import summarize

_PREFIX = "Split-"
_KIND_NAMES = {schema_pb2.INT: "int", schema_pb2.FLOAT: "float", schema_pb2.BYTES: "bytes"}
# A column read as the first may be declared as one of the second without losing a value.
_WIDER = {"int": ("float", "bytes"), "float": ("bytes",), "bool": ("bytes",), "timestamp": ("bytes",)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataFolder:
    """`statistics` and `examples` (files) by split; `ingestions`: what made the examples from other files.

    `notes` are what a person should know of how the files were read.
    """

    path: str
    statistics: Mapping[str, Statistics]
    examples: Mapping[str, tuple[str, ...]]
    ingestions: tuple[Ingested, ...] = ()
    notes: tuple[str, ...] = ()


def read_folder(path: str, schema: schema_pb2.Schema | None, scratch: str, config: IngestConfig) -> DataFolder:
    """Reads `path`.

    Args:
      path: a folder.
      schema: says which integers are categories and what ingested columns should be; None reads them as they look.
      scratch: a folder for what ingestion writes; must outlive the result.
      config: options for ingestion, where it is needed.

    Raises:
      GateConfigError: no such folder.
      IngestDataError: the files cannot be ingested; the message names file and line.
    """
    if not tf.io.gfile.isdir(path):
        raise GateConfigError(f"{path}: no such folder; name a folder of CSV files, of TFRecords, or of Split- folders")
    splits = _split_folders(path, classes=config.format == "images")
    statistics = {split: _saved_statistics(folder) for split, folder in splits.items()}
    if splits and all(value is not None for value in statistics.values()):
        return DataFolder(path=path, statistics={k: v for k, v in statistics.items() if v is not None}, examples={})
    examples = {split: _tfrecords(folder) for split, folder in splits.items()}
    if not splits and _tfrecords(path):
        examples = {"all": _tfrecords(path)}
    ingestions: list[tuple[Ingested, list[str]]] = []
    if not examples or not all(examples.values()):
        examples, ingestions = _ingest(path, splits, schema, scratch, config)
    made = {split: statistics_of(batches(files), schema) for split, files in examples.items()}
    notes = tuple(dict.fromkeys(note for _, notes in ingestions for note in notes))
    return DataFolder(
        path=path, statistics=made, examples=examples, ingestions=tuple(one for one, _ in ingestions), notes=notes
    )


def batches(files: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The rows of `files` of tf.Examples.

    Raises:
      GateConfigError: records of something else, or a damaged file.
    """
    for file in files:
        try:
            for records in example_files.record_batches(file):
                yield example_files.decode(records)
        except (RuntimeError, tf.errors.DataLossError) as error:
            raise GateConfigError(f"{file}: damaged, or its records are no tf.Examples") from error


def _split_folders(path: str, classes: bool) -> dict[str, str]:
    """Split name to folder: the Split- folders, or else any folders where no files lie beside them.

    Folders that are `classes`, as those of pictures are, are no splits.
    """
    names = sorted(name.rstrip("/") for name in tf.io.gfile.listdir(path) if not name.startswith((".", "_")))
    folders = [name for name in names if tf.io.gfile.isdir(os.path.join(path, name))]
    marked = [name for name in folders if name.startswith(_PREFIX)]
    if marked:
        return {name.removeprefix(_PREFIX): os.path.join(path, name) for name in marked}
    if classes or len(folders) != len(names):
        return {}
    return {name: os.path.join(path, name) for name in folders}


def _saved_statistics(folder: str) -> Statistics | None:
    path = os.path.join(folder, BINARY_PB_BASENAME)
    return tfdv.load_stats_binary(path) if tf.io.gfile.exists(path) else None


def _tfrecords(folder: str) -> tuple[str, ...]:
    files = [os.path.join(folder, name) for name in sorted(tf.io.gfile.listdir(folder))]
    return tuple(file for file in files if not tf.io.gfile.isdir(file) and example_files.is_tfrecord_file(file))


def _ingest(
    path: str, splits: Mapping[str, str], schema: schema_pb2.Schema | None, scratch: str, config: IngestConfig
) -> tuple[dict[str, tuple[str, ...]], list[tuple[Ingested, list[str]]]]:
    """Examples of the files in `path` (divided as `config` says) or of each split's own folder; and what made them."""
    if not splits:
        output = os.path.join(scratch, "examples")
        done = _ingest_typed(path, output, config, schema)
        return {split: _tfrecords(os.path.join(output, _PREFIX + split)) for split in config.split.names}, [done]
    result, ingestions = {}, []
    for split, folder in splits.items():
        output = os.path.join(scratch, "examples", split)
        whole = dataclasses.replace(config, split=SplitConfig(weights={split: 1}))
        ingested, notes = _ingest_typed(folder, output, whole, schema)
        ingestions.append((dataclasses.replace(ingested, split=split), notes))
        result[split] = _tfrecords(os.path.join(output, _PREFIX + split))
    return result, ingestions


def _ingest_typed(
    path: str, output: str, config: IngestConfig, schema: schema_pb2.Schema | None
) -> tuple[Ingested, list[str]]:
    """Ingests; where the schema has a wider type than a column looked like, again with that type.

    The schema's types are not declared from the start: a word among numbers would then be a bad row, and not the
    changed type that the gate should report.
    """
    patterns = {"": path}
    if config.split.by == "files":
        patterns = {split: os.path.join(storage.escape(path), glob) for split, glob in config.split.files.items()}
    result = ingest(patterns, output, config)
    wider = _wider_types(result, schema)
    if wider:
        config = dataclasses.replace(config, types={**config.types, **wider})
        result = ingest(patterns, output, config)
    return Ingested(patterns=patterns, config=config, kinds=result.kinds), missing_words(summarize(result))


def _wider_types(result: Result, schema: schema_pb2.Schema | None) -> dict[str, str]:
    wanted = {feature.name: _KIND_NAMES.get(feature.type, "") for feature in schema.feature} if schema else {}
    read: dict[str, set[str]] = {}
    for outcome in result.outcomes:
        for column, kind in outcome.kinds.items():
            read.setdefault(column, set()).add(kind)
    return {
        column: wanted[column]
        for column, kinds in read.items()
        if column in wanted and kinds and all(wanted[column] in _WIDER.get(kind, ()) for kind in kinds)
    }
