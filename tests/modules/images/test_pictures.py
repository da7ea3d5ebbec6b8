"""Pixels from encoded pictures: the same everywhere where nothing is random, and repeatable where it is."""

import numpy as np
import pytest
import tensorflow as tf

from modules.images import pictures
from modules.images.config import ImageModelConfig
from modules.images.features import ENCODED_KEY, PIXELS_KEY
from modules.training import TrainingConfigError

SMALL = ImageModelConfig(depth=18, stem="small", image_size=8, channels=1, crop="none", flip=False)
LARGE = ImageModelConfig(image_size=32)


def png(pixels) -> bytes:
    return tf.io.encode_png(np.asarray(pixels, np.uint8)).numpy()


def gradient(height: int, width: int, channels: int = 3) -> np.ndarray:
    plane = np.add.outer(np.arange(height) * 2, np.arange(width) * 3)
    return np.stack([plane % 256, (plane * 2) % 256, (255 - plane) % 256], axis=2)[:, :, :channels].astype(np.uint8)


def seeds(count: int, epoch: int = 0) -> tf.Tensor:
    return tf.stack([tf.fill([count], tf.constant(epoch, tf.int64)), tf.range(count, dtype=tf.int64)], axis=1)


def pixels(encoded, given, config) -> np.ndarray:
    function = tf.function(pictures.pixels_of(config), autograph=False)
    return function({ENCODED_KEY: tf.constant(encoded)}, given)[PIXELS_KEY].numpy()


def test_a_picture_of_the_right_size_is_left_as_it_is():
    image = np.random.default_rng(0).integers(0, 256, (8, 8, 1), np.uint8)
    np.testing.assert_array_equal(pixels([png(image)], None, SMALL)[0], image)
    np.testing.assert_array_equal(pixels([png(image)], seeds(1), SMALL)[0], image)


def test_batches_mix_sizes_formats_and_colours():
    encoded = [png(gradient(20, 50)), png(gradient(64, 33, 1)), tf.io.encode_jpeg(gradient(100, 40)).numpy()]
    found = pixels(encoded, None, LARGE)
    assert (found.shape, found.dtype) == ((3, 32, 32, 3), np.uint8)
    np.testing.assert_array_equal(found[1, :, :, 0], found[1, :, :, 2])
    assert pixels(encoded, seeds(3), LARGE).shape == (3, 32, 32, 3)


def test_evaluation_takes_the_middle():
    image = np.zeros((40, 80, 3), np.uint8)
    image[:, 20:60] = 200
    assert (pixels([png(image)], None, LARGE) == 200).all()


def test_the_same_seed_gives_the_same_view_whatever_else_is_in_the_batch():
    config = ImageModelConfig(image_size=16, brightness=0.2)
    encoded = [png(gradient(30 + i, 40)) for i in range(4)]
    together = pixels(encoded, seeds(4), config)
    alone = pixels(encoded[2:3], seeds(4)[2:3], config)
    np.testing.assert_array_equal(together[2:3], alone)
    assert (pixels(encoded, seeds(4, epoch=1), config) != together).any()


def test_shifts_reach_as_far_as_they_may_and_no_farther():
    config = ImageModelConfig(depth=18, stem="small", image_size=8, channels=1, crop="shift", shift=1, flip=False)
    image = np.zeros((8, 8, 1), np.uint8)
    image[4, 4] = 255
    views = pixels([png(image)] * 64, seeds(64), config)
    places = {tuple(np.argwhere(view[:, :, 0])[0]) for view in views}
    assert places == {(row, column) for row in (3, 4, 5) for column in (3, 4, 5)}


def test_flips_are_half_of_the_views():
    config = ImageModelConfig(image_size=8, channels=1, crop="none", flip=True)
    image = np.zeros((8, 8, 1), np.uint8)
    image[:, :4] = 255
    views = pixels([png(image)] * 200, seeds(200), config)
    assert 60 < sum(view[0, 0, 0] == 0 for view in views) < 140


def test_a_jpeg_part_is_a_part_of_the_whole():
    config = ImageModelConfig(image_size=24, flip=False)
    image = np.full((60, 90, 3), 120, np.uint8)
    encoded = tf.io.encode_jpeg(image, quality=100).numpy()
    assert np.abs(pixels([encoded] * 8, seeds(8), config).astype(int) - 120).max() <= 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dept": 18}, r"train.model: unknown setting 'dept'; allowed are brightness, channels"),
        ({"depth": 19}, r"train.model: depth is 19; expected one of \(18, 34, 50\)"),
        ({"width": "64"}, r"train.model: width is '64'; expected int"),
        ({"flip": 1}, r"train.model: flip is 1; expected bool"),
        ({"label_smoothing": 1}, r"label_smoothing is 1.0; expected 0 or more and less than 1"),
        ({"image_size": 8, "shift": 8}, r"shift is 8; expected 0 to 7"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(TrainingConfigError, match=message):
        ImageModelConfig.from_dict(settings)
