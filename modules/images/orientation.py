"""Which way up a picture is, read from its file within the graph: cameras store it as it came, and note how to turn it.

TensorFlow's decoders do not look at that note (EXIF's orientation). Ingestion has turned its pictures already, but a
served model gets them as telephones write them.
"""

import tensorflow as tf

from modules.images.blocks import block_of_png, exif_of_jpeg, number

_UPRIGHT = 1
_TAG, _LONG = 0x0112, 4
_ENTRY_BYTES = 12


def orientation(encoded: tf.Tensor) -> tf.Tensor:
    """EXIF's orientation of a JPEG or PNG file: int64, 1 to 8; 1 (upright) where the file says nothing sensible.

    Args:
      encoded: a string scalar, which may be anything.
    """
    data = tf.io.decode_raw(encoded, tf.uint8)
    begin, end = tf.cond(tf.io.is_jpeg(encoded), lambda: exif_of_jpeg(data), lambda: block_of_png(data, b"eXIf"))
    return tf.cond(end > begin, lambda: _from_exif(data[begin:end]), lambda: tf.constant(_UPRIGHT, tf.int64))


def upright(image: tf.Tensor, turned: tf.Tensor) -> tf.Tensor:
    """The image [height, width, channels] as people see it, which has the two sides exchanged if it lay on one."""

    def is_one_of(*values: int) -> tf.Tensor:
        return tf.reduce_any(turned == tf.constant(values, tf.int64))

    def turn() -> tf.Tensor:
        standing = tf.cond(turned >= 5, lambda: tf.transpose(image, [1, 0, 2]), lambda: image)
        mirrored = tf.cond(is_one_of(2, 3, 6, 7), lambda: standing[:, ::-1], lambda: standing)
        return tf.cond(is_one_of(3, 4, 7, 8), lambda: mirrored[::-1], lambda: mirrored)

    result = tf.cond(turned == _UPRIGHT, lambda: image, turn)
    result.set_shape([None, None, image.shape[-1]])
    return result


def _from_exif(data: tf.Tensor) -> tf.Tensor:
    """The orientation that EXIF's bytes, uint8 [n], note: a TIFF header, and a table of numbered entries."""
    big = data[0] == ord("M")  # else I, for Intel
    table = number(data, tf.constant(4, tf.int64), 4, big)
    count = tf.minimum(number(data, table, 2, big), tf.size(data, tf.int64) // _ENTRY_BYTES)
    entries = table + 2 + _ENTRY_BYTES * tf.range(count)
    places = tf.boolean_mask(entries, number(data, entries, 2, big) == _TAG)
    is_long = number(data, places + 2, 2, big) == _LONG
    values = tf.where(is_long, number(data, places + 8, 4, big), number(data, places + 8, 2, big))
    value = tf.concat([values, [_UPRIGHT]], axis=0)[0]
    return tf.where((value >= 1) & (value <= 8), value, _UPRIGHT)
