"""What the gate raises; the console prints the message and exits with `exit_code`."""


class GateConfigError(ValueError):
    """A policy or schema that cannot be applied: the key at fault, what is allowed, what to do."""

    exit_code = 2


class DataRejectedError(RuntimeError):
    """The data is blocked: feature, rule, observed and allowed value, and what would accept it."""

    exit_code = 3
