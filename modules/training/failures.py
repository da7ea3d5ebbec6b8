"""Turns TensorFlow's errors into ours: whose fault it is decides whether a restart makes sense."""

import contextlib
import re
import time
from collections.abc import Iterator

import tensorflow as tf

from modules.training.cluster import ClusterSpec, unreachable_peers
from modules.training.errors import PeerLostError, TrainingDataError, TrainingError
from modules.training.records import RecordFiles, describe_corruption

_PEER_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
_WRAPPING = ("Graph execution error:", "Detected at node", "<stack traces unavailable>", "Stack trace for op")
_UNFIT = re.compile(r"(Key: |.*(feature|parse example|parse serialized example)).*", re.IGNORECASE)
_PEER_WORDS = ("collective", "connection reset", "socket closed", "remote worker", "connection refused", "peer")


@contextlib.contextmanager
def translated(cluster: ClusterSpec, files: RecordFiles | None = None) -> Iterator[None]:
    """Re-raises TensorFlow errors from the block as training errors with the right exit code."""
    try:
        yield
    except tf.errors.OpError as error:
        raise translate(error, cluster, files) from error


def _gone_peers(cluster: ClusterSpec, patience_s: float = 1.0) -> dict[str, str]:
    """Peers that do not answer; the error is often here a moment before a dead peer's port is closed."""
    deadline = time.monotonic() + patience_s
    while not (gone := unreachable_peers(cluster)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return gone


def essence(message: str) -> str:
    """The line of TensorFlow's message that says what happened, without the nodes and functions that wrap it."""
    lines = [line for line in message.splitlines() if line.strip() and not line[0].isspace()]
    telling = [line for line in lines if not line.startswith(_WRAPPING)]
    line = (telling or lines or [message])[0]
    return re.sub(r"^(\{\{\w+ [^}]*\}\}\s*)+", "", line)[:400]


def translate(error: tf.errors.OpError, cluster: ClusterSpec, files: RecordFiles | None = None) -> TrainingError:
    """The training error for a TensorFlow error."""
    message = essence(error.message or type(error).__name__)
    several = cluster.num_workers > 1 or cluster.has_parameter_servers
    if isinstance(error, tf.errors.DataLossError) and files is not None:
        return TrainingDataError(describe_corruption(files) or f"damaged training data: {message}")
    if several and (isinstance(error, _PEER_ERRORS) or any(word in message.lower() for word in _PEER_WORDS)):
        gone = _gone_peers(cluster)
        who = f"lost {'; '.join(f'{peer}: {reason}' for peer, reason in gone.items())}" if gone else "lost a peer"
        return PeerLostError(f"{cluster.name}: {who} ({message})")
    if isinstance(error, tf.errors.ResourceExhaustedError):
        return TrainingError(
            f"out of memory or disk: {message}; try a smaller batch_size, accumulate or recompute_layers"
        )
    if isinstance(error, tf.errors.InvalidArgumentError) and (unfit := _UNFIT.search(message)):
        return TrainingDataError(f"the examples do not fit the feature spec: {unfit[0]}")
    return TrainingError(f"{type(error).__name__}: {message}")
