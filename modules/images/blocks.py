"""What is where in a picture's file, found in the graph: JPEG and PNG are rows of blocks that say how long they are."""

from collections.abc import Callable

import tensorflow as tf

Span = tuple[tf.Tensor, tf.Tensor]
"""Where something begins and ends, int64; both are 0 if it is not there."""
_WINDOW = 12
"""Bytes at the beginning of a block that tell all about it."""
_MOST_BLOCKS = 10_000
"""Nobody shall keep a server busy with a file of nothing but empty blocks."""
# From a block's place and its first bytes, int64, to: is it the one, may more follow, its content, the next block.
_Block = Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]]


def exif_of_jpeg(data: tf.Tensor) -> Span:
    """The EXIF part of a JPEG file, uint8 [bytes].

    A JPEG's blocks: 0xFF, a kind, two bytes of length that count themselves, content. Those that tell of the picture
    (0xE0 to 0xEF, and comments, 0xFE) come before those that make it, and no others are looked at.
    """

    def block(place: tf.Tensor, head: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        kind, size = head[1], head[2] * 256 + head[3]
        is_filler = kind == 0xFF  # any number of 0xFF may stand before a kind
        goes_on = (head[0] == 0xFF) & (is_filler | (((kind & 0xF0 == 0xE0) | (kind == 0xFE)) & (size >= 2)))
        is_exif = goes_on & (kind == 0xE1) & tf.reduce_all(head[4:10] == list(b"Exif\0\0"))
        return is_exif, goes_on, place + 10, tf.where(is_filler, place + 1, place + 2 + size)

    return _walk(data, 2, block)


def block_of_png(data: tf.Tensor, kind: bytes) -> Span:
    """The content and checksum of the first block of a kind, such as b"eXIf", in a PNG file, uint8 [bytes].

    A PNG's blocks: four bytes of length, four of kind, content, a checksum of four.
    """

    def block(place: tf.Tensor, head: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        size = tf.reduce_sum(head[:4] * [1 << 24, 1 << 16, 1 << 8, 1])
        is_it = tf.reduce_all(head[4:8] == list(kind))
        return is_it, tf.constant(True), place + 8, place + 12 + size

    is_png = tf.reduce_all(tf.pad(data, [[0, _WINDOW]])[:8] == list(b"\x89PNG\r\n\x1a\n"))
    return tf.cond(is_png, lambda: _walk(data, 8, block), lambda: (tf.constant(0, tf.int64),) * 2)


def _walk(data: tf.Tensor, start: int, block: _Block) -> Span:
    """From block to block until one is the one, none may follow, or the file ends."""
    size = tf.size(data, tf.int64)
    padded = tf.pad(data, [[0, _WINDOW]])
    zero = tf.constant(0, tf.int64)

    def body(place: tf.Tensor, begin: tf.Tensor, end: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        head = tf.cast(tf.slice(padded, place[tf.newaxis], [_WINDOW]), tf.int64)
        is_it, goes_on, content, following = block(place, head)
        following = tf.minimum(following, size)
        return (
            tf.where(goes_on & ~is_it, following, size),
            tf.where(is_it, tf.minimum(content, following), begin),
            tf.where(is_it, following, end),
        )

    _, begin, end = tf.while_loop(
        lambda place, *_: place < size,
        body,
        (tf.constant(start, tf.int64), zero, zero),
        maximum_iterations=_MOST_BLOCKS,
    )
    return begin, end


def number(data: tf.Tensor, places: tf.Tensor, num_bytes: int, big: tf.Tensor | bool = True) -> tf.Tensor:
    """The unsigned numbers at `places`, int64 of its shape, with the big end first or last.

    Args:
      data: uint8 [bytes], one at least; behind its end are zeros.
    """
    order = tf.range(num_bytes, dtype=tf.int64)
    places = places[..., tf.newaxis] + order
    last = tf.size(data, tf.int64) - 1
    found = tf.where(places <= last, tf.cast(tf.gather(data, tf.minimum(places, last)), tf.int64), 0)
    return tf.reduce_sum(found * tf.where(big, 256 ** (num_bytes - 1 - order), 256**order), axis=-1)
