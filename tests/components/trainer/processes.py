"""What is running, from /proc."""

import contextlib
import os
import pathlib


def is_running(pid):
    """Whether a process is there and has not ended (a zombie has)."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def processes_naming(text):
    """Processes whose command line names `text`, such as the spec file of a test."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and text in (entry / "cmdline").read_text() and is_running(entry.name):
                found.append(int(entry.name))
    return [pid for pid in found if pid != os.getpid()]
