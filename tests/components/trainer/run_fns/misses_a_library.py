"""A user's module on a machine that lacks one of its libraries."""

import no_such_library  # noqa: F401


def run_fn(fn_args):
    """Is never reached."""
