"""A command whose output is for a person or a program: the libraries keep quiet, unless --debug asks for them."""

import contextlib
import logging
import warnings
from collections.abc import Iterator

from pipeline.quiet import NativeLogs


@contextlib.contextmanager
def silenced(debug: bool) -> Iterator[None]:
    """Keeps warnings and logs of libraries, native or Python's, off the terminal. Errors are raised as ever."""
    if debug:
        yield
        return
    native = NativeLogs()
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
        native.restore()
