"""A typed column as a tf.Example feature: any number of values in each row."""

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

FEATURE_KINDS = {"int": "int64_list", "float": "float_list", "bytes": "bytes_list", "none": "none"}
_VALUE_TYPES = {"int": pa.int64(), "float": pa.float32(), "bytes": pa.large_binary(), "none": pa.large_binary()}


@dataclasses.dataclass(frozen=True)
class Column:
    """One feature of all rows of a block.

    Attributes:
      kind: "int", "float", "bytes" or "none" (no row has a value).
      values: the values of all rows one after the other: int64, float32 or large_binary, no nulls.
      offsets: int64 [rows + 1]; row i has values[offsets[i]:offsets[i + 1]].
      absent: bool [rows]; True where the feature has not even a kind (a null, rather than an empty list).
    """

    kind: str
    values: pa.Array
    offsets: np.ndarray
    absent: np.ndarray | None = None

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(self.offsets) - 1


def scalar_column(kind: str, values: pa.Array, absent_nulls: bool = False) -> Column:
    """A column with at most one value per row.

    Args:
      kind: the feature kind.
      values: one per row; null is missing.
      absent_nulls: whether a missing value leaves the feature without a kind. In CSV it keeps the kind, as the stock
        CsvExampleGen has it; in Parquet and the like it does not, as the stock executors have it.
    """
    present = pc.is_valid(values).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(present, out=offsets[1:])
    flat = values.drop_null() if values.null_count else values
    if kind == "none":
        flat = pa.array([], pa.large_binary())
    absent = ~present if (absent_nulls or kind == "none") and not present.all() else None
    return Column(kind, flat.cast(_VALUE_TYPES[kind], safe=False), offsets, absent)
