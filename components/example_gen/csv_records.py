"""Where CSV records begin and end in a buffer, exactly, without looking at each byte in Python.

A quote opens a quoted field only at the start of a field; elsewhere it is an ordinary character. A line end inside a
quoted field is data. Everything here works on one buffer that begins at a record's start.
"""

import numpy as np

QUOTE, LF, CR = 34, 10, 13


def toggles(data: np.ndarray, delimiter: int) -> np.ndarray:
    """The offsets (int64) of quotes that open or close a quoted field, in turn: opening, closing, opening ...

    A doubled quote inside a field appears as a closing and an opening quote side by side, which changes nothing for
    who asks whether an offset is inside quotes.

    Args:
      data: uint8, beginning at the start of a record.
      delimiter: the field separator's byte.
    """
    quotes = np.flatnonzero(data == QUOTE)
    return quotes if _regular(data, quotes, delimiter) else _walk(data, quotes, delimiter)


def misplaced_quotes(data: bytes, delimiter: int) -> np.ndarray:
    """The offsets (int64) of quotes that close a field before its end, as in `"a" b`."""
    array = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(array == QUOTE)
    if _regular(array, quotes, delimiter):
        return quotes[:0]
    closing = _walk(array, quotes, delimiter)[1::2]
    after = array[np.minimum(closing + 1, len(array) - 1)]
    fine = np.isin(after, (delimiter, LF, CR, QUOTE)) | (closing == len(array) - 1)
    return closing[~fine]


def _regular(data: np.ndarray, quotes: np.ndarray, delimiter: int) -> bool:
    """Whether taking every quote in turn as opening and closing is right: no stray quote in an unquoted field."""
    opening, closing = quotes[0::2], quotes[1::2]
    before = data[np.maximum(opening - 1, 0)]
    doubled = np.zeros(len(opening), bool)
    doubled[1:] = opening[1:] == closing[: len(opening) - 1] + 1
    starts_field = (opening == 0) | (before == delimiter) | (before == LF) | (before == CR)
    after = data[np.minimum(closing + 1, len(data) - 1)]
    ends_field = (after == delimiter) | (after == LF) | (after == CR) | (after == QUOTE) | (closing == len(data) - 1)
    return bool((starts_field | doubled).all() and ends_field.all())


def _walk(data: np.ndarray, quotes: np.ndarray, delimiter: int) -> np.ndarray:
    """The same, one quote at a time, for buffers with stray quotes."""
    kept, inside, previous = [], False, -2
    field_start = (delimiter, LF, CR)
    for offset in quotes.tolist():
        doubles = previous == offset - 1 and not inside
        if inside or doubles or offset == 0 or data[offset - 1] in field_start:
            kept.append(offset)
            inside = not inside
            previous = offset
    return np.asarray(kept, np.int64)


def line_end(data: bytes) -> int:
    """The byte that ends lines: LF, or CR where there is no LF at all (files of the old Mac)."""
    return CR if b"\n" not in data and b"\r" in data else LF


def last_boundary(data: bytes, delimiter: int, terminator: int) -> int:
    """The offset just after the last complete record in `data`, or 0 where no record is complete."""
    end = data.rfind(bytes((terminator,)))
    if end < 0 or b'"' not in data:
        return end + 1
    inside_after = toggles(np.frombuffer(data, np.uint8), delimiter)
    while end >= 0 and np.searchsorted(inside_after, end) % 2:
        # Every line end after the quote that opened this field is inside the field.
        opened = int(inside_after[np.searchsorted(inside_after, end) - 1])
        end = data.rfind(bytes((terminator,)), 0, opened)
    return end + 1


def first_boundary(data: bytes, delimiter: int) -> int:
    """The offset just after the first record, or 0 where it is not complete in `data`."""
    array = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(array == line_end(data))
    if b'"' in data and len(ends):
        ends = ends[np.searchsorted(toggles(array, delimiter), ends) % 2 == 0]
    return int(ends[0]) + 1 if len(ends) else 0


def record_starts(data: bytes, delimiter: int) -> tuple[np.ndarray, np.ndarray]:
    """For each record that is not an empty line, its line in `data`, counted from 0, and its offset (both int64)."""
    terminator = line_end(data)
    array = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(array == terminator)
    if len(data) and (not len(ends) or ends[-1] != len(data) - 1):
        ends = np.append(ends, len(data))
    outside = np.ones(len(ends), bool)
    if b'"' in data:
        outside = np.searchsorted(toggles(array, delimiter), ends) % 2 == 0
        outside[-1] = True
    lines = np.arange(len(ends))
    record_ends = ends[outside]
    starts = np.append(0, record_ends[:-1] + 1)
    first_lines = np.append(0, lines[outside][:-1] + 1)
    length = record_ends - starts
    only_cr = (length == 1) & (array[np.minimum(starts, len(array) - 1)] == CR)
    there = (length > 0) & ~only_cr
    return first_lines[there], starts[there]
