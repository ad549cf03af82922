"""Durations and event times as whole microseconds.

Integers, so that a pane's border is the same on every machine and for a
single event as for a column.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from streameval.errors import InputError, shown
from streameval.events.values import IntArray, check_same_length, is_number, single_column

_UNITS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*(us|ms|s|m|h|d|w)")

TIME_UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 0}
"""Units in which numeric event times may be declared; microseconds in each, 0 for ns."""

NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
"""In each of the units of :data:`TIME_UNITS`."""

EARLY_1970 = 60 * 86_400_000_000
"""End of the moments that point to a wrong unit, in microseconds."""

_PLAUSIBLE = 631_152_000_000_000_000, 4_102_444_800_000_000_000
"""1990 and 2100 in nanoseconds."""

# Years 0001 to 9999: what datetime can show.
EARLIEST, LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def duration(value: object, field: str = "duration", *, zero: bool = False) -> int:
    """Microseconds of ``"90s"``, ``"5m"``, ``"1h"``, ``"7d"`` or a timedelta, above 0."""
    amount = -1
    if isinstance(value, timedelta):
        amount = value // _MICROSECOND
    elif isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        whole, _, fraction = match[1].partition(".")
        micro = int(whole) * 1_000_000 + int(fraction.ljust(6, "0") if fraction else 0)
        amount = micro * _UNITS[match[2]] // 1_000_000
    if amount < 0 or (amount == 0 and not zero) or amount > LATEST:
        raise InputError(
            field,
            expected='a duration such as "90s", "5m", "1h" or "7d", or a timedelta',
            got=shown(value),
            remedy_code="duration",
        )
    return amount


def duration_text(amount: int) -> str:
    """The shortest way to write so many microseconds: ``"5m"``, ``"90s"``, ``"0s"``."""
    for unit in ("w", "d", "h", "m", "s", "ms"):
        if amount % _UNITS[unit] == 0:
            # "7d" is easier to read than "1w", "90s" than "1.5m".
            if unit == "w" or amount == 0:
                continue
            return f"{amount // _UNITS[unit]}{unit}"
    return f"{amount}us" if amount else "0s"


def iso_time(moment: int) -> str:
    """A time in microseconds as ISO 8601, UTC; one before year 1 or after 9999 as its border."""
    moment = min(max(moment, EARLIEST), LATEST)
    return (_EPOCH + timedelta(microseconds=moment)).isoformat().replace("+00:00", "Z")


def wall_time() -> int:
    """The machine's clock: microseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000


class ForwardClock:
    """Seconds since 1970 that never go back, from ``clock`` and from any thread."""

    __slots__ = ("_clock", "_last", "_lock")

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._last = 0.0
        self._lock = threading.Lock()

    def __call__(self) -> float:
        """The time of now."""
        return self.at_least(self._clock())

    def at_least(self, seconds: float) -> float:
        """Advance to a time that was given before, if it is later; returns the last time."""
        with self._lock:
            self._last = max(self._last, seconds)
            return self._last


def unit_remedy(number: Any, unit: str) -> str:
    """The remedy for a number whose declared unit is implausible; empty for any other."""
    # Implausible: it puts the number beyond the year 9999, or into the first 60 days of 1970, and
    # another unit puts it between 1990 and 2100.
    moment = _from_number(number, unit)
    if moment < 0 or EARLY_1970 <= moment <= LATEST:
        return ""
    for other, scale in NANOSECONDS.items():
        nanoseconds = int(number) * scale
        if _PLAUSIBLE[0] <= nanoseconds <= _PLAUSIBLE[1]:
            day = iso_time(nanoseconds // 1_000)[:10]
            return f"in {other} it is a time of {day}: declare that unit"
    return ""


def event_time(
    value: object,
    unit: str | None = None,
    field: str = "event_time",
    position: int | None = None,
    *,
    first: bool = False,
) -> int:
    """A moment in microseconds since 1970-01-01 UTC, or InputError.

    The ``first`` time of a stream is also refused for an implausible unit: a clock that starts at
    0 passes through that range later.
    """
    moment: int | None = None
    expected = "an event time: a datetime with a time zone or ISO 8601 with an offset"
    got = remedy = code = ""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            got = shown(value)  # and refused below
    if isinstance(value, datetime):
        if value.tzinfo is None:
            got, remedy = f"{value.isoformat()} without a zone", "add the offset, such as +00:00"
        else:
            moment = (value - _EPOCH) // _MICROSECOND
    elif isinstance(value, np.datetime64):
        if not np.isnat(value):
            moment = int(value.astype("datetime64[us]").astype(np.int64))
    elif is_number(value):
        if unit is None:
            got, code = f"the number {shown(value)}", "time_unit"
            remedy = 'declare its unit with time_unit="s" or "ms"'
        elif isinstance(value, int) or math.isfinite(value):  # an int may exceed the floats
            moment = _from_number(value, unit)
            if first or not EARLIEST <= moment <= LATEST:
                remedy = unit_remedy(value, unit)
            if remedy and moment <= LATEST:
                expected, got = f"a time in {unit}", f"{shown(value)}, which is {iso_time(moment)}"
                moment = None
    if moment is None or not EARLIEST <= moment <= LATEST:
        raise InputError(
            field,
            expected=expected,
            got=got or shown(value),
            position=position,
            remedy=remedy,
            remedy_code=code,
        )
    return moment


def _from_number(value: Any, unit: str) -> int:
    if isinstance(value, (int, np.integer)):
        return int(value) // 1_000 if unit == "ns" else int(value) * TIME_UNITS[unit]
    if unit == "ns":
        return math.floor(float(value) / 1_000)
    # To the nearest: 0.1 s is 100,000 µs although the float is a little more.
    moved = float(value) * TIME_UNITS[unit]
    return round(moved) if math.isfinite(moved) else LATEST + 1


def time_missing() -> InputError:
    """The error of an event without a time in a window of event time."""
    return InputError(
        "event_time",
        expected="the event's time, which this window requires",
        got="none",
        remedy="pass event_time= with each event",
    )


def event_times(
    column: object,
    length: int,
    unit: str | None = None,
    field: str = "event_time",
    *,
    first: int = 0,
) -> IntArray:
    """A column of event times in microseconds; its ``first`` values are the first of a stream."""
    column = single_column(column, field)
    array = column.tolist() if np.ma.is_masked(column) else column  # type: ignore[attr-defined]
    if not isinstance(array, (list, tuple, np.ndarray)):
        to_numpy = getattr(column, "to_numpy", None)
        try:
            array = list(column) if to_numpy is None else to_numpy()  # type: ignore[call-overload]
        except (TypeError, ValueError):
            if to_numpy is None:
                raise InputError(
                    field, expected="a column of event times", got=shown(column)
                ) from None
            # Arrow copies only where zero_copy_only is False.
            array = to_numpy(zero_copy_only=False)
    if not isinstance(array, (list, np.ndarray, Sequence)):
        raise InputError(field, expected="a column of event times", got=shown(column))
    if isinstance(array, np.ndarray) and array.ndim != 1:
        raise InputError(field, expected="a column of one dimension", got=f"shape {array.shape}")
    check_same_length(length, len(array), field)
    for position in range(min(first, length)):
        event_time(array[position], unit, field, position, first=True)
    if isinstance(array, list) and len(kinds := set(map(type, array))) == 1:
        # bool is not a number here, and a large int is not an int64.
        kind = kinds.pop()
        if kind is float or (kind is int and min(array) >= -(2**63) and max(array) < 2**63):
            array = np.asarray(array)
    if isinstance(array, np.ndarray):
        whole = _whole_column(array, unit, field)
        if whole is not None:
            return whole
        array = array.tolist() if array.dtype.kind != "O" else list(array)
    return np.asarray(
        [event_time(value, unit, field, n) for n, value in enumerate(array)], dtype=np.int64
    )


def _whole_column(array: npt.NDArray[Any], unit: str | None, field: str) -> IntArray | None:
    """A typed column at once, ``datetime64`` as UTC; None if values must be parsed singly."""
    moments: IntArray
    if array.dtype.kind == "M":
        years = array.astype("datetime64[Y]").astype(np.int64) + 1970
        # False for NaT as well, which is the smallest integer.
        good = (years >= 1) & (years <= 9999)
        if not good.all():
            position = int(np.argmin(good))
            raise InputError(
                field,
                expected="a time in the years 1 to 9999",
                got=str(array[position]),
                position=position,
            )
        moments = array.astype("datetime64[us]").astype(np.int64)
        return moments
    if unit is None or not len(array):
        return None
    scale = TIME_UNITS[unit]
    if array.dtype.kind in "iu":
        low, high = int(array.min()), int(array.max())
        if scale == 0:
            return array.astype(np.int64) // 1_000 if high < 2**63 else None
        if low * scale >= EARLIEST and high * scale <= LATEST:
            return array.astype(np.int64) * scale
    elif array.dtype == np.float64:
        # numpy rounds and floors as Python does, halves to even.
        moved = np.floor(array / 1_000) if scale == 0 else np.rint(array * scale)
        if ((moved >= EARLIEST) & (moved <= LATEST)).all():
            moments = moved.astype(np.int64)
            return moments
    return None
