"""TFDV's statistics protos as plain values: what the rules and the page read."""

import dataclasses
from collections.abc import Mapping

from tensorflow_metadata.proto.v0 import statistics_pb2

from components.data_gate.distribution import Bucket, Distribution

_DEFAULT_SLICES = ("", "All Examples", "All")
_TYPE_NAMES = {
    statistics_pb2.FeatureNameStatistics.INT: "INT",
    statistics_pb2.FeatureNameStatistics.FLOAT: "FLOAT",
    statistics_pb2.FeatureNameStatistics.STRING: "BYTES",
    statistics_pb2.FeatureNameStatistics.BYTES: "BYTES",
    statistics_pb2.FeatureNameStatistics.STRUCT: "STRUCT",
}


@dataclasses.dataclass(frozen=True)
class NumberSummary:
    """A numeric column; `num_values` counts values, of which `num_nan` and `num_zeros` are part."""

    num_values: float
    low: float
    high: float
    mean: float
    std_dev: float
    num_zeros: float
    num_nan: float
    distribution: Distribution


@dataclasses.dataclass(frozen=True)
class CategorySummary:
    """A categorical column. `counts` holds the most frequent values; `complete` says whether it holds them all."""

    counts: Mapping[str, float]
    num_values: float
    unique: int
    complete: bool

    def shares(self) -> dict[str, float]:
        """Share of each value in `counts`."""
        total = self.num_values or 1.0
        return {value: count / total for value, count in self.counts.items()}


@dataclasses.dataclass(frozen=True)
class ColumnSummary:
    """One column of one data set; exactly one of `number` and `category` is set, or none for opaque bytes.

    `max_values` is the most values that any row has.
    """

    name: str
    type: str
    num_present: float
    num_missing: float
    max_values: int = 1
    number: NumberSummary | None = None
    category: CategorySummary | None = None

    @property
    def present_share(self) -> float:
        """Share of rows that have a value."""
        return self.num_present / ((self.num_present + self.num_missing) or 1)


@dataclasses.dataclass(frozen=True)
class DataSummary:
    """One split, or one folder of serving requests."""

    num_rows: float
    columns: Mapping[str, ColumnSummary]


def overall(
    statistics: statistics_pb2.DatasetFeatureStatisticsList,
) -> statistics_pb2.DatasetFeatureStatisticsList:
    """The overall slice alone, with empty lists counted as missing values.

    Some writers leave a feature out where a row has no value, others (stock CsvExampleGen) write it empty. TFDV counts
    the second as present, so that its bound on missing values does not see them.
    """
    result = statistics_pb2.DatasetFeatureStatisticsList()
    dataset = next((d for d in statistics.datasets if d.name in _DEFAULT_SLICES), None)
    if dataset is None and statistics.datasets:
        dataset = statistics.datasets[0]
    result.datasets.add().CopyFrom(dataset or statistics_pb2.DatasetFeatureStatistics())
    for feature in result.datasets[0].features:
        kind = feature.WhichOneof("stats")
        if kind:
            _count_empty_as_missing(getattr(feature, kind).common_stats)
    return result


def _count_empty_as_missing(common: statistics_pb2.CommonStatistics) -> None:
    if common.max_num_values > 1 or common.tot_num_values >= common.num_non_missing:
        return  # in lists of several values, an empty one may mean something
    empty = common.num_non_missing - common.tot_num_values
    common.num_non_missing -= empty
    common.num_missing += empty
    common.min_num_values = common.max_num_values
    for presence in common.presence_and_valency_stats[:1]:
        presence.num_non_missing -= empty
        presence.num_missing += empty
        presence.min_num_values = presence.max_num_values


def summarize(statistics: statistics_pb2.DatasetFeatureStatisticsList) -> DataSummary:
    """What `overall` leaves of `statistics`, as plain values."""
    dataset = overall(statistics).datasets[0]
    columns = {}
    for feature in dataset.features:
        column = _column(feature)
        columns[column.name] = column
    return DataSummary(num_rows=float(dataset.num_examples), columns=columns)


def _column(feature: statistics_pb2.FeatureNameStatistics) -> ColumnSummary:
    name = feature.name or ".".join(feature.path.step)
    kind = feature.WhichOneof("stats")
    number = category = None
    common = getattr(feature, kind).common_stats if kind else statistics_pb2.CommonStatistics()
    if kind == "num_stats" and common.num_non_missing:
        number = _number(feature.num_stats)
    elif kind == "string_stats":
        category = _category(feature.string_stats)
    return ColumnSummary(
        name=name,
        type=_TYPE_NAMES[feature.type],
        num_present=float(common.num_non_missing),
        num_missing=float(common.num_missing),
        max_values=common.max_num_values,
        number=number,
        category=category,
    )


def _number(stats: statistics_pb2.NumericStatistics) -> NumberSummary:
    quantiles = _histogram(stats, statistics_pb2.Histogram.QUANTILES)
    standard = _histogram(stats, statistics_pb2.Histogram.STANDARD)
    buckets = quantiles.buckets if quantiles and quantiles.buckets else (standard.buckets if standard else [])
    return NumberSummary(
        num_values=float(stats.common_stats.tot_num_values),
        low=stats.min,
        high=stats.max,
        mean=stats.mean,
        std_dev=stats.std_dev,
        num_zeros=float(stats.num_zeros),
        num_nan=float(max((histogram.num_nan for histogram in stats.histograms), default=0)),
        distribution=Distribution.make(
            [Bucket(b.low_value, b.high_value, b.sample_count) for b in buckets], float(stats.num_zeros)
        ),
    )


def _histogram(stats: statistics_pb2.NumericStatistics, kind: int) -> statistics_pb2.Histogram | None:
    return next((histogram for histogram in stats.histograms if histogram.type == kind), None)


def _category(stats: statistics_pb2.StringStatistics) -> CategorySummary:
    counts = {bucket.label: bucket.sample_count for bucket in stats.rank_histogram.buckets}
    total = float(stats.common_stats.tot_num_values)
    return CategorySummary(
        counts=counts, num_values=total, unique=stats.unique, complete=bool(counts) and len(counts) >= stats.unique
    )
