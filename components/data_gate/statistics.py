"""TFDV statistics of files, made in this process, batch by batch: memory does not grow with the number of rows."""

from collections.abc import Iterable

import pyarrow as pa
import tensorflow_data_validation as tfdv
from tensorflow_data_validation.statistics import stats_impl
from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2


def statistics_of(
    batches: Iterable[pa.RecordBatch], schema: schema_pb2.Schema | None = None
) -> statistics_pb2.DatasetFeatureStatisticsList:
    """Statistics of list columns; a feature may be missing from some batches.

    Args:
      batches: as `example_files.decode` makes them.
      schema: says which integers stand for categories, so that their values are counted.
    """
    options = tfdv.StatsOptions(schema=schema)
    generators = stats_impl.get_generators(options, in_memory=True)
    accumulators = [generator.create_accumulator() for generator in generators]
    for batch in batches:
        accumulators = [
            generator.add_input(accumulator, batch)
            for generator, accumulator in zip(generators, accumulators, strict=True)
        ]
    return stats_impl.extract_statistics_output(accumulators, generators)
