"""The distribution of a numeric column, rebuilt from TFDV's quantile histogram.

TFDV compares numbers over ten buckets of equal width. One outlier (1,710 miles among taxi trips) puts nearly all of the
data into the first bucket, and a change of unit becomes invisible. Deciles do not have that blind spot.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Bucket:
    """`count` values in (low, high], or all equal to `low` where both are equal."""

    low: float
    high: float
    count: float


@dataclasses.dataclass(frozen=True)
class Distribution:
    """Values other than zero as buckets, and the number of zeros, which TFDV counts exactly."""

    buckets: tuple[Bucket, ...]
    num_zeros: float

    @classmethod
    def make(cls, buckets: Sequence[Bucket], num_zeros: float) -> "Distribution":
        """From a histogram of all values; the zeros are taken out of the buckets that hold them."""
        rest = num_zeros
        kept = []
        # Buckets of zeros alone first: what is left over lies in those that begin or end at zero, or contain it.
        for bucket in sorted(buckets, key=lambda b: (not b.low == b.high == 0, b.low)):
            taken = min(rest, bucket.count) if bucket.low <= 0 <= bucket.high else 0.0
            rest -= taken
            if bucket.count > taken:
                kept.append(Bucket(bucket.low, bucket.high, bucket.count - taken))
        return cls(tuple(sorted(kept, key=lambda b: (b.low, b.high))), num_zeros)

    def scaled(self, factor: float) -> "Distribution":
        """Of the same values, each multiplied by `factor` (above 0)."""
        buckets = tuple(Bucket(b.low * factor, b.high * factor, b.count) for b in self.buckets)
        return Distribution(buckets, self.num_zeros)

    @property
    def total(self) -> float:
        """Number of values, zeros included."""
        return self.num_zeros + sum(bucket.count for bucket in self.buckets)

    def inner_edges(self) -> list[float]:
        """The bucket edges between smallest and largest value, each once, in order.

        The two extremes say more about one outlier than about where the data lies, so cells reach beyond them.
        """
        edges = {edge for bucket in self.buckets for edge in (bucket.low, bucket.high)}
        inner = sorted(edge for edge in edges if math.isfinite(edge))[1:-1]
        return inner or sorted(edges)[:1]

    def up_to(self, x: float) -> float:
        """How many values other than zero are at most `x`; inside a bucket they are taken as evenly spread."""
        return sum(bucket.count * _share_up_to(bucket, x) for bucket in self.buckets)

    def share_above(self, x: float) -> float:
        """Share of all values above `x`; exact for 0 where no value is negative."""
        below = self.up_to(x) + (self.num_zeros if x >= 0 else 0.0)
        return 1 - below / self.total if self.total else 0.0

    def shares(self, edges: Sequence[float]) -> list[float]:
        """Share of zeros, then of the other values between consecutive `edges` and beyond both ends."""
        total = self.total or 1.0
        sums = [0.0, *(self.up_to(edge) for edge in edges), sum(bucket.count for bucket in self.buckets)]
        between = [max(0.0, after - before) for before, after in itertools.pairwise(sums)]
        return [self.num_zeros / total, *(count / total for count in between)]


def _share_up_to(bucket: Bucket, x: float) -> float:
    if x >= bucket.high:
        return 1.0
    if x <= bucket.low or not math.isfinite(bucket.high - bucket.low):
        return 0.0
    return (x - bucket.low) / (bucket.high - bucket.low)
