"""ResNet v1.5 (He et al., 2015; the stride of a bottleneck in its 3x3): 18, 34 and 50 layers, any width, two stems."""

import tf_keras as keras

from modules.images.config import ImageModelConfig
from modules.images.features import PIXELS_KEY

_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}
_EXPANSION = 4
_MOMENTUM, _EPSILON = 0.9, 1e-5


def build(config: ImageModelConfig, num_classes: int) -> keras.Model:
    """An uncompiled model.

    Args:
      config: depth, width, stem and the size of pictures.
      num_classes: how many probabilities there are.

    Returns:
      A model from {pixels: uint8 [n, size, size, channels]} to {probabilities: float32 [n, num_classes]}.
    """
    size = config.image_size
    pixels = keras.Input((size, size, config.channels), name=PIXELS_KEY, dtype="uint8")
    x = keras.layers.Rescaling(1 / 127.5, offset=-1.0, name="scale")(pixels)
    x = _stem(x, config)
    for stage, num_blocks in enumerate(_BLOCKS[config.depth]):
        for block in range(num_blocks):
            stride = 2 if stage and not block else 1
            x = _block(x, config.width << stage, stride, f"stage{stage + 1}_block{block + 1}", config.depth >= 50)
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    logits = keras.layers.Dense(num_classes, kernel_initializer=keras.initializers.RandomNormal(stddev=0.01))(x)
    probabilities = keras.layers.Activation("softmax", dtype="float32", name="probabilities")(logits)
    return keras.Model({PIXELS_KEY: pixels}, {"probabilities": probabilities}, name=f"resnet{config.depth}")


def _stem(x, config: ImageModelConfig):
    if config.stem == "small":
        return _conv(x, config.width, 3, 1, "stem")
    x = _conv(x, config.width, 7, 2, "stem")
    x = keras.layers.ZeroPadding2D(1, name="stem_pool_pad")(x)  # zeros are the smallest there is after a ReLU
    return keras.layers.MaxPooling2D(3, 2, name="stem_pool")(x)


def _block(x, width: int, stride: int, name: str, bottleneck: bool):
    """Convolutions around which the input goes, projected where its shape changes."""
    if bottleneck:
        out = width * _EXPANSION
        y = _conv(x, width, 1, 1, f"{name}_a")
        y = _conv(y, width, 3, stride, f"{name}_b")
        y = _conv(y, out, 1, 1, f"{name}_c", last=True)
    else:
        out = width
        y = _conv(x, width, 3, stride, f"{name}_a")
        y = _conv(y, width, 3, 1, f"{name}_b", last=True)
    if stride != 1 or x.shape[-1] != out:
        x = _conv(x, out, 1, stride, f"{name}_project", relu=False)
    return keras.layers.Activation("relu", name=f"{name}_out")(keras.layers.Add(name=f"{name}_add")([x, y]))


def _conv(x, width: int, kernel: int, stride: int, name: str, last: bool = False, relu: bool = True):
    """Convolution and normalisation. The last scale of a block begins at zero: the block is then the identity."""
    if stride > 1 and kernel > 1:
        # Padded on both sides alike, whatever the size is: where a picture's middle is does not depend on it.
        x = keras.layers.ZeroPadding2D(kernel // 2, name=f"{name}_pad")(x)
    x = keras.layers.Conv2D(
        width,
        kernel,
        stride,
        padding="valid" if stride > 1 else "same",
        use_bias=False,
        kernel_initializer=keras.initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal"),
        name=f"{name}_conv",
    )(x)
    x = keras.layers.BatchNormalization(
        momentum=_MOMENTUM, epsilon=_EPSILON, gamma_initializer="zeros" if last else "ones", name=f"{name}_norm"
    )(x)
    return keras.layers.Activation("relu", name=f"{name}_relu")(x) if relu and not last else x
