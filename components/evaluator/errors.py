"""What can be wrong with an evaluation before it starts."""


class EvaluationConfigError(ValueError):
    """The EvalConfig and the model do not fit together."""

    exit_code = 2
