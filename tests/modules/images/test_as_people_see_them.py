"""What a served model sees of a file that a client sends is what ingestion would have stored of it for training."""

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from components.example_gen.config import ImageConfig
from components.example_gen.images import picture
from modules.images import pictures
from modules.images.orientation import orientation

GENERATOR = np.random.default_rng(5)
# Smooth, for JPEG, and its eight ways up are all different.
PLANE = np.add.outer(np.arange(32) * 4, np.arange(48)).astype(np.uint8)
COLOURS = np.stack([PLANE, PLANE // 2, 255 - PLANE], axis=2)
CLEAR = np.dstack([COLOURS, np.tile(np.linspace(0, 255, 48).astype(np.uint8), (32, 1))])
ORIENTATION = 0x0112

_orientation = tf.function(orientation, autograph=False, input_signature=[tf.TensorSpec([], tf.string)])
_decoders = {
    channels: tf.function(
        lambda data, channels=channels: pictures.decode(data, channels),
        autograph=False,
        input_signature=[tf.TensorSpec([], tf.string)],
    )
    for channels in (1, 3)
}


def saved(image, kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(buffer, kind, **options)
    return buffer.getvalue()


def exif(turned: int, endian: str = "<") -> Image.Exif:
    found = Image.Exif()
    found.endian = endian
    found[0x010F] = "A maker of cameras"
    found[ORIENTATION] = turned
    return found


def palette(**options) -> Image.Image:
    image = Image.fromarray(COLOURS).quantize(16)
    image.info.update(options)
    return image


def sixteen_bits() -> Image.Image:
    return Image.fromarray(PLANE.astype(np.uint16) * 257 + 90)


FILES = {
    "jpeg": saved(COLOURS, "JPEG", quality=95),
    "grey jpeg": saved(PLANE, "JPEG", quality=95),
    "cmyk jpeg": saved(Image.fromarray(COLOURS).convert("CMYK"), "JPEG", quality=95),
    "png": saved(COLOURS, "PNG"),
    "grey": saved(PLANE, "PNG"),
    "alpha": saved(CLEAR, "PNG"),
    "grey alpha": saved(Image.fromarray(CLEAR).convert("LA"), "PNG"),
    "all clear": saved(np.zeros((9, 5, 4), np.uint8), "PNG"),
    "palette": saved(palette(), "PNG"),
    "palette with a clear colour": saved(palette(), "PNG", transparency=3),
    "palette of clear colours": saved(palette(), "PNG", transparency=bytes(range(0, 256, 16))),
    "clear colour": saved(COLOURS, "PNG", transparency=tuple(int(value) for value in COLOURS[4, 4])),
    "16 bits": saved(sixteen_bits(), "PNG"),
    "1 bit": saved(Image.fromarray(PLANE > 90), "PNG"),
    "turned png": saved(COLOURS, "PNG", exif=exif(6)),
    "turned and clear": saved(CLEAR, "PNG", exif=exif(8)),
    **{f"jpeg turned {turned}": saved(COLOURS, "JPEG", quality=95, exif=exif(turned)) for turned in range(1, 9)},
}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", FILES)
def test_a_sent_file_looks_as_it_would_after_ingestion(name, channels):
    if (name, channels) == ("cmyk jpeg", 1):
        pytest.skip("TensorFlow cannot make grey of CMYK; docs/images.md says so")
    stored = picture.examine(FILES[name], "photo", ImageConfig()).encoded
    sent = _decoders[channels](FILES[name]).numpy().astype(int)
    expected = _decoders[channels](stored).numpy().astype(int)
    assert sent.shape == expected.shape
    written_as_jpeg_again = name == "cmyk jpeg" or name.startswith("jpeg turned")
    assert np.abs(sent - expected).max() <= (6 if written_as_jpeg_again else 1)


@pytest.mark.parametrize("name", [name for name in FILES if name != "cmyk jpeg"])
def test_stored_pixels_are_those_that_pillow_shows(name):
    stored = picture.examine(FILES[name], "photo", ImageConfig()).encoded
    with Image.open(io.BytesIO(stored)) as image:
        shown = np.asarray(image.convert("RGB")).astype(int)
    assert np.abs(_decoders[3](stored).numpy() - shown).max() <= (
        8 if "jpeg" in name else 1
    )  # TensorFlow's decoder of JPEG is not Pillow's


@pytest.mark.parametrize("endian", ["<", ">"])
@pytest.mark.parametrize("turned", range(1, 9))
def test_every_orientation_in_both_byte_orders(turned, endian):
    assert _orientation(saved(COLOURS, "JPEG", exif=exif(turned, endian))).numpy() == turned
    assert _orientation(saved(COLOURS, "PNG", exif=exif(turned, endian))).numpy() == turned


def test_other_segments_and_fillers_may_come_first():
    encoded = saved(COLOURS, "JPEG", exif=exif(6))
    note = b"\xff\xff\xff\xfe\x00\x06\xff\xe1\x00\x00"  # a comment after fillers, which looks like EXIF's segment
    profile = b"\xff\xe2\x80\x02" + bytes(0x8000)
    assert _orientation(encoded[:2] + note + profile + encoded[2:]).numpy() == 6


def test_nonsense_is_upright_and_ends():
    whole = saved(COLOURS, "JPEG", exif=exif(6))
    cuts = [whole[:length] for length in (*range(0, 120), len(whole) // 2)]
    place = whole.index(b"Exif\0\0") + 6
    noise = [whole[:place] + GENERATOR.bytes(60) + whole[place + 60 :] for _ in range(100)]
    png = saved(COLOURS, "PNG", exif=exif(3))
    noise += [png[:at] + GENERATOR.bytes(4) + png[at + 4 :] for at in range(0, 120)]
    found = {int(_orientation(data).numpy()) for data in [*cuts, *noise, b"GIF89a", b"\xff\xd8", b"\xff\xd8\xff\xe1"]}
    assert found <= set(range(1, 9))
    assert _orientation(saved(COLOURS, "JPEG", exif=exif(9))).numpy() == 1


@pytest.mark.parametrize("name", FILES)
def test_training_sees_of_what_is_stored_what_evaluation_sees(name):
    stored = tf.constant(picture.examine(FILES[name], "photo", ImageConfig()).encoded)
    for channels in (1, 3):
        np.testing.assert_array_equal(pictures.decode_stored(stored, channels), _decoders[channels](stored))
