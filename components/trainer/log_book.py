"""The lines of all tasks in one file, which any number of readers may follow while it grows."""

import contextlib
import pathlib
import sys
import threading
from collections.abc import Iterator


class LogBook:
    """An append-only text file. Memory use does not grow with it."""

    def __init__(self, path: pathlib.Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._file = path.open("w", encoding="utf-8")
        self._grown = threading.Condition()
        self._is_broken = False

    def append(self, line: str) -> None:
        """Adds one line; dropped when the book is closed already."""
        with self._grown:
            if not self._file.closed:
                self._write(line)
                self._grown.notify_all()

    def _write(self, line: str) -> None:
        try:
            self._file.write(line + "\n")
            self._file.flush()
        except OSError as error:
            # A full disk must not stop the thread that empties the worker's pipe: the worker would wait for it.
            reason = "" if self._is_broken else f" (from here on not in {self._path}: {error.strerror})"
            self._is_broken = True
            print(f"{line}{reason}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """No more lines will come."""
        with self._grown:
            with contextlib.suppress(OSError):  # said above
                self._file.close()
            self._grown.notify_all()

    def follow(self) -> Iterator[str]:
        """Yields every line from the first one on, and waits for more until the book is closed."""
        with self._path.open(encoding="utf-8") as reader:
            while True:
                # Closed is asked before reading: a line written in between is then found in the next round.
                with self._grown:
                    is_closed = self._file.closed
                    line = reader.readline()
                    if not line and not is_closed:
                        self._grown.wait()
                        continue
                if not line:
                    return
                yield line.rstrip("\n")
