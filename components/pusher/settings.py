"""From parsed YAML or JSON to a frozen dataclass, with messages that say what is wrong, where, and what is allowed."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from components.pusher.errors import PushConfigError

Settings = TypeVar("Settings")


def build(kind: type[Settings], mapping: Mapping[str, Any], where: str) -> Settings:
    """Builds the dataclass `kind` from `mapping`. Raises PushConfigError; `where` names the place in messages."""
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for key in mapping:
        if key not in fields:
            raise PushConfigError(f"{where}: unknown key {key!r}; allowed: {', '.join(sorted(fields))}")
    values = {key: _convert(fields[key].type, value, f"{where}.{key}") for key, value in mapping.items()}
    missing = [
        name
        for name, field in fields.items()
        if name not in values and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise PushConfigError(f"{where}: {', '.join(missing)} must be given")
    try:
        return kind(**values)
    except PushConfigError as error:
        raise PushConfigError(f"{where}.{error}") from None


def require(condition: bool, field: str, message: str) -> None:
    """Raises PushConfigError for `field` unless `condition` holds."""
    if not condition:
        raise PushConfigError(f"{field}: {message}")


def _convert(kind: Any, value: Any, where: str) -> Any:
    """Checks a parsed value against a field's type; lists become tuples, and whole numbers pass for floats."""
    if kind in (tuple[str, ...], tuple[int, ...]):
        element = kind.__args__[0]
        if not isinstance(value, list | tuple) or not all(type(item) is element for item in value):
            raise PushConfigError(f"{where}: expected a list of {element.__name__}, got {value!r}")
        return tuple(value)
    if kind is float and type(value) is int:
        return float(value)
    expected = kind if isinstance(kind, type) else dict
    if type(value) is not expected:
        raise PushConfigError(f"{where}: expected {expected.__name__}, got {value!r}")
    return value
