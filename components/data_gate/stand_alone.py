"""The gate on folders, without a pipeline around it."""

import dataclasses
import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_data_validation as tfdv
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from components.data_gate import catalog
from components.data_gate.config import Allowance, GatePolicy
from components.data_gate.context import Context, GateInputs
from components.data_gate.csv_lines import add_lines
from components.data_gate.data_folder import DataFolder, batches, read_folder
from components.data_gate.errors import GateConfigError
from components.data_gate.finding import Verdict
from components.data_gate.gate import judge
from components.data_gate.schema_change import SchemaChange, widen
from components.data_gate.schema_infer import infer
from components.data_gate.schema_text import rewrite
from components.data_gate.serving_log import serving_batches
from components.data_gate.statistics import statistics_of
from components.example_gen.config import IngestConfig

# Some 100,000 rows say what a first schema needs.
_MOST_BATCHES = 25


def validate(
    *,
    data: str,
    schema_file: str,
    baseline: str | None = None,
    serving: str | None = None,
    policy: Mapping[str, Any] | None = None,
    ingest: Mapping[str, Any] | None = None,
    allow: Sequence[str] = (),
    scratch: str,
) -> tuple[Verdict, GateInputs]:
    """The verdict over the folder `data`, and what it was made from (for the page).

    Args:
      data: see `data_folder`.
      schema_file: a Schema as text.
      baseline: a folder like `data`, or one of statistics.
      serving: a folder of logged requests.
      policy: see GatePolicy.
      ingest: see IngestConfig; used where `data` or `baseline` has to be ingested.
      allow: FEATURE:RULE to accept this once.
      scratch: a folder for intermediate files.

    Raises:
      GateConfigError: something named does not exist or cannot be read.
    """
    schema = load_schema(schema_file)
    gate_policy = _policy(policy, schema_file, allow)
    config = IngestConfig.from_dict(ingest or {}, "ingest")
    folder = read_folder(data, schema, f"{scratch}/data", config)
    if baseline and tf.io.gfile.isdir(baseline) and not tf.io.gfile.listdir(baseline):
        raise GateConfigError(f"--baseline {baseline}: the folder is empty; name one of data or of statistics")
    before = read_folder(baseline, schema, f"{scratch}/baseline", config) if baseline else None
    inputs = GateInputs(
        schema=schema,
        statistics=folder.statistics,
        baseline=before.statistics if before else {},
        serving=statistics_of(serving_batches(serving), schema) if serving else None,
        examples=folder.examples,
        source=data,
    )
    verdict = judge(inputs, gate_policy)
    return (add_lines(verdict, _patterns(folder), config) if folder.ingested else verdict), inputs


def _patterns(folder: DataFolder) -> dict[str, str]:
    """What was ingested: the folder, or those of its splits."""
    places = (
        (split, os.path.join(folder.path, name)) for split in folder.statistics for name in (split, f"Split-{split}")
    )
    return {split: place for split, place in places if tf.io.gfile.isdir(place)} or {"": folder.path}


def load_schema(path: str) -> schema_pb2.Schema:
    """The schema in the text file `path`."""
    try:
        return tfdv.load_schema_text(path)
    except text_format.ParseError as error:
        raise GateConfigError(f"{path}: not a Schema: {error}") from error
    except Exception as error:
        if type(error).__name__ in ("NotFoundError", "FileNotFoundError"):
            message = f"{path}: no such file; `sluice schema infer` makes a first schema from data"
            raise GateConfigError(message) from error
        raise


def _policy(mapping: Mapping[str, Any] | None, schema_file: str, allow: Sequence[str]) -> GatePolicy:
    policy = GatePolicy.from_dict(mapping, "policy")
    entries = []
    for text in allow:
        feature, _, rule = text.rpartition(":")
        if not feature or rule not in catalog.RULES:
            raise GateConfigError(
                f"--allow {text}: expected FEATURE:RULE; rules are {', '.join(sorted(catalog.RULES))}"
            )
        entries.append(Allowance(feature=feature, rule=rule, until="9999-12-31", reason="--allow, this once"))
    return dataclasses.replace(policy, schema_file=schema_file, allow=(*policy.allow, *entries))


def infer_schema(data: str, label: str, ingest: Mapping[str, Any], scratch: str) -> schema_pb2.Schema:
    """A first schema of the folder `data`, from at most its first `_MOST_BATCHES` batches."""
    config = IngestConfig.from_dict(ingest, "ingest")
    folder = read_folder(data, None, scratch, config)
    if not folder.examples:
        raise GateConfigError(f"{data}: holds statistics only; a schema is inferred from rows")
    return _infer(folder, [label, *(name for name in config.described if name != config.images.image_column)])


def change_schema(
    data: str, schema_file: str, only: Sequence[str], ingest: Mapping[str, Any], scratch: str
) -> tuple[str, list[SchemaChange]]:
    """The text of a schema that `data` fits, and what is different in it; see `schema_change.widen`.

    Raises:
      GateConfigError: `only` names a column that neither the schema nor the data has.
    """
    schema = load_schema(schema_file)
    folder = read_folder(data, schema, scratch, IngestConfig.from_dict(ingest, "ingest"))
    context = Context(GateInputs(schema=schema, statistics=folder.statistics), GatePolicy())
    known = {*context.features, *(name for split in context.splits.values() for name in split.columns)}
    for name in only:
        if name not in known:
            raise GateConfigError(f"--feature {name}: no such column; there are {', '.join(sorted(known))}")
    inferred = _infer(folder, ()) if folder.examples else schema_pb2.Schema()
    changed, changes = widen(context, inferred, only)
    with open(schema_file, encoding="utf-8") as file:
        return rewrite(file.read(), changed), changes


def _infer(folder: DataFolder, not_served: Sequence[str]) -> schema_pb2.Schema:
    files = tuple(file for split in folder.examples.values() for file in split)
    return infer(list(itertools.islice(batches(files), _MOST_BATCHES)), not_served)
