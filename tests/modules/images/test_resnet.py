"""The residual networks: sizes as published, identity at the start, float32 at the end."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from modules.images import model, resnet
from modules.images.config import ImageModelConfig
from modules.images.features import PIXELS_KEY
from modules.training import precision


def trainable(network) -> int:
    return sum(int(np.prod(variable.shape)) for variable in network.trainable_variables)


@functools.cache
def of_imagenet(depth: int) -> tf_keras.Model:
    return resnet.build(ImageModelConfig(depth=depth), 1000)


@pytest.mark.parametrize(("depth", "parameters"), [(18, 11_689_512), (34, 21_797_672), (50, 25_557_032)])
def test_as_many_parameters_as_published(depth, parameters):
    """The numbers that the ImageNet models of 1000 classes have everywhere."""
    assert trainable(of_imagenet(depth)) == parameters


def test_the_stride_is_in_the_three_by_three():
    network = of_imagenet(50)
    assert network.get_layer("stage2_block1_a_conv").strides == (1, 1)
    assert network.get_layer("stage2_block1_b_conv").strides == (2, 2)
    shapes = [network.get_layer(f"stage{stage}_block1_out").output.shape[1] for stage in (1, 2, 3, 4)]
    assert shapes == [56, 28, 14, 7]


def test_the_small_stem_keeps_all_pixels():
    network = resnet.build(ImageModelConfig(depth=18, width=16, stem="small", image_size=8, channels=1), 10)
    shapes = [tuple(network.get_layer(f"stage{stage}_block2_out").output.shape[1:]) for stage in (1, 2, 3, 4)]
    assert shapes == [(8, 8, 16), (4, 4, 32), (2, 2, 64), (1, 1, 128)]


def test_blocks_begin_as_the_identity():
    network = resnet.build(ImageModelConfig(depth=18, width=4, stem="small", image_size=8, channels=1), 3)
    block = tf_keras.Model(network.input, [network.get_layer(f"stage1_block{index}_out").output for index in (1, 2)])
    first, second = block({PIXELS_KEY: np.random.default_rng(1).integers(0, 256, (2, 8, 8, 1), np.uint8)})
    np.testing.assert_array_equal(first, second)
    assert float(tf.reduce_max(first)) > 0


def test_sixteen_bits_inside_and_float32_outside():
    with precision.policy("mixed_bfloat16"):
        network = resnet.build(ImageModelConfig(depth=18, width=4, stem="small", image_size=8, channels=1), 3)
    assert network.get_layer("stage1_block1_a_conv").compute_dtype == "bfloat16"
    assert network.outputs[0].dtype == tf.float32
    answer = network({PIXELS_KEY: np.zeros((2, 8, 8, 1), np.uint8)})["probabilities"]
    np.testing.assert_allclose(np.sum(answer, axis=1), 1.0, atol=1e-6)


def test_smoothed_loss_is_the_textbooks():
    probabilities = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]], np.float32)
    labels = np.array([[0], [1]])
    targets = np.array([[0.9 + 0.1 / 3, 0.1 / 3, 0.1 / 3], [0.1 / 3, 0.9 + 0.1 / 3, 0.1 / 3]])
    expected = -(targets * np.log(probabilities)).sum(axis=1)
    found = model.smoothed_loss(0.1)(tf.constant(labels), tf.constant(probabilities))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    plain = tf_keras.losses.sparse_categorical_crossentropy(labels, probabilities)
    np.testing.assert_allclose(
        model.smoothed_loss(0.0)(tf.constant(labels), tf.constant(probabilities)), plain, rtol=1e-5
    )


def test_the_served_label_is_a_name():
    outputs = model.named_outputs({"probabilities": tf.constant([[0.1, 0.8, 0.1], [0.1, 0.2, 0.7]])}, [b"cat", b"dog"])
    assert outputs["label"].numpy().tolist() == [b"dog", b""]


@pytest.mark.parametrize("workload", ["images", "modules.images.synthetic", "modules.images.imagenet"])
def test_every_setting_of_the_recipes_is_known(workload):
    from components.data_gate.config import GatePolicy
    from components.example_gen.config import IngestConfig
    from modules.training import TrainingConfig
    from pipeline.config import make_config

    settings = make_config(workload, data="somewhere").workload
    IngestConfig.from_dict(settings.ingest, "ingest")
    GatePolicy.from_dict(settings.gate, "gate")
    TrainingConfig.from_dict({"precision": settings.train.precision, **settings.train.engine})
    ImageModelConfig.from_dict(settings.train.model)
