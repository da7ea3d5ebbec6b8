"""The age of the last training step, and the probe that kills a worker whose steps have stopped.

The training engine touches the file that SLUICE_HEARTBEAT_FILE names after its steps. A run_fn that knows nothing of
it leaves no file, and is never killed for that. `python -m components.trainer.heartbeat SECONDS` is the probe.
"""

import os
import pathlib
import sys
import time

FILE_VARIABLE = "SLUICE_HEARTBEAT_FILE"


def is_stalled(max_age_seconds: float) -> bool:
    """Whether there were steps, and the last of them is longer ago than that."""
    path = pathlib.Path(os.environ.get(FILE_VARIABLE, ""))
    return path.is_file() and time.time() - path.stat().st_mtime > max_age_seconds


if __name__ == "__main__":
    if is_stalled(float(sys.argv[1])):
        sys.exit(f"no training step for more than {sys.argv[1]} s")
