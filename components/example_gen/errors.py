"""What ingestion raises when a person has to act, with the exit code the command line gives it."""


class IngestConfigError(ValueError):
    """An option is unknown, contradictory or out of range."""

    exit_code = 2


class IngestFileError(RuntimeError):
    """A file cannot be read or written: no space, no permission."""

    exit_code = 1


class IngestDataError(ValueError):
    """The input cannot be ingested as configured. The message names file, line, column and value where they exist."""

    exit_code = 3
