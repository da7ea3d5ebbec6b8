"""From encoded pictures to pixels, in TensorFlow: the same code feeds training, evaluation and the served model.

In training it runs in tf.data, on the cores that feed the accelerator. Random choices come from a seed per example, so
that they do not depend on the number of workers, and a resumed training makes the same ones.
"""

from collections.abc import Callable, Mapping

import tensorflow as tf

from modules.images.blocks import block_of_png, number
from modules.images.config import ImageModelConfig
from modules.images.features import ENCODED_KEY, PIXELS_KEY
from modules.images.orientation import orientation, upright

_AREA = (0.08, 1.0)
_ASPECT = (3 / 4, 4 / 3)
# Where a PNG says what its pixels are, and the bit for transparency in it.
_PNG_COLOURS, _PNG_ALPHA = 25, 4


def pixels_of(config: ImageModelConfig) -> Callable[[dict, tf.Tensor | None], dict]:
    """The engine's `features_fn`: {encoded_image: string [n]} to {pixels: uint8 [n, size, size, channels]}."""
    shape = [config.image_size, config.image_size, config.channels]

    def features_fn(features: Mapping[str, tf.Tensor], seeds: tf.Tensor | None) -> dict[str, tf.Tensor]:
        encoded = tf.reshape(features[ENCODED_KEY], [-1])
        signature = tf.TensorSpec(shape, tf.uint8)
        if seeds is None:
            pixels = tf.map_fn(lambda data: for_evaluation(data, config), encoded, fn_output_signature=signature)
        else:
            pixels = tf.map_fn(
                lambda pair: for_training(pair[0], pair[1], config), (encoded, seeds), fn_output_signature=signature
            )
        return {PIXELS_KEY: pixels}

    return features_fn


def for_evaluation(encoded: tf.Tensor, config: ImageModelConfig) -> tf.Tensor:
    """The middle of the picture, square, uint8 [size, size, channels]."""
    image = decode(encoded, config.channels)
    height, width = tf.shape(image)[0], tf.shape(image)[1]
    if config.crop != "area":
        return _bytes(_resize(image, config.image_size))
    side = tf.cast(tf.round(tf.cast(tf.minimum(height, width), tf.float32) * (1 - config.resize_margin)), tf.int32)
    side = tf.maximum(side, 1)
    square = tf.slice(image, [(height - side) // 2, (width - side) // 2, 0], [side, side, config.channels])
    return _bytes(_resize(square, config.image_size))


def for_training(encoded: tf.Tensor, seed: tf.Tensor, config: ImageModelConfig) -> tf.Tensor:
    """A random view of the picture, uint8 [size, size, channels]; `seed` is int64 [2]."""
    seeds = tf.unstack(tf.random.experimental.stateless_split(seed, 4))
    size = config.image_size
    if config.crop == "area":
        image = _resize(_random_area(encoded, seeds[0], config.channels), size)
    else:
        image = _resize(decode_stored(encoded, config.channels), size)
    if config.crop == "shift" and config.shift:
        padded = tf.pad(image, [[config.shift] * 2, [config.shift] * 2, [0, 0]])
        image = tf.image.stateless_random_crop(padded, [size, size, config.channels], seeds[0])
    if config.flip:
        image = tf.image.stateless_random_flip_left_right(image, seeds[1])
    if config.brightness:
        image = tf.image.stateless_random_brightness(image, 255 * config.brightness, seeds[2])
        image = tf.image.stateless_random_contrast(image, 1 - config.brightness, 1 + config.brightness, seeds[3])
    return _bytes(image)


def decode(encoded: tf.Tensor, channels: int) -> tf.Tensor:
    """uint8 [height, width, channels] of a JPEG or PNG file as people see it: upright, and on white where it is clear.

    Clients send pictures as they are, and ingestion stores them so: then this is `decode_stored`, only slower.
    """
    is_clear = tf.cond(_is_png(encoded), lambda: _may_be_clear(encoded), lambda: False)
    image = tf.cond(
        is_clear,
        lambda: _in_channels(_on_white(tf.io.decode_png(encoded, channels=4)), channels),
        lambda: decode_stored(encoded, channels),
    )
    return upright(image, orientation(encoded))


def decode_stored(encoded: tf.Tensor, channels: int) -> tf.Tensor:
    """The same of a file that ingestion has stored. To look for EXIF takes milliseconds, which training has not."""

    def as_it_is() -> tf.Tensor:
        return tf.io.decode_image(encoded, channels=channels, expand_animations=False)

    def in_grey() -> tf.Tensor:
        # decode_png(channels=1) has weights of its own; these are JPEG's, so that the format makes no difference.
        return _in_channels(tf.io.decode_png(encoded, channels=3), channels)

    image = tf.cond(_is_png(encoded), in_grey, as_it_is) if channels == 1 else as_it_is()
    image.set_shape([None, None, channels])
    return image


def _is_png(encoded: tf.Tensor) -> tf.Tensor:
    return tf.strings.substr(encoded, 0, 4) == b"\x89PNG"


def _may_be_clear(encoded: tf.Tensor) -> tf.Tensor:
    """Whether a PNG has transparency."""
    data = tf.io.decode_raw(encoded, tf.uint8)
    begin, end = block_of_png(data, b"tRNS")  # a colour, or colours of the palette
    kind = number(data, tf.constant(_PNG_COLOURS, tf.int64), 1)
    return (end > begin) | (kind & _PNG_ALPHA != 0)


def _in_channels(colours: tf.Tensor, channels: int) -> tf.Tensor:
    """Grey of uint8 [height, width, 3], where the model wants one channel."""
    return _bytes(tf.image.rgb_to_grayscale(tf.cast(colours, tf.float32))) if channels == 1 else colours


def _on_white(pixels: tf.Tensor) -> tf.Tensor:
    colours, alpha = tf.cast(pixels[:, :, :3], tf.int32), tf.cast(pixels[:, :, 3:], tf.int32)
    return tf.cast((colours * alpha + 255 * (255 - alpha) + 127) // 255, tf.uint8)


def _random_area(encoded: tf.Tensor, seed: tf.Tensor, channels: int) -> tf.Tensor:
    """A random part of the picture. Of a JPEG no more is decoded than what is in it."""
    jpeg = tf.io.is_jpeg(encoded)
    shape = tf.cond(
        jpeg, lambda: tf.image.extract_jpeg_shape(encoded), lambda: tf.shape(decode_stored(encoded, channels))
    )
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.concat([shape[:2], [channels]], axis=0),
        tf.zeros([1, 0, 4]),
        seed,
        area_range=_AREA,
        aspect_ratio_range=_ASPECT,
        use_image_if_no_bounding_boxes=True,
    )
    window = tf.concat([begin[:2], size[:2]], axis=0)
    part = tf.cond(
        jpeg,
        lambda: tf.image.decode_and_crop_jpeg(encoded, window, channels=channels),
        lambda: tf.slice(decode_stored(encoded, channels), begin, tf.concat([size[:2], [channels]], axis=0)),
    )
    part.set_shape([None, None, channels])
    return part


def _resize(image: tf.Tensor, size: int) -> tf.Tensor:
    """float32 [size, size, channels], values 0 to 255."""
    shape = tf.shape(image)[:2]
    as_is = tf.reduce_all(shape == size)
    resized = tf.cond(
        as_is,
        lambda: tf.cast(image, tf.float32),
        lambda: tf.image.resize(image, [size, size], antialias=True),
    )
    resized.set_shape([size, size, image.shape[-1]])
    return resized


def _bytes(image: tf.Tensor) -> tf.Tensor:
    """A quarter of the bytes on the way to the accelerator; half a grey level is nobody's loss."""
    return tf.saturate_cast(tf.round(image), tf.uint8)
