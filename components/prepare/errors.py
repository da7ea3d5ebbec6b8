"""What can be wrong with a prepare function."""


class PrepareError(RuntimeError):
    """The function did not do what the step promises to those after it."""

    exit_code = 1


class PrepareConfigError(ValueError):
    """The step cannot be declared like this."""

    exit_code = 2
