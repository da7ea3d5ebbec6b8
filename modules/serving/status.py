"""Errors of the server: one canonical code for both protocols, and a message for the person who sent the request."""

import enum


class Code(enum.Enum):
    """The canonical status codes that the server answers with: (gRPC number, HTTP status)."""

    INVALID_ARGUMENT = (3, 400)
    DEADLINE_EXCEEDED = (4, 504)
    NOT_FOUND = (5, 404)
    RESOURCE_EXHAUSTED = (8, 429)
    FAILED_PRECONDITION = (9, 400)
    UNIMPLEMENTED = (12, 501)
    INTERNAL = (13, 500)
    UNAVAILABLE = (14, 503)

    @property
    def number(self) -> int:
        """The number that gRPC and `StatusProto.error_code` use."""
        return self.value[0]

    @property
    def http_status(self) -> int:
        """The status that TensorFlow Serving's REST API uses for this code."""
        return self.value[1]

    @classmethod
    def of_http(cls, status: int) -> "Code":
        """The code that an HTTP status of a server stands for."""
        return next((code for code in cls if code.http_status == status), cls.INTERNAL)


class ServingError(RuntimeError):
    """A request, a model or a configuration that cannot be served, with the code that both protocols report."""

    exit_code = 1

    def __init__(self, code: Code, message: str):
        super().__init__(message)
        self.code = code
        self.message = message


class ServingUsageError(ValueError):
    """What a person asked for cannot be done: a missing folder, an option that does not fit, a bad configuration."""

    exit_code = 2


class BadRowError(ValueError):
    """A row that the model cannot read."""

    exit_code = 3


def invalid(message: str) -> ServingError:
    """An INVALID_ARGUMENT error: the request itself is wrong."""
    return ServingError(Code.INVALID_ARGUMENT, message)
