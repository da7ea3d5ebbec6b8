"""Pieces put together as shards of balanced size."""

import random
import shutil
from collections.abc import Iterator
from typing import NamedTuple

from components.example_gen import storage
from components.example_gen.chunks import Outcome
from components.example_gen.config import IngestConfig
from components.example_gen.pieces import Piece


class Shard(NamedTuple):
    """One output file of a split, in staging until everything is done."""

    split: str
    name: str
    path: str
    rows: int
    num_bytes: int
    pieces: tuple[Piece, ...]


def plan(outcomes: list[Outcome], config: IngestConfig, staging: str) -> Iterator[Shard]:
    """Divides the pieces of each split among shards: the largest first, each to the shard that is smallest so far."""
    for index, split in enumerate(config.split.names):
        pieces = [piece for outcome in outcomes for piece in outcome.pieces if piece.split == index]
        if not pieces:
            continue
        size = sum(piece.num_bytes for piece in pieces)
        count = min(len(pieces), max(config.shards, -(-size // config.max_shard_bytes)))
        bins: list[list[Piece]] = [[] for _ in range(count)]
        sizes = [0] * count
        for piece in sorted(pieces, key=lambda piece: (-piece.num_bytes, piece[:4])):
            smallest = sizes.index(min(sizes))
            bins[smallest].append(piece)
            sizes[smallest] += piece.num_bytes
        for number, members in enumerate(_ordered(bins, config)):
            suffix = ".gz" if config.compression == "gzip" else ""
            name = f"data_tfrecord-{number:05d}-of-{count:05d}{suffix}"
            rows = sum(piece.rows for piece in members)
            total = sum(piece.num_bytes for piece in members)
            yield Shard(split, name, f"{staging}/whole/Split-{split}/{name}", rows, total, tuple(members))


def _ordered(bins: list[list[Piece]], config: IngestConfig) -> list[list[Piece]]:
    ordered = sorted(sorted(members, key=lambda piece: piece[1:4]) for members in bins)
    if config.shuffle:
        order = random.Random(config.split.seed)
        for members in ordered:
            order.shuffle(members)
    return ordered


def assemble(shard: Shard) -> Shard:
    """Puts the pieces one after the other. Gzip members and TFRecords both allow that."""
    storage.make_folder(shard.path.rsplit("/", 1)[0])
    with storage.naming(shard.path), storage.writing(shard.path) as target:
        for piece in shard.pieces:
            with storage.reading(piece.path) as source:
                shutil.copyfileobj(source, target, 1 << 20)
    return shard._replace(pieces=())
