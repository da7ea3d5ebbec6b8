"""What a training process says when it ends: done, never try again, or try again."""

DONE = 0
FAILED = 1
PEER_LOST = 138
PREEMPTED = 143

# A restart can help after these: abort, bus error, kill (out of memory too), peer lost, segmentation fault, preemption.
# The same list is the pod failure policy on Kubernetes, so both places agree.
RETRYABLE = (134, 135, 137, PEER_LOST, 139, PREEMPTED)


def from_returncode(returncode: int) -> int:
    """A shell's exit code for what `subprocess` returned: -9 (killed by signal 9) becomes 137."""
    return returncode if returncode >= 0 else 128 - returncode


def is_retryable(exit_code: int) -> bool:
    """Whether starting the whole cluster again may help."""
    return exit_code in RETRYABLE


def describe(exit_code: int) -> str:
    """A few words for a person."""
    if exit_code == DONE:
        return "done"
    if exit_code == PEER_LOST:
        return "lost a peer or stalled"
    if exit_code == PREEMPTED:
        return "was preempted (SIGTERM)"
    if exit_code == 137:
        return "was killed (SIGKILL: by hand, or by the system when memory ran out)"
    if exit_code in (134, 135, 139):
        return f"crashed in native code (signal {exit_code - 128})"
    return f"ended with exit code {exit_code}"
