"""Hears SIGTERM at once, even while the main thread is inside TensorFlow.

Python runs signal handlers only between bytecodes, and one call of the training loop lasts a second. The wake-up
descriptor is written by the C-level handler immediately; a thread reads it and raises the request.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def on_terminate(react: Callable[[], None]) -> Iterator[None]:
    """Calls `react` from another thread when SIGTERM arrives inside the block; restores the old handler afterwards.

    Outside the main thread Python allows no handlers; then the block runs without one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def listen() -> None:
        while data := os.read(reader, 64):
            if signal.SIGTERM in data:
                react()

    thread = threading.Thread(target=listen, name="sigterm-listener", daemon=True)
    thread.start()
    previous = signal.signal(signal.SIGTERM, lambda *_: None)
    previous_fd = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous_fd)
        signal.signal(signal.SIGTERM, previous)
        os.close(writer)
        thread.join()
        os.close(reader)
