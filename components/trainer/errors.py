"""Errors of the training step. `exit_code` is what the command line ends with."""

from components.trainer import exit_codes


class TrainingConfigError(ValueError):
    """The step was asked for something it cannot do; nothing was started."""

    exit_code: int = 2


class TrainingError(RuntimeError):
    """Training was started and did not end well."""

    exit_code: int = exit_codes.FAILED

    def __init__(self, message: str, exit_code: int = exit_codes.FAILED, keeps_work: bool = False):
        """`keeps_work`: the same training may go on from its last checkpoint."""
        super().__init__(message)
        self.exit_code = exit_code
        self.keeps_work = keeps_work
