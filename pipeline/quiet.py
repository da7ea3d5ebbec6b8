"""Keeps the libraries' chatter off the terminal: native code writes to file descriptor 2, past Python's logging."""

import logging
import os
import sys
import threading


class NativeLogs:
    """Sends file descriptor 2 (C++ logs, child processes) elsewhere; Python's sys.stderr stays on the terminal."""

    def __init__(self) -> None:
        sys.stderr.flush()
        self._terminal = os.dup(2)
        self._python_stderr = sys.stderr
        sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, encoding="utf-8", errors="backslashreplace")
        self.send_to(os.devnull)

    def send_to(self, path: str) -> None:
        """Appends to `path` from now on."""
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(target, 2)
        os.close(target)

    def restore(self) -> None:
        """Back to the terminal."""
        sys.stderr.flush()
        sys.stderr = self._python_stderr
        os.dup2(self._terminal, 2)
        os.close(self._terminal)


def python_logs_to(path: str, debug: bool) -> None:
    """Everything the libraries log from Python goes to `path`; to the terminal as well only with `debug`."""
    from absl import logging as absl_logging

    root = logging.getLogger()
    absl_logging.use_python_logging(quiet=True)
    logging.getLogger("tensorflow").handlers.clear()  # TensorFlow adds one of its own, which writes to the terminal
    for handler in list(root.handlers):
        if not debug or isinstance(handler, logging.FileHandler):
            root.removeHandler(handler)
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    absl_logging.set_verbosity(absl_logging.INFO)
    logging.captureWarnings(True)
    # Beam's reading threads end with an error whenever another engine's worker hangs up, after a success too.
    threading.excepthook = _log_thread


def _log_thread(args: threading.ExceptHookArgs) -> None:
    name = args.thread.name if args.thread else "a thread"
    error = args.exc_value or args.exc_type()
    logging.getLogger("sluice").warning("%s ended with an error", name, exc_info=error)
