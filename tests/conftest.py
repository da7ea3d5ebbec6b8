"""What every test needs before TensorFlow is imported."""

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
