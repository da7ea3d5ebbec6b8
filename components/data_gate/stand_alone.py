"""The gate on folders, without a pipeline around it."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from components.data_gate import catalog, file_arguments
from components.data_gate.config import Allowance, GatePolicy
from components.data_gate.context import Context, GateInputs, Statistics
from components.data_gate.data_folder import DataFolder, batches, read_folder
from components.data_gate.errors import GateConfigError
from components.data_gate.finding import Verdict
from components.data_gate.gate import judge
from components.data_gate.policy_reader import close_to
from components.data_gate.schema_change import SchemaChange, widen
from components.data_gate.schema_infer import infer
from components.data_gate.schema_text import rewrite
from components.data_gate.serving_log import serving_batches
from components.data_gate.source_lines import add_lines
from components.data_gate.statistics import statistics_of
from components.data_gate.summary import summarize
from components.data_gate.type_warnings import type_warnings
from components.example_gen.config import IngestConfig
from components.example_gen.errors import IngestDataError

# Some 100,000 rows say what a first schema needs.
_MOST_BATCHES = 25
DATA = "a folder of CSV files, of TFRecords, or of Split- folders"
_FIRST = "`sluice schema infer`"


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
    config_file: str = "",
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
      config_file: where `policy` and `ingest` are written, for messages.

    Raises:
      GateConfigError: something named does not exist or cannot be read.
    """
    schema = load_schema(schema_file)
    within = f"{config_file}: " if config_file else ""
    gate_policy = _policy(policy, schema_file, allow, f"{within}gate")
    config = IngestConfig.from_dict(ingest or {}, f"{within}ingest")
    file_arguments.folder("--input", data, DATA)
    if baseline:
        file_arguments.folder("--baseline", baseline, f"data or statistics that were accepted before ({DATA})")
    if serving:
        file_arguments.folder("--serving", serving, "TFRecords of tf.Examples or PredictionLogs")
    folder = _read("--input", data, schema, f"{scratch}/data", config)
    before = _read("--baseline", baseline, schema, f"{scratch}/baseline", config) if baseline else None
    inputs = GateInputs(
        schema=schema,
        statistics=folder.statistics,
        baseline=before.statistics if before else {},
        serving=_served(serving, schema) if serving else None,
        examples=folder.examples,
        source=data,
        ingest_file=config_file if ingest else "",
        notes=folder.notes,
    )
    try:
        verdict = judge(inputs, gate_policy)
    except GateConfigError as error:
        raise GateConfigError(f"{within}{error}") from error
    return add_lines(verdict, folder.ingestions), inputs


def _read(argument: str, path: str, schema: schema_pb2.Schema | None, scratch: str, config: IngestConfig) -> DataFolder:
    """`read_folder`, whose errors say which argument they are about."""
    try:
        return read_folder(path, schema, scratch, config)
    except (IngestDataError, GateConfigError) as error:
        raise type(error)(f"{argument} {path}: {error}") from error


def _served(path: str, schema: schema_pb2.Schema) -> Statistics:
    try:
        return statistics_of(serving_batches(path), schema)
    except GateConfigError as error:
        raise GateConfigError(f"--serving {error}") from error


def load_schema(path: str) -> schema_pb2.Schema:
    """The schema in the text file `path`."""
    text = file_arguments.read_text("--schema", path, f"a Schema as text, such as {_FIRST} makes")
    try:
        schema = text_format.Parse(text, schema_pb2.Schema())
    except text_format.ParseError as error:
        raise GateConfigError(f"--schema {path}: not a Schema as text: {error}; {_FIRST} makes a first one") from error
    if not schema.feature:
        raise GateConfigError(f"--schema {path}: it has no feature; {_FIRST} makes a first one")
    names = [feature.name for feature in schema.feature]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise GateConfigError(f"--schema {path}: feature {twice[0]!r} is there twice; remove one of the two")
    return schema


def _policy(mapping: Mapping[str, Any] | None, schema_file: str, allow: Sequence[str], where: str) -> GatePolicy:
    policy = GatePolicy.from_dict(mapping, where)
    entries = []
    for text in allow:
        feature, _, rule = text.rpartition(":")
        if not feature or rule not in catalog.RULES:
            raise GateConfigError(
                f"--allow {text}: expected FEATURE:RULE; {close_to(rule, catalog.RULES)}"
                f" (rules: {', '.join(sorted(catalog.RULES))})"
            )
        try:
            entries.append(Allowance(feature=feature, rule=rule, until="9999-12-31", reason="--allow, this once"))
        except GateConfigError as error:
            raise GateConfigError(f"--allow {text}: {error}") from error
    return dataclasses.replace(policy, schema_file=schema_file, allow=(*policy.allow, *entries))


def infer_schema(
    data: str, label: str, ingest: Mapping[str, Any], scratch: str, config_file: str = ""
) -> schema_pb2.Schema:
    """A first schema of the folder `data`, from at most its first `_MOST_BATCHES` batches.

    Raises:
      GateConfigError: there is no column `label` ("" for none).
    """
    config = IngestConfig.from_dict(ingest, f"{config_file}: ingest" if config_file else "ingest")
    file_arguments.folder("--input", data, DATA)
    folder = _read("--input", data, None, scratch, config)
    if not folder.examples:
        raise GateConfigError(f"--input {data}: holds statistics only; a schema is inferred from rows")
    columns = {name for statistics in folder.statistics.values() for name in summarize(statistics).columns}
    if label and label not in columns:
        raise GateConfigError(f"--label {label}: no such column in {data}; {close_to(label, columns)}")
    return _infer(folder, [label, *(name for name in config.described if name != config.images.image_column)])


def change_schema(
    data: str, schema_file: str, only: Sequence[str], ingest: Mapping[str, Any], scratch: str, config_file: str = ""
) -> tuple[str, list[SchemaChange]]:
    """The text of a schema that `data` fits, and what is different in it; see `schema_change.widen`.

    A type that a few rows alone speak against stays as it is, unless `only` names the column: the change is then among
    the others with `held_back`, and its warning names the rows.

    Raises:
      GateConfigError: `only` names a column that neither the schema nor the data has.
    """
    schema = load_schema(schema_file)
    config = IngestConfig.from_dict(ingest, f"{config_file}: ingest" if config_file else "ingest")
    file_arguments.folder("--input", data, DATA)
    folder = _read("--input", data, schema, scratch, config)
    inputs = GateInputs(schema=schema, statistics=folder.statistics, examples=folder.examples)
    context = Context(inputs, GatePolicy())
    known = {*context.features, *(name for split in context.splits.values() for name in split.columns)}
    for name in only:
        if name not in known:
            raise GateConfigError(f"--feature {name}: no such column; {close_to(name, known)}")
    # Only a new column needs a look at the rows as long as that.
    inferred = _infer(folder, ()) if folder.examples and known - set(context.features) else schema_pb2.Schema()
    changed, changes = widen(context, inferred, only)
    warnings = type_warnings(context, changes, folder, scratch)
    held_back = set(warnings) - set(only)
    if held_back:
        changed, _ = widen(context, inferred, only, leave=held_back)
    changes = [
        dataclasses.replace(change, warning=warnings[change.feature], held_back=change.feature in held_back)
        if change.what == "type" and change.feature in warnings
        else change
        for change in changes
    ]
    return rewrite(file_arguments.read_text("--schema", schema_file, "a Schema as text"), changed), changes


def _infer(folder: DataFolder, not_served: Sequence[str]) -> schema_pb2.Schema:
    files = tuple(file for split in folder.examples.values() for file in split)
    return infer(list(itertools.islice(batches(files), _MOST_BATCHES)), not_served)
