"""Reads nested mappings (from YAML, JSON) into frozen dataclasses, strictly: an unknown key or bad value is named."""

import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")

_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def read(cls: type[T], mapping: Any, where: str, error: type[ValueError]) -> T:
    """An instance of the dataclass `cls` from `mapping`.

    Args:
      cls: a dataclass; its fields are str, int, float, bool, dict, such dataclasses, tuples or unions of them.
      mapping: keys are field names; a field without a default must be there.
      where: what to call the mapping in messages, such as `modules/taxi/workload.yaml`.
      error: what to raise; what `cls` raises itself of this kind gets `where` in front.

    Raises:
      ValueError: of the kind `error`, naming the key, what it holds, what is allowed, and the nearest known key for a
        misspelt one.
    """
    return _Reader(error).read(cls, mapping, where)


class _Reader:
    def __init__(self, error: type[ValueError]):
        self._error = error

    def read(self, cls: type[T], mapping: Any, where: str) -> T:
        if not isinstance(mapping, Mapping):
            raise self._error(f"{where}: expected a mapping of keys to values, found {_shown(mapping)}")
        fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        for key in mapping:
            if key not in fields:
                near = difflib.get_close_matches(str(key), fields, n=1)
                hint = f" Did you mean `{near[0]}`?" if near else ""
                raise self._error(f"{where}: unknown key `{key}`.{hint} Allowed: {', '.join(fields)}.")
        hints = typing.get_type_hints(cls)
        values = {key: self._value(hints[key], value, f"{where}: `{key}`") for key, value in mapping.items()}
        missing = [name for name, field in fields.items() if name not in values and not _has_default(field)]
        if missing:
            raise self._error(f"{where}: missing key `{missing[0]}`.")
        try:
            return cls(**values)
        except self._error as error:
            raise self._error(f"{where}: {error}") from None

    def _value(self, expected: Any, value: Any, where: str) -> Any:
        origin, arguments = typing.get_origin(expected), typing.get_args(expected)
        if origin in (typing.Union, types.UnionType):
            return self._union_member(arguments, value, where)
        if origin is tuple:
            if not isinstance(value, list | tuple):
                raise self._error(f"{where}: expected a list, found {_shown(value)}")
            return tuple(self._value(arguments[0], item, f"{where}[{index}]") for index, item in enumerate(value))
        if origin in (dict, Mapping) or expected is dict:
            if not isinstance(value, Mapping):
                raise self._error(f"{where}: expected a mapping, found {_shown(value)}")
            keys, values = arguments or (Any, Any)
            return {
                self._value(keys, key, f"{where}: key"): self._value(values, item, f"{where}: `{key}`")
                for key, item in value.items()
            }
        if dataclasses.is_dataclass(expected):
            if isinstance(value, typing.cast(type, expected)):
                return value
            return self.read(expected, value, where)  # type: ignore[arg-type]
        return self._scalar(expected, value, where)

    def _union_member(self, arguments: tuple, value: Any, where: str) -> Any:
        if value is None and type(None) in arguments:
            return None
        candidates = [argument for argument in arguments if argument is not type(None)]
        for candidate in candidates[:-1]:
            try:
                return self._value(candidate, value, where)
            except self._error:
                continue  # the last candidate's message is the one that is shown
        return self._value(candidates[-1], value, where)

    def _scalar(self, expected: Any, value: Any, where: str) -> Any:
        if expected is Any:
            return value
        if expected is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if isinstance(value, float) and not math.isfinite(value):
            raise self._error(f"{where}: expected a finite number, found {value}")
        if isinstance(value, expected) and not (expected is int and isinstance(value, bool)):
            return value
        raise self._error(f"{where}: expected {_NAMES.get(expected, expected)}, found {_shown(value)}")


def _shown(value: Any) -> str:
    return "nothing" if value is None else f"{value!r}"


def _has_default(field: dataclasses.Field) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
