"""Patterns with {SPAN}, dates and {VERSION}, resolved as the stock driver does it."""
# mypy: disable-error-code="attr-defined"
# TFX's generated protos have no annotations.

import os

_MARKS = ("{SPAN", "{YYYY}", "{VERSION")


def resolve(base: str, patterns: dict[str, str]) -> tuple[dict[str, str], int | None, int | None]:
    """(patterns with the latest span and version filled in, span, version); None where there is no such mark.

    Args:
      base: the folder that patterns are relative to, or "".
      patterns: split name to glob.

    Raises:
      IngestDataError: no file matches.
    """
    if not any(mark in pattern for pattern in patterns.values() for mark in _MARKS):
        return patterns, None, None
    # TFX takes seconds to import, and only these patterns need it.
    from tfx.components.example_gen import utils
    from tfx.proto import example_gen_pb2

    from components.example_gen.errors import IngestDataError

    splits = [example_gen_pb2.Input.Split(name=name or "all", pattern=glob) for name, glob in patterns.items()]
    try:
        _, span, version = utils.calculate_splits_fingerprint_span_and_version(base, splits)
    except ValueError as error:
        raise IngestDataError(f"{os.path.join(base, next(iter(patterns.values())))}: {error}") from None
    filled = [split.pattern for split in splits]
    return dict(zip(patterns, filled, strict=True)), span, version
