"""The reader of configurations, with the pipeline's own error."""

from typing import Any, TypeVar

from components import config_reader
from pipeline.errors import ConfigError

T = TypeVar("T")


def read(cls: type[T], mapping: Any, where: str) -> T:
    """See components.config_reader.read.

    Raises:
      ConfigError: naming the key, what it holds and what is allowed.
    """
    return config_reader.read(cls, mapping, where, ConfigError)
