"""Ports for local workers, held until TensorFlow itself has them.

A port that was only looked up may be somebody else's a moment later. Here the step keeps a bound socket on each, and
TensorFlow's server may bind the same one because both allow reuse (TF_GRPC_REUSE_PORT).
"""

import contextlib
import socket
from collections.abc import Iterator

from components.trainer.errors import TrainingConfigError

HOST = "127.0.0.1"
# What the workers need in their environment to bind a port that is held here.
ENVIRONMENT = {"TF_GRPC_REUSE_PORT": "true"}


@contextlib.contextmanager
def hold(count: int, first_port: int = 0) -> Iterator[list[int]]:
    """Holds `count` ports: free ones, or first_port and the ones after it.

    Raises:
      TrainingConfigError: a port asked for is in use.
    """
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(_bound(first_port + i if first_port else 0)).getsockname()[1] for i in range(count)]


def _bound(port: int) -> socket.socket:
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # With this one too, a worker may try out its own port before TensorFlow listens on it.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "SO_REUSEPORT"):
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        held.bind((HOST, port))
    except OSError as error:
        held.close()
        raise TrainingConfigError(
            f"cluster: port {port} cannot be used ({error.strerror}); choose another first_port, or 0 for free ones"
        ) from error
    return held
