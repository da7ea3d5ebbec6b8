"""Columns whose values are not all of one kind, as JSON and Avro unions have them: built from Python values, one by
one, where Arrow's own conversion refuses, and typed like everything else."""

import dataclasses
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.example_gen import kinds
from components.example_gen.config import IngestConfig
from components.example_gen.evidence import Evidence
from components.example_gen.kinds import Locate, Parsed

# What a value can be. A number is kept as it was written, so that no digit is lost before its kind is known.
_NUMBER, _TRUTH, _TEXT, _BYTES, _JSON = range(5)
_NAMES = ("number", "truth", "text", "bytes", "json")
_WHOLE = r"^([+-]?\d+)\.0+$"


class Literal(float):
    """A float that knows how it was written."""

    text: str

    @classmethod
    def parse(cls, text: str) -> "Literal":
        """The number that `text` says."""
        number = cls(text)
        number.text = text
        return number


def array(values: Sequence[Any]) -> pa.UnionArray:
    """A column of any values; None is missing."""
    parts: list[list[Any]] = [[] for _ in _NAMES]
    codes, offsets = [], []
    for value in values:
        code, plain = _told(value)
        codes.append(code)
        offsets.append(len(parts[code]))
        parts[code].append(plain)
    children = [pa.array(part, pa.binary() if code == _BYTES else pa.string()) for code, part in enumerate(parts)]
    return pa.UnionArray.from_dense(pa.array(codes, pa.int8()), pa.array(offsets, pa.int32()), children, list(_NAMES))


def is_mixed(kind: pa.DataType) -> bool:
    """Whether a column is one of `array`'s."""
    return pa.types.is_union(kind) and tuple(field.name for field in kind) == _NAMES


def _told(value: Any) -> tuple[int, str | bytes | None]:
    if value is None:
        return _TEXT, None
    if isinstance(value, bool):
        return _TRUTH, "true" if value else "false"
    if isinstance(value, int | float):
        return _NUMBER, value.text if isinstance(value, Literal) else repr(value)
    if isinstance(value, bytes):
        return _BYTES, value
    if isinstance(value, dict | list):
        return _JSON, json.dumps(value, ensure_ascii=False, default=str)
    return _TEXT, str(value)


def convert(column: pa.UnionArray, kind: str, config: IngestConfig, locate: Locate) -> Parsed:
    """A mixed column as int64, float64 or text.

    Args:
      column: what `array` made.
      kind: declared, or found in all of the data; "" for what this block alone says.
      config: `float_loss`. NA words are text here; only None is missing, and `na` where it is set.
      locate: names a row.
    """
    codes = np.asarray(column.type_codes)
    values = column.to_pylist()
    present = np.asarray([value is not None for value in values], bool)
    texts = present & (codes != _NUMBER)
    only_null = dataclasses.replace(config, na=config.na or ())
    if kind in ("int", "float", "bool", "timestamp"):
        written = pa.array(_as_texts(values), pa.string())
        written = pc.replace_substring_regex(written, _WHOLE, r"\1") if kind == "int" else written
        parsed = kinds.convert(written, kind, only_null, locate, empty_is_missing=False)
    elif not kind and not (texts & (codes != _TRUTH)).any():
        ones = [{"true": "1", "false": "0"}.get(value or "", value) for value in values]
        parsed = kinds.infer(pa.array(ones, pa.string()), only_null, locate)
        _note(parsed.evidence, "bool to int64 0 and 1", present & (codes == _TRUTH))
    else:
        parsed = Parsed("bytes", _as_bytes(values), _of_texts(values, codes, texts, locate))
    there = sorted({_NAMES[code] for code in codes[present].tolist()})
    parsed.evidence.types = {" or ".join(there): len(values)}
    return parsed


def _of_texts(values: list, codes: np.ndarray, texts: np.ndarray, locate: Locate) -> Evidence:
    """What there is to tell of a column that becomes text."""
    numbers = [value for value, code in zip(values, codes, strict=True) if code == _NUMBER]
    floats = sum(bool(re.search("[.eEnN]", number)) for number in numbers)
    missing = values.count(None)
    evidence = Evidence(
        rows=len(values), missing=missing, texts=int(np.count_nonzero(texts)), floats=floats, ints=len(numbers) - floats
    )
    if texts.any():
        row = int(np.argmax(texts))
        evidence.firsts["texts"] = locate(row, str(values[row]))
    for code, told in ((_TRUTH, "true or false written as text"), (_JSON, "list or object written as text")):
        rows = np.flatnonzero(texts & (codes == code))
        if len(rows):
            evidence.notes[told] = len(rows)
            evidence.firsts[told] = locate(int(rows[0]), str(values[rows[0]]))
    return evidence


def _note(evidence: Evidence, told: str, rows: np.ndarray) -> None:
    if rows.any():
        evidence.notes[told] = int(np.count_nonzero(rows))


def _as_texts(values: list) -> list[str | None]:
    return [value.decode(errors="replace") if isinstance(value, bytes) else value for value in values]


def _as_bytes(values: list) -> pa.Array:
    return pa.array([value.encode() if isinstance(value, str) else value for value in values], pa.large_binary())
