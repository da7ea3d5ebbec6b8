"""Errors that a person who pushes a model can act on."""

import contextlib
import errno
import os
import pathlib
from collections.abc import Iterator


class PushError(RuntimeError):
    """The model was not deployed; what served before still serves."""

    exit_code = 5


class PushConfigError(ValueError):
    """The push target is described wrongly."""

    exit_code = 2


@contextlib.contextmanager
def explained(path: pathlib.Path, action: str) -> Iterator[None]:
    """Turns the file system's refusals into a PushError that says what to do."""
    advice = {
        errno.ENOSPC: "the disk is full: free some space and push again",
        errno.EDQUOT: "the disk quota is used up: free some space and push again",
        errno.EROFS: "it is read-only: mount it for writing or push elsewhere",
        errno.EACCES: f"user {os.getuid()} lacks the right: change the owner or the mode",
        errno.EPERM: f"user {os.getuid()} lacks the right: change the owner or the mode",
        errno.ENOTDIR: "a part of the path is a file",
        errno.EIO: "the disk reports an error",
        errno.ESTALE: "the network file system lost the folder: mount it again",
    }
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        reason = advice.get(error.errno or 0, str(error))
        raise PushError(f"{path}: cannot {action}: {reason} ({error.strerror}: {error.filename})") from error
