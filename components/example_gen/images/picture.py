"""One picture: is it whole, can TensorFlow read it as people see it, and what do statistics want to know of it.

JPEG and PNG files stay as they are, byte for byte, unless TensorFlow would show them otherwise than a viewer does:
turned by EXIF, in CMYK, with 16 bits, a palette or transparency. Those, and other formats, are written again.
"""

import dataclasses
import hashlib
import io
import os
import warnings
from typing import Any

import numpy as np

from components.example_gen.config import PICTURE_FACTS, ImageConfig
from components.example_gen.errors import IngestConfigError

_SUFFIX_FORMATS = {".jpg": "JPEG", ".jpeg": "JPEG", ".jpe": "JPEG", ".jfif": "JPEG", ".png": "PNG"}
_SUFFIX_FORMATS |= {".gif": "GIF", ".bmp": "BMP", ".webp": "WEBP", ".tif": "TIFF", ".tiff": "TIFF"}
_KEPT_MODES = {"JPEG": ("L", "RGB"), "PNG": ("L", "RGB")}
_MAGIC = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"BM", b"RIFF", b"II*\0", b"MM\0*")
_ENDS = {"JPEG": b"\xff\xd9", "PNG": b"IEND\xaeB`\x82"}
# Trailing bytes that cameras and editors leave after the end of a picture.
_END_WITHIN = 4096
_ORIENTATION = 0x0112
_HASH_BYTES = 8


class BadPictureError(Exception):
    """Why a file cannot be a row."""


@dataclasses.dataclass(frozen=True)
class Picture:
    """A picture that TensorFlow reads as people see it.

    Attributes:
      encoded: JPEG or PNG bytes.
      width, height: in pixels, upright.
      channels: 1 or 3.
      brightness: the mean of all values, 0 (black) to 1; None where pixels were not looked at.
      content: equal for equal pixels (check: decode) or for equal files (check: header).
      notes: what had to be done, such as "turned upright (EXIF)", with the value that made it necessary.
    """

    encoded: bytes
    width: int
    height: int
    channels: int
    brightness: float | None
    content: str
    notes: tuple[tuple[str, str], ...] = ()


def columns(config: ImageConfig) -> tuple[str, ...]:
    """The columns that a picture makes, without that of its class."""
    return (config.image_column, *PICTURE_FACTS)


def is_picture_name(name: str) -> bool:
    """Whether a file's name says that it is a picture."""
    return os.path.splitext(name)[1].lower() in _SUFFIX_FORMATS


def is_picture_head(head: bytes) -> bool:
    """Whether the first bytes of a file are a picture's."""
    return head.startswith(_MAGIC)


def examine(data: bytes, name: str, config: ImageConfig) -> Picture:
    """Looks at an image file.

    Args:
      data: its content.
      name: its name, whose suffix is held against the content.
      config: how closely to look.

    Raises:
      BadPictureError: it is empty, damaged, cut off, too large or no picture at all.
    """
    if not data:
        raise BadPictureError("the file is empty (0 bytes)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's remarks on sizes and metadata; what matters is raised here
        image = _opened(data, config)
        notes = _names(image, name)
        if config.check == "decode":
            _load(image)
        else:
            _check_end(data, image.format)
        reasons = _reasons(image)
        if reasons:
            _load(image)
            data, image = _written_again(image, config)
            notes += reasons
    return _describe(data, image, config, tuple(notes))


def encode(pixels: np.ndarray, config: ImageConfig) -> Picture:
    """A picture from an array: uint8 [height, width] or [height, width, 1 or 3]."""
    library = _pillow()
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    image = library.fromarray(np.ascontiguousarray(pixels))
    return _describe(_saved(image, "PNG", config), image, config, ())


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise IngestConfigError("pictures need the package pillow: pip install pillow") from None
    Image.MAX_IMAGE_PIXELS = None  # `max_pixels` counts instead
    return Image


def _opened(data: bytes, config: ImageConfig) -> Any:
    library = _pillow()
    try:
        image = library.open(io.BytesIO(data))
    except library.UnidentifiedImageError:
        if is_picture_head(data):
            raise BadPictureError("damaged: it begins as a picture does, and cannot be read as one") from None
        raise BadPictureError(f"not a picture: it begins with {data[:8]!r}") from None
    except Exception as error:  # Pillow's plugins raise whatever the damage makes them
        raise BadPictureError(f"damaged or cut off: {error}") from None
    if image.width * image.height > config.max_pixels:
        raise BadPictureError(f"{image.width} x {image.height} pixels are more than max_pixels ({config.max_pixels})")
    return image


def _load(image: Any) -> None:
    try:
        image.load()
    except Exception as error:  # as above
        raise BadPictureError(f"damaged or cut off: {error}") from None


def _check_end(data: bytes, kind: str) -> None:
    if kind in _ENDS and _ENDS[kind] not in data[-_END_WITHIN:]:
        raise BadPictureError(f"cut off: the end of a {kind} file is missing")


def _kind(image: Any) -> str:
    # A phone's MPO is a JPEG with more pictures behind it, which readers of JPEG do not see.
    return "JPEG" if image.format == "MPO" else image.format


def _names(image: Any, name: str) -> list[tuple[str, str]]:
    suffix = os.path.splitext(name)[1]
    claimed = _SUFFIX_FORMATS.get(suffix.lower())
    if claimed and claimed != _kind(image):
        return [(f"named {suffix.lower()} and is {_kind(image)}", name)]
    return []


def _reasons(image: Any) -> list[tuple[str, str]]:
    """Why the file cannot stay as it is, with what was found."""
    kind, mode = _kind(image), image.mode
    reasons = []
    if image.getexif().get(_ORIENTATION, 1) in range(2, 9):
        reasons.append(("turned upright (EXIF)", f"orientation {image.getexif()[_ORIENTATION]}"))
    if kind not in _KEPT_MODES:
        frames = f" of {image.n_frames} frames, the first" if getattr(image, "n_frames", 1) > 1 else ""
        reasons.append(("another format: written as PNG", f"{kind}{frames}"))
    elif mode in ("CMYK", "YCCK"):
        reasons.append(("CMYK to RGB", mode))
    elif mode.startswith("I"):
        reasons.append(("16 bits to 8", mode))
    elif mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        reasons.append(("transparent parts made white", mode))
    elif mode not in _KEPT_MODES[kind]:
        reasons.append((f"mode {mode} to {'L' if mode == '1' else 'RGB'}", mode))
    return reasons


def _written_again(image: Any, config: ImageConfig) -> tuple[bytes, Any]:
    from PIL import ImageOps

    kind = _kind(image) if _kind(image) in _KEPT_MODES else "PNG"
    plain = _plain_mode(ImageOps.exif_transpose(image))
    data = _saved(plain, kind, config)
    if kind == "PNG":
        return data, plain
    again = _opened(data, config)  # JPEG loses: what counts is what will be read
    again.load()
    return data, again


def _plain_mode(image: Any) -> Any:
    """The image in mode L or RGB."""
    library = _pillow()
    if image.mode.startswith("I") or image.mode == "F":
        values = np.asarray(image)
        if values.dtype.kind == "f" or values.max(initial=0) > 65535 or values.min(initial=0) < 0:
            raise BadPictureError(f"values of type {values.dtype} have no fixed range; save it with 8 or 16 bits")
        return library.fromarray((values.astype(np.uint32) >> 8).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        coloured = image.convert("RGBA")
        white = library.new("RGBA", image.size, "white")
        return library.alpha_composite(white, coloured).convert("L" if image.mode == "LA" else "RGB")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def _saved(image: Any, kind: str, config: ImageConfig) -> bytes:
    buffer = io.BytesIO()
    options: dict[str, Any] = {"quality": config.jpeg_quality, "subsampling": 0} if kind == "JPEG" else {}
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def _describe(data: bytes, image: Any, config: ImageConfig, notes: tuple[tuple[str, str], ...]) -> Picture:
    channels = len(image.getbands())
    if config.check == "header":
        content = hashlib.blake2b(data, digest_size=_HASH_BYTES).hexdigest()
        return Picture(data, image.width, image.height, channels, None, content, notes)
    pixels = np.asarray(image)
    digest = hashlib.blake2b(f"{pixels.shape}".encode(), digest_size=_HASH_BYTES)
    digest.update(pixels.tobytes())
    brightness = float(pixels.mean()) / 255
    return Picture(data, image.width, image.height, channels, brightness, digest.hexdigest(), notes)
