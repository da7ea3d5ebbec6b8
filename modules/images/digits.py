"""The default data: 1,797 handwritten digits that scikit-learn carries, written out as PNG files.

They are the test part of "Optical Recognition of Handwritten Digits" (E. Alpaydin, C. Kaynak; UCI Machine Learning
Repository): 8 x 8 pixels with 17 levels of grey, written by 13 people.
"""

import pathlib

import numpy as np

_LEVELS = 16


def write(folder: str) -> None:
    """Writes `folder`/<digit>/<number>.png, white on black, 0 to 255."""
    from PIL import Image
    from sklearn import datasets

    digits = datasets.load_digits()
    pixels = np.round(digits.images * (255 / _LEVELS)).astype(np.uint8)
    for number, (image, label) in enumerate(zip(pixels, digits.target, strict=True)):
        place = pathlib.Path(folder, str(label))
        place.mkdir(exist_ok=True)
        Image.fromarray(image).save(place / f"{number:04d}.png")
