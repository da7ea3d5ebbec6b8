"""A worker never outlives the step that started it, however that step ends.

The step holds the write end of a pipe and every worker the read end. When the step is gone the pipe reads as closed,
and the worker kills its own process group: itself and whatever it has started. A worker that is stopped (SIGSTOP) could
not do that, so on Linux the kernel is asked to wake it at the same moment. (Having the kernel kill it instead would
leave its children behind.)
"""

import ctypes
import os
import signal
import sys
import threading

FD_VARIABLE = "SLUICE_PARENT_FD"
_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Starts watching, if this process was started by a step that can be watched."""
    variable = os.environ.pop(FD_VARIABLE, None)
    if variable is None:
        return
    descriptor = _taken_over(int(variable))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)
    threading.Thread(target=_wait_for_end, args=(descriptor,), name="parent-watch", daemon=True).start()


def _taken_over(descriptor: int) -> int:
    """A descriptor of this process alone; what it was is then empty: user code may read its standard input."""
    own = os.dup(descriptor)  # not inheritable
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, descriptor)
    os.close(null)
    return own


def _wait_for_end(descriptor: int) -> None:
    os.read(descriptor, 1)  # blocks until the write end is closed: nothing is ever written
    os.killpg(os.getpgrp(), signal.SIGKILL)
