"""What every test needs before TensorFlow is imported."""

import atexit
import os
import signal
import sys

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

# TFX's Beam steps parse sys.argv as absl flags, and `pytest -v` is not one of them. pytest has read its own by now.
sys.argv = sys.argv[:1]

# A shell that starts the tests in the background (`make test &`) lets them ignore Ctrl-C, and what the tests start too.
signal.signal(signal.SIGINT, signal.default_int_handler)

_exit_status = 0


def pytest_sessionfinish(exitstatus):
    global _exit_status
    _exit_status = int(exitstatus)


@atexit.register  # before all others, so it is called after them
def leave():
    """Ends Python without destroying its objects.

    Steps that Beam has run in this process hold protobuf messages to the very end, and their destructor looks for a
    module that is gone by then: pytest would end with 139, whatever the tests have shown.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_exit_status)
