"""What a workload of pictures can set about its model and its input: `train.model` in workload.yaml."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from modules.training import TrainingConfigError

DEPTHS = (18, 34, 50)
STEMS = ("small", "large")
CROPS = ("none", "shift", "area")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageModelConfig:
    """A residual network and what it looks at. The defaults are ResNet-50 v1.5 as it is trained on ImageNet."""

    depth: int = 50
    """18 and 34 have blocks of two 3x3 convolutions, 50 has bottlenecks with the stride in the 3x3 (v1.5)."""
    width: int = 64
    """Channels of the first stage; 64 in the paper, less for small pictures."""
    stem: str = "large"
    """large: 7x7 with stride 2, then pooling, for 100 pixels and more. small: 3x3, all pixels kept."""
    image_size: int = 224
    """Pictures are brought to so many pixels a side."""
    channels: int = 3
    """1 for grey, 3 for colours; a picture with more or fewer is converted."""
    label_smoothing: float = 0.1
    """Share of the target that is spread evenly over all classes."""
    crop: str = "area"
    """In training. area: a random part, of 8 % to all of the picture, at a random aspect. shift: moved by up to `shift`
    pixels. none: as in evaluation. In evaluation, area looks at the middle; the others squeeze the whole picture into
    the square."""
    shift: int = 1
    """Pixels of the brought size, for crop: shift."""
    flip: bool = True
    """Mirror half of the pictures in training; false where left and right mean something, as in digits."""
    brightness: float = 0.0
    """Change all values in training by up to this share of the full range; and contrast likewise."""
    resize_margin: float = 0.125
    """In evaluation, with crop: area, so much of the shorter side is cut off: what the model saw in training was, on
    average, larger than life."""

    def __post_init__(self) -> None:
        for name, allowed in (("depth", DEPTHS), ("stem", STEMS), ("crop", CROPS), ("channels", (1, 3))):
            if getattr(self, name) not in allowed:
                raise TrainingConfigError(f"{name} is {getattr(self, name)!r}; expected one of {allowed}")
        for name in ("width", "image_size"):
            if getattr(self, name) < 1:
                raise TrainingConfigError(f"{name} is {getattr(self, name)}; expected 1 or more")
        for name in ("label_smoothing", "brightness", "resize_margin"):
            if not 0 <= getattr(self, name) < 1:
                raise TrainingConfigError(f"{name} is {getattr(self, name)}; expected 0 or more and less than 1")
        if not 0 <= self.shift < self.image_size:
            raise TrainingConfigError(f"shift is {self.shift}; expected 0 to {self.image_size - 1}")

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any] | None, where: str = "train.model") -> "ImageModelConfig":
        """Settings by name.

        Raises:
          TrainingConfigError: an unknown name, or a value of another kind or range.
        """
        fields = {field.name: field.type for field in dataclasses.fields(cls)}
        values: dict[str, Any] = {}
        for name, given in (mapping or {}).items():
            if name not in fields:
                raise TrainingConfigError(f"{where}: unknown setting {name!r}; allowed are {', '.join(sorted(fields))}")
            kind: Any = fields[name]
            value = float(given) if kind is float and type(given) is int else given
            if type(value) is not kind:
                raise TrainingConfigError(f"{where}: {name} is {given!r}; expected {kind.__name__}")
            values[name] = value
        try:
            return cls(**values)
        except TrainingConfigError as error:
            raise TrainingConfigError(f"{where}: {error}") from None
