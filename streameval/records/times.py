"""Columns of event times: ISO 8601 text, numbers and timestamps to microseconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from streameval.errors import InputError
from streameval.events.time import event_time, event_times
from streameval.events.values import BoolArray

Moments: TypeAlias = npt.NDArray[np.datetime64]
"""Times in microseconds, UTC."""

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?", re.ASCII)

NAIVE = "naive_time"
"""Code of the remedy for times without a zone."""

NAIVE_REMEDY = "add the offset, such as +00:00, or declare with utc=True that such times are UTC"

_SEPARATOR = 10
_BODY = "0000-00-00T00:00:00"
_BODIES = {_BODY + end: 19 for end in ("Z", "+00:00", "")}
for _digits in (3, 6):
    _BODIES |= {_BODY + "." + "0" * _digits + end: 20 + _digits for end in ("Z", "+00:00", "")}
_PLAIN = {len(body): (np.frombuffer(body.encode(), np.uint8), end) for body, end in _BODIES.items()}
"""Shapes of text that numpy parses, by their length; every 0 stands for a digit."""


def time_column(
    values: list[Any] | npt.NDArray[Any], unit: str | None, *, utc: bool = False
) -> tuple[Moments, BoolArray | None]:
    """The moments, and a mask of the values that are not times (they become 1970), or None."""
    column: Any = values
    if isinstance(values, list) and values and set(map(type, values)) == {str}:
        column = _plain_texts(values, utc)
        column = values if column is None else column
    if utc and isinstance(column, list):
        column = values = list(map(_in_utc, values))
    try:
        return event_times(column, len(values), unit).view("datetime64[us]"), None
    except InputError:
        pass
    moments = np.zeros(len(values), dtype=np.int64)
    wrong = np.zeros(len(values), dtype=np.bool_)
    for position, value in enumerate(values):
        try:
            moments[position] = event_time(value, unit)
        except InputError:
            wrong[position] = True
    return moments.view("datetime64[us]"), wrong


def _in_utc(value: Any) -> Any:
    """A text without an offset as a time in UTC; anything else as it is."""
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return value
    return value if moment.tzinfo else moment.replace(tzinfo=UTC)


def _plain_texts(texts: list[str], utc: bool) -> Moments | None:
    """The moments of texts in one usual shape, parsed ten times as fast; None for others."""
    shape, end = _PLAIN.get(len(texts[0]), (None, 0))
    if shape is None or set(map(len, texts)) != {len(shape)} or (end == len(shape) and not utc):
        return None
    joined = "".join(texts)
    if not joined.isascii():
        return None
    letters = np.frombuffer(joined.encode(), np.uint8).reshape(len(texts), len(shape))
    digits = shape == ord("0")
    if texts[0][_SEPARATOR] == " ":  # as data frames write it
        shape = shape.copy()
        shape[_SEPARATOR] = ord(" ")
    # The zeros of "+00:00" are not digits of the body: another offset is parsed singly.
    digits[end:] = False
    found = letters[:, digits]
    if not ((found >= ord("0")) & (found <= ord("9"))).all():
        return None
    if not (letters[:, ~digits] == shape[~digits]).all():
        return None
    bodies = np.ascontiguousarray(letters[:, :end]).view(f"S{end}").ravel()
    try:
        moments: Moments = bodies.astype("datetime64[us]")
    except ValueError:  # a month 13: parsed singly, to find the value
        return None
    return moments


def time_error(value: Any, unit: str | None) -> InputError:
    """The error of a value that is not a time."""
    if isinstance(value, str) and not value:
        return InputError("time", expected="a time", got="nothing")
    moment = _in_utc(value)
    if isinstance(value, str) and isinstance(moment, datetime):
        got = f"{moment.replace(tzinfo=None).isoformat()} without a zone"
        return InputError(
            "time", expected="a time", got=got, remedy=NAIVE_REMEDY, remedy_code=NAIVE
        )
    try:
        event_time(value, unit)
    except InputError as error:
        # A new one: the traceback of this one refers to the frames of all callers, which a
        # caller that keeps the error would make a cycle, with the whole batch in it.
        return error.at(None)
    raise AssertionError("a time that reads is not bad")


def number_or_text(cell: str) -> int | float | str:
    """A CSV cell as a number, or as the text that it is."""
    match = _NUMBER.fullmatch(cell) if len(cell) < 40 else None
    if match is None:
        return cell
    return float(cell) if match[1] or match[2] else int(cell)
