"""Documents of one split that are, but for a few words, in another: a model would be praised for remembering them."""

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Sequence

WORDS = 8
"""Words in a shingle: so many in a row hardly repeat by chance."""
_SAMPLED_FROM = 200
_SAMPLE = 4


@dataclasses.dataclass(frozen=True)
class NearDuplicate:
    """`overlap` is the share of the document's shingles that are in the other one too."""

    document: int
    other: int
    overlap: float


def near_duplicates(documents: Sequence[bytes], others: Sequence[bytes], at_least: float) -> list[NearDuplicate]:
    """For each of `documents` the one of `others` that holds most of it, where that is `at_least` so much of it.

    Shingles of long documents are sampled by their hash, the same ones on both sides, so that memory stays a fraction
    of the text.
    """
    holders: dict[int, list[int]] = {}
    for number, text in enumerate(others):
        for shingle in shingles(text):
            holders.setdefault(shingle, []).append(number)
    found = []
    for number, text in enumerate(documents):
        mine = shingles(text)
        sampled = {shingle for shingle in mine if shingle % _SAMPLE == 0}
        mine = sampled if len(mine) > _SAMPLED_FROM else mine
        counts = Counter(other for shingle in mine for other in holders.get(shingle, ()))
        if counts:
            other, shared = max(counts.items(), key=lambda item: (item[1], -item[0]))
            if shared >= at_least * len(mine):
                found.append(NearDuplicate(number, other, shared / len(mine)))
    return found


def shingles(text: bytes) -> set[int]:
    """Hashes of all runs of WORDS words; of a shorter text, of the whole."""
    words = text.lower().split()
    runs = (b" ".join(words[at : at + WORDS]) for at in range(max(1, len(words) - WORDS + 1)))
    return {int.from_bytes(hashlib.blake2b(run, digest_size=8).digest(), "little") for run in runs}
