"""Errors of compiling for, running on and talking to Kubeflow Pipelines, for the person at the keyboard."""

from pipeline.errors import ExitCode


class CompileError(ValueError):
    """The pipeline cannot run on open-source Kubeflow Pipelines as it is: names the construct and the way round it."""

    exit_code = ExitCode.USAGE


class StepInputError(ValueError):
    """A step's container was started with something else than what the compiler planned for it."""

    exit_code = ExitCode.STEP_FAILED


class RejectedError(RuntimeError):
    """A step has judged the data and rejected it; the message is that step's."""

    exit_code = ExitCode.DATA_REJECTED


class KubeflowError(RuntimeError):
    """Kubeflow Pipelines could not be reached or did not do what was asked."""

    exit_code = ExitCode.STEP_FAILED


class ConnectionSettingError(KubeflowError):
    """What was said about how to reach Kubeflow Pipelines cannot be right: its URL, a certificate, a token's file."""

    exit_code = ExitCode.USAGE


class RunFailedError(RuntimeError):
    """A run on Kubeflow Pipelines ended, and not well."""

    exit_code = ExitCode.STEP_FAILED
