"""A first schema from data: what TFDV infers, plus what a person would add. Made to be read and corrected.

Added are: columns of pictures, integers that look like categories, lower bounds of 0, no NaN or infinity where there
was none, how many rows may lack a value, environments for the label, and drift comparators. A comparator's threshold is
three times what halves of the same data show beyond chance, so that it is as tight as the data allows.
"""

import math
from collections.abc import Collection, Iterable, Sequence

import numpy as np
import pyarrow as pa
import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0 import schema_pb2

from components.data_gate import divergence
from components.data_gate.rules.distance import is_categorical
from components.data_gate.statistics import statistics_of
from components.data_gate.summary import ColumnSummary, DataSummary, summarize

_MOST_CATEGORIES = 100
_FEWEST_REPEATS = 10
_HALVINGS = 5
_LEAST_THRESHOLD = {"infinity_norm": 0.03, "jensen_shannon_divergence": 0.01}
# Beyond this many distinct values nearly every one is new each time, and their shares say nothing.
_MOST_COMPARED = 1000
_SLACK = 3.0
_PICTURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")
_LOOKED_AT = 100


def infer(batches: Sequence[pa.RecordBatch], not_served: Collection[str] = ()) -> schema_pb2.Schema:
    """The schema of list columns.

    Args:
      batches: all or a good sample of the data.
      not_served: columns that are not there when the model serves, such as the label.
    """
    schema = tfdv.infer_schema(statistics_of(batches), infer_feature_shape=False, max_string_domain_size=50)
    for feature in schema.feature:
        _mark_category(feature, batches)
        _mark_pictures(feature, batches)
    summary = summarize(statistics_of(batches, schema))
    for feature in schema.feature:
        _add_bounds(feature, summary.columns[feature.name], batches)
    _add_environments(schema, not_served)
    _add_comparators(schema, batches)
    return schema


def _mark_pictures(feature: schema_pb2.Feature, batches: Sequence[pa.RecordBatch]) -> None:
    """Encoded pictures, one in every row: no text, whose values would be counted."""
    if feature.type != schema_pb2.BYTES:
        return
    columns = [batch.column(index) for batch in batches if (index := batch.schema.get_field_index(feature.name)) >= 0]
    # A batch without the column, or with nothing in it, has rows without a picture.
    whole = len(columns) == len(batches) and not any(pa.types.is_null(column.type) for column in columns)
    if whole and all(
        (column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False) == 1).all()
        and all(value.as_py().startswith(_PICTURES) for value in column.flatten()[:_LOOKED_AT])
        for column in columns
    ):
        feature.ClearField("domain")
        feature.image_domain.SetInParent()
        feature.shape.dim.add(size=1)


def _mark_category(feature: schema_pb2.Feature, batches: Iterable[pa.RecordBatch]) -> None:
    """An integer with few values, each seen many times, within a small range."""
    if feature.type != schema_pb2.INT or feature.HasField("bool_domain"):
        return
    distinct: set[int] = set()
    total = 0
    for values in _values(feature.name, batches):
        distinct.update(np.unique(values).tolist())
        total += len(values)
        if len(distinct) > _MOST_CATEGORIES:
            return
    if distinct and total >= _FEWEST_REPEATS * len(distinct) and max(distinct) - min(distinct) < 10 * _MOST_CATEGORIES:
        feature.int_domain.min, feature.int_domain.max = min(distinct), max(distinct)
        feature.int_domain.is_categorical = True


def _values(name: str, batches: Iterable[pa.RecordBatch]) -> Iterable[np.ndarray]:
    for batch in batches:
        index = batch.schema.get_field_index(name)
        if index >= 0 and not pa.types.is_null(batch.column(index).type):
            yield batch.column(index).flatten().to_numpy(zero_copy_only=False)


def _add_bounds(feature: schema_pb2.Feature, column: ColumnSummary, batches: Iterable[pa.RecordBatch]) -> None:
    if column.max_values == 1 and not feature.WhichOneof("shape_type"):
        feature.value_count.min, feature.value_count.max = 0, 1  # a missing value may be an empty list
    feature.presence.Clear()
    # Twice the missing rows that were seen, and a little for columns that hardly miss any.
    missing = 1 - column.present_share
    feature.presence.min_fraction = 1.0 if not missing else max(0.0, math.floor((1 - 2 * missing) * 100) / 100)
    if column.number is None:
        return
    if feature.type == schema_pb2.FLOAT:
        finite = all(np.isfinite(values).all() for values in _values(feature.name, batches))
        feature.float_domain.disallow_nan = feature.float_domain.disallow_inf = finite
        if column.number.low >= 0:
            feature.float_domain.min = 0
    elif feature.type == schema_pb2.INT and not feature.HasField("int_domain") and column.number.low >= 0:
        feature.int_domain.min = 0


def _add_environments(schema: schema_pb2.Schema, not_served: Collection[str]) -> None:
    schema.default_environment.extend(["TRAINING", "SERVING"])
    for feature in schema.feature:
        if feature.name in not_served:
            feature.not_in_environment.append("SERVING")


def _add_comparators(schema: schema_pb2.Schema, batches: Sequence[pa.RecordBatch]) -> None:
    pairs = _halves(batches, schema)
    for feature in schema.feature:
        kind = "infinity_norm" if is_categorical(feature) else "jensen_shannon_divergence"
        threshold = _threshold(feature.name, kind, pairs)
        if threshold is not None:
            getattr(feature.drift_comparator, kind).threshold = threshold
            if not feature.not_in_environment:
                getattr(feature.skew_comparator, kind).threshold = threshold


def _halves(batches: Sequence[pa.RecordBatch], schema: schema_pb2.Schema) -> list[tuple[DataSummary, DataSummary]]:
    """Random halves of the rows, several times; the same halves for equal data."""
    pairs = []
    for seed in range(_HALVINGS):
        random = np.random.RandomState(seed)
        sides = [random.rand(batch.num_rows) < 0.5 for batch in batches]
        one = [batch.filter(pa.array(side)) for batch, side in zip(batches, sides, strict=True)]
        two = [batch.filter(pa.array(~side)) for batch, side in zip(batches, sides, strict=True)]
        pairs.append((summarize(statistics_of(one, schema)), summarize(statistics_of(two, schema))))
    return pairs


def _threshold(name: str, kind: str, pairs: Iterable[tuple[DataSummary, DataSummary]]) -> float | None:
    measure = divergence.infinity_norm if kind == "infinity_norm" else divergence.jensen_shannon
    excess = 0.0
    for one, two in pairs:
        if name not in one.columns or name not in two.columns:
            return None
        column = one.columns[name]
        if column.category is not None and column.category.unique > _MOST_COMPARED:
            return None
        distance = measure(column, two.columns[name])
        if distance is None:
            return None
        excess = max(excess, distance.value - distance.noise)
    return max(_LEAST_THRESHOLD[kind], round(_SLACK * excess, 3))
