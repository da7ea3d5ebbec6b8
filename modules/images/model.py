"""The Trainer step of a workload of pictures."""

from collections.abc import Sequence

import tensorflow as tf
import tensorflow_transform as tft
import tf_keras as keras

from modules import training
from modules.images import pictures, resnet
from modules.images.config import ImageModelConfig
from modules.images.features import CLASS_KEY, ENCODED_KEY, IMAGE_KEY, LABEL_KEY, NUM_OOV_BUCKETS
from modules.training.records import find_files

_NUM_SAMPLES = 16


def run_fn(fn_args) -> None:
    """The Trainer step's function; settings of the model are in custom_config["model"].

    Nothing here may run TensorFlow before `train` has joined the cluster, hence the functions.
    """
    config = ImageModelConfig.from_dict((fn_args.custom_config or {}).get("model"), "train.model")
    transform_output = tft.TFTransformOutput(fn_args.transform_graph_path)
    training.train(
        fn_args,
        lambda: resnet.build(config, transform_output.vocabulary_size_by_name(LABEL_KEY) + NUM_OOV_BUCKETS),
        label_key=CLASS_KEY,
        loss=smoothed_loss(config.label_smoothing),
        metrics={"accuracy": keras.metrics.SparseCategoricalAccuracy},
        features_fn=pictures.pixels_of(config),
        outputs_fn=lambda outputs: named_outputs(outputs, transform_output.vocabulary_by_name(LABEL_KEY)),
        sample_values=lambda: {IMAGE_KEY: sample_pictures(fn_args.train_files, transform_output)},
    )


def smoothed_loss(smoothing: float):
    """Cross-entropy against targets of which `smoothing` is spread over all classes; in training and evaluation."""

    def loss(labels: tf.Tensor, probabilities: tf.Tensor) -> tf.Tensor:
        num_classes = probabilities.shape[-1]
        targets = tf.one_hot(tf.reshape(labels, [-1]), num_classes) * (1 - smoothing) + smoothing / num_classes
        return -tf.reduce_sum(targets * tf.math.log(tf.maximum(probabilities, 1e-7)), axis=-1)

    return loss


def named_outputs(outputs: dict[str, tf.Tensor], classes: Sequence[bytes]) -> dict[str, tf.Tensor]:
    """What is served: the probabilities, in the order of `classes`, and the name of the most likely class.

    The last probability is of a class that the training split did not have; its name is empty.
    """
    names = tf.constant([*classes, *[b""] * NUM_OOV_BUCKETS])
    best = tf.argmax(outputs["probabilities"], axis=-1)
    return {"probabilities": tf.identity(outputs["probabilities"]), "label": tf.gather(names, best)}


def sample_pictures(patterns: Sequence[str], transform_output: tft.TFTransformOutput) -> list[bytes]:
    """A few encoded pictures of the training split, for the predictions that are kept with the model."""
    spec = {ENCODED_KEY: transform_output.transformed_feature_spec()[ENCODED_KEY]}
    files = find_files(patterns, "training")
    records = tf.data.TFRecordDataset(files.paths[0], files.compression).take(_NUM_SAMPLES)
    return [tf.io.parse_single_example(record, spec)[ENCODED_KEY].numpy() for record in records]
