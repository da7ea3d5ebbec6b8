"""JPEG files that cost as much to read as photographs: smooth, coloured, of many sizes, with some noise."""

import pathlib

import numpy as np

_CLASSES = ("red", "green", "blue", "grey")
_PER_CLASS = 80
_SEED = 8


def write(folder: str) -> None:
    """Writes `folder`/<class>/<number>.jpg, 320 files of about 500 x 375 pixels. The main colour is the class."""
    from PIL import Image

    generator = np.random.default_rng(_SEED)
    for index, name in enumerate(_CLASSES):
        place = pathlib.Path(folder, name)
        place.mkdir()
        for number in range(_PER_CLASS):
            width, height = int(generator.integers(440, 560)), int(generator.integers(330, 420))
            coarse = generator.integers(0, 160, (9, 12, 3)).astype(np.uint8)
            if index < coarse.shape[2]:
                coarse[:, :, index] += 90
            smooth = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))
            noisy = smooth.astype(np.int16) + generator.integers(-8, 9, smooth.shape)
            image = Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))
            image.save(place / f"{number:03d}.jpg", quality=85)
