"""Chooses and builds the tf.distribute strategy."""

import os

import tensorflow as tf

from modules.training.cluster import ClusterSpec, own_port, wait_for_peers
from modules.training.config import TrainingConfig
from modules.training.errors import TrainingConfigError

_IMPLEMENTATIONS = {
    "ring": tf.distribute.experimental.CommunicationImplementation.RING,
    "nccl": tf.distribute.experimental.CommunicationImplementation.NCCL,
}


def choose_strategy(config: TrainingConfig, cluster: ClusterSpec, num_gpus: int) -> str:
    """The kind of strategy that fits TF_CONFIG and the devices, or the configured one if that is possible.

    Raises:
      TrainingConfigError: the configured strategy contradicts the cluster.
    """
    if cluster.has_parameter_servers:
        fitting = "parameter_server"
    elif cluster.num_workers > 1:
        fitting = "multi_worker"
    else:
        fitting = "mirrored" if num_gpus > 1 else "one_device"
    if config.strategy in ("auto", fitting):
        return fitting
    if cluster.num_workers > 1 or cluster.has_parameter_servers:
        raise TrainingConfigError(
            f"strategy is {config.strategy!r}, but TF_CONFIG describes a cluster for {fitting!r}; use auto or {fitting}"
        )
    if config.strategy == "parameter_server":
        raise TrainingConfigError("strategy is 'parameter_server', but TF_CONFIG names no 'ps' task")
    return config.strategy


def communication_options(config: TrainingConfig) -> tf.distribute.experimental.CommunicationOptions:
    """How the all-reduce of the gradients is done."""
    implementation = config.collective
    if implementation == "auto":
        implementation = "nccl" if tf.config.list_physical_devices("GPU") else "ring"
    return tf.distribute.experimental.CommunicationOptions(
        bytes_per_pack=config.bytes_per_pack,
        timeout_seconds=config.collective_timeout_s or None,
        implementation=_IMPLEMENTATIONS[implementation],
    )


def largest_of_all_workers(strategy: tf.distribute.Strategy, number: int) -> int:
    """The largest of the numbers with which all workers call this at the same time."""
    mine = strategy.run(lambda: tf.constant([number], tf.int64))
    return int(tf.reduce_max(strategy.gather(mine, axis=0)))


def build_strategy(config: TrainingConfig, cluster: ClusterSpec) -> tf.distribute.Strategy:
    """Builds the strategy; for several workers this process starts to listen for its peers here.

    Must run before anything else touches TensorFlow's devices.

    Raises:
      TrainingConfigError: strategy and cluster contradict each other, or this task's port is taken.
      PeerLostError: a peer does not come.
    """
    gpus = tf.config.list_physical_devices("GPU")
    kind = choose_strategy(config, cluster, len(gpus))
    if config.memory_growth:
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
    if kind == "one_device":
        return tf.distribute.OneDeviceStrategy("/gpu:0" if gpus else "/cpu:0")
    if kind == "mirrored":
        return tf.distribute.MirroredStrategy()
    if kind == "multi_worker":
        with own_port(cluster):
            wait_for_peers(cluster, config.startup_timeout_s)
        if cluster.num_workers == 1 and "TF_CONFIG" not in os.environ:
            return tf.distribute.MultiWorkerMirroredStrategy(
                tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec({})),
                communication_options=communication_options(config),
            )
        return tf.distribute.MultiWorkerMirroredStrategy(communication_options=communication_options(config))
    raise AssertionError("parameter servers have a loop of their own: modules.training.parameter_server")
