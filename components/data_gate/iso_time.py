"""Times that are written as text, such as 2024-01-31T08:00:00+01:00: as seconds since 1970."""

import datetime
from collections.abc import Iterable

import numpy as np
import pyarrow as pa


def seconds_of(texts: Iterable[str | bytes]) -> np.ndarray:
    """float64 [texts]: seconds since 1970; NaN where a text is no ISO 8601 date or time. Without a zone it is UTC."""
    return np.array([_seconds(text) for text in texts], np.float64)


def seconds_of_column(values: pa.Array) -> np.ndarray:
    """The same of a flat array of text (float64 [values]), each different text parsed once."""
    encoded = values.dictionary_encode()
    return seconds_of(encoded.dictionary.to_pylist())[np.asarray(encoded.indices)] if len(values) else np.zeros(0)


def _seconds(text: str | bytes) -> float:
    try:
        time = datetime.datetime.fromisoformat((text.decode() if isinstance(text, bytes) else text).strip())
    except ValueError:  # also of bytes that are no text
        return np.nan
    return (time if time.tzinfo else time.replace(tzinfo=datetime.UTC)).timestamp()
