"""Errors whose message is meant for the person at the keyboard, and the exit codes that go with them."""

import enum


class ExitCode(enum.IntEnum):
    """What `sluice` tells the shell. Any exception with an integer `exit_code` attribute ends the command with it."""

    OK = 0
    STEP_FAILED = 1
    USAGE = 2
    DATA_REJECTED = 3
    NOT_BLESSED = 4
    PUSH_FAILED = 5
    PEER_LOST = 138
    PREEMPTED = 143


class ConfigError(ValueError):
    """A configuration or a command line that cannot be right: says where, what is wrong and what is allowed."""

    exit_code = ExitCode.USAGE


class StepFailedError(RuntimeError):
    """A step of the pipeline failed for a reason that is not the user's data or the model's quality."""

    exit_code = ExitCode.STEP_FAILED
