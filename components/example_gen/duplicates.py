"""Rows that are in two splits. Hashing and time keep equal rows together; splits by file are as the files are."""

import itertools
from collections.abc import Iterable

import numpy as np

from components.example_gen import storage
from components.example_gen.chunks import Outcome

# Hashes are compared in ranges, so that memory stays a fraction of all hashes.
_RANGES = 8


def count(outcomes: Iterable[Outcome], names: list[str]) -> dict[tuple[str, str], int]:
    """(split, other split) to how many distinct rows are in both, where there are any."""
    paths: dict[int, list[str]] = {}
    for outcome in outcomes:
        for split, path in outcome.hashes:
            paths.setdefault(split, []).append(path)
    shared: dict[tuple[str, str], int] = {}
    for part in range(_RANGES if paths else 0):
        present = {split: _distinct(paths[split], part) for split in sorted(paths)}
        for one, other in itertools.combinations(present, 2):
            both = len(np.intersect1d(present[one], present[other], assume_unique=True))
            if both:
                key = (names[one], names[other])
                shared[key] = shared.get(key, 0) + both
    return shared


def _distinct(paths: list[str], part: int) -> np.ndarray:
    chosen = []
    for path in paths:
        with storage.reading(path) as file:
            hashes = np.frombuffer(file.read(), np.uint64)
        chosen.append(hashes[hashes >> np.uint64(61) == part])
    return np.unique(np.concatenate(chosen))
