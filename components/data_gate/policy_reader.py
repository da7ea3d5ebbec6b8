"""From a mapping that a person wrote to a frozen dataclass, with errors that name the key."""

import dataclasses
import datetime
import difflib
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from components.data_gate.errors import GateConfigError

_MOST_NAMED = 30


def reject(key: str, value: object, allowed: Iterable[str]) -> typing.NoReturn:
    """Raises the error for a value that is not one of `allowed`."""
    close = difflib.get_close_matches(str(value), list(allowed), 1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    raise GateConfigError(f"{key}: {value!r} is not known; {meant}allowed are {', '.join(sorted(allowed))}")


def close_to(name: str, known: Iterable[str]) -> str:
    """A hint: the one of `known` that is written nearly like `name`, or some of what there is."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, 1)
    if close:
        return f"did you mean {close[0]!r}?"
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"there are {', '.join(names[:_MOST_NAMED])}{more}" if names else "there are none"


def read(cls: type, mapping: object, where: str) -> Any:
    """An instance of the dataclass `cls` from `mapping`; `where` is the path of keys that leads to it.

    Raises:
      GateConfigError: an unknown or missing key, or a value of another kind than the field's.
    """
    if not isinstance(mapping, Mapping):
        raise GateConfigError(f"{where}: expected keys and values, got {mapping!r}")
    fields = {field.name: field for field in dataclasses.fields(cls)}
    hints = typing.get_type_hints(cls)
    values = {}
    for key, value in mapping.items():
        if key not in fields:
            reject(where, key, fields)
        values[key] = _convert(hints[key], value, f"{where}.{key}")
    for name, field in fields.items():
        if name not in values and field.default is field.default_factory is dataclasses.MISSING:
            raise GateConfigError(f"{where}.{name}: missing; it is required in {where}")
    try:
        return cls(**values)
    except GateConfigError as error:
        raise GateConfigError(f"{where}.{error}") from error


def _convert(hint: Any, value: object, where: str) -> Any:
    """`value` as the type `hint`; knows the few kinds of field that the policy has."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        if value is None:
            return None
        return _convert(next(a for a in arguments if a is not type(None)), value, where)
    if dataclasses.is_dataclass(hint):
        return read(typing.cast(type, hint), value, where)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise GateConfigError(f"{where}: expected a list, got {value!r}")
        return tuple(_convert(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if origin is not None:  # Mapping
        if not isinstance(value, Mapping):
            raise GateConfigError(f"{where}: expected keys and values, got {value!r}")
        return {str(key): _convert(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    return _scalar(hint, value, where)


def _scalar(hint: type, value: object, where: str) -> Any:
    if hint is str and isinstance(value, datetime.date):  # YAML reads 2030-12-31 as a date
        return value.isoformat()
    wanted = (int, float) if hint is float else hint
    if isinstance(value, bool) or not isinstance(value, wanted):
        raise GateConfigError(f"{where}: expected {hint.__name__}, got {value!r}")
    return hint(value)
