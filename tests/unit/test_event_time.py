"""Durations and event times: whole microseconds, the same one by one and in columns."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from streameval import Evaluator, Panes
from streameval.errors import InputError
from streameval.events.time import (
    EARLIEST,
    LATEST,
    ForwardClock,
    duration,
    duration_text,
    event_time,
    event_times,
    iso_time,
)

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
MICRO = int(NOON.timestamp()) * 1_000_000


def test_durations() -> None:
    given_ = ["90s", "5m", "1h", "7d", "2w", " 1.5h ", "250ms", "3us", timedelta(minutes=2)]
    seconds = [90, 300, 3600, 604_800, 1_209_600, 5400, 0.25, 0.000003, 120]
    for text, expected in zip(given_, seconds, strict=True):
        assert duration(text) == round(expected * 1e6)
        assert duration(duration_text(duration(text))) == duration(text)
    for bad in ("", "5", "h", "-5m", "0s", "1e3s", "5 minutes", 300, None, 1.5):
        with pytest.raises(InputError, match=r'length: expected a duration such as "90s", "5m"'):
            duration(bad, "length")
    assert duration("0s", zero=True) == 0
    assert duration_text(0) == "0s"


@pytest.mark.parametrize(
    ("value", "unit"),
    [
        (NOON, None),
        (NOON.astimezone(timezone(timedelta(hours=2))), None),
        ("2026-03-29T14:00:00+02:00", None),
        ("2026-03-29 12:00:00.000000+00:00", None),
        (MICRO // 1_000_000, "s"),
        (MICRO / 1e6, "s"),
        (MICRO // 1000, "ms"),
        (np.int64(MICRO), "us"),
        (MICRO * 1000 + 999, "ns"),
        (np.datetime64("2026-03-29T12:00:00"), None),
        (pd.Timestamp("2026-03-29 12:00", tz="UTC"), None),
    ],
)
def test_times(value: Any, unit: str | None) -> None:
    assert event_time(value, unit) == MICRO
    assert event_times([value, value], 2, unit).tolist() == [MICRO, MICRO]
    assert iso_time(MICRO) == "2026-03-29T12:00:00Z"


def test_what_is_no_time() -> None:
    """Beside what the frozen texts refuse."""
    for bad, unit, message in (
        (datetime(2026, 1, 1), None, "without a zone; add the offset, such as +00:00"),
        (10**30, "ms", "got 1000000"),
        (np.datetime64("NaT", "s"), None, "got"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            event_time(bad, unit)
        with pytest.raises(InputError, match=r"^event_time\[1\]: "):
            event_times([NOON.isoformat() if unit is None else 5, bad], 2, unit)


@settings(max_examples=60)
@given(
    st.sampled_from(["s", "ms", "us", "ns"]),
    st.lists(st.integers(-(2**62), 2**62) | st.floats(-1e12, 1e12), min_size=1, max_size=5),
)
def test_columns_are_their_values(unit: str, values: list[Any]) -> None:
    expected, refused = [], False
    for value in values:
        try:
            expected.append(event_time(value, unit))
        except InputError:
            refused = True
    forms = [values, pd.Series(values, dtype=object)]
    for kind in (int, float):
        if all(type(value) is kind for value in values):
            array = np.array(values)
            forms += [array, pd.Series(array), pl.Series(values), pa.array(values)]
    for form in forms:
        if refused:
            with pytest.raises(InputError):
                event_times(form, len(values), unit)
        else:
            assert event_times(form, len(values), unit).tolist() == expected


def test_columns_of_times() -> None:
    stamps = pd.Series(pd.to_datetime(["2026-03-29 12:00", "2026-03-29 12:01"]))
    zoned = stamps.dt.tz_localize("UTC")
    texts = ["2026-03-29T12:00Z", "2026-03-29T14:01+02:00"]
    for column in (
        *(stamps, zoned, zoned.dt.tz_convert("Asia/Kathmandu"), stamps.to_numpy()),
        *(stamps.to_numpy().astype("datetime64[s]"), pl.Series(stamps.tolist()), pa.array(stamps)),
        *(texts, pa.array(texts)),
    ):
        assert event_times(column, 2).tolist() == [MICRO, MICRO + 60_000_000]
    for wrong, length, message in (
        (np.array([stamps[0], "NaT"], "datetime64[us]"), 2, r"event_time\[1\]: .* in the years"),
        (np.array(["300000-01-01"], "datetime64[D]"), 1, r"event_time\[0\]: .* in the years"),
        (stamps, 3, "3"),
        (5, 1, "a column of event times"),
    ):
        with pytest.raises(InputError, match=message):
            event_times(wrong, length)


def test_times_are_shown_as_utc_and_inside_what_a_date_can_be() -> None:
    assert iso_time(-1) == "1969-12-31T23:59:59.999999Z"
    assert iso_time(LATEST + 10**15) == iso_time(LATEST)
    assert iso_time(EARLIEST - 1) == "0001-01-01T00:00:00Z"


def test_a_clock_that_goes_back_stands_still() -> None:
    clock = ForwardClock(iter([5.0, 3.0, 6.0]).__next__)
    assert [clock(), clock(), clock()] == [5.0, 5.0, 6.0]


SCALES = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@given(st.integers(631_152_001 * 10**9, 4_102_444_799 * 10**9), *[st.sampled_from([*SCALES])] * 2)
def test_a_wrong_unit_is_refused_with_the_one_that_fits(
    nanoseconds: int, actual: str, declared: str
) -> None:
    number = nanoseconds // SCALES[actual]
    day = (datetime(1970, 1, 1) + timedelta(microseconds=nanoseconds // 1000)).date()
    one, many = (Evaluator(window=Panes("1h"), time_unit=declared) for _ in range(2))
    calls: list[Callable[[], object]] = [
        lambda: one.update(True, True, event_time=number),
        lambda: many.update_many([True], [True], event_time=np.asarray([number])),
    ]
    for call in calls:
        if actual == declared:
            call()
            continue
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.remedy == f"in {actual} it is a time of {day}: declare that unit"
    assert one == many
    assert (one == one.emptied()) is (actual != declared)


@given(st.integers(0, 59 * 86_400), st.sampled_from(list(SCALES)))
def test_seconds_of_a_clock_that_starts_at_0_are_taken(second: int, unit: str) -> None:
    number = second * 10**9 // SCALES[unit]
    assume(
        not any(631_152_000 <= number * scale // 10**9 < 4_102_444_801 for scale in SCALES.values())
    )
    assert event_time(number, unit, first=True) == second * 1_000_000


@pytest.mark.parametrize("times", [[0, 1_772_323_201], ["1970-01-21T12:00:00Z", 1_772_323_201]])
def test_only_the_first_time_of_a_stream_is_judged_by_its_unit(times: list[Any]) -> None:
    one, many = (Evaluator(window=Panes("1h"), time_unit="ms") for _ in range(2))
    for time in times:
        one.update(True, True, event_time=time)
    many.update_many([True, True], [True, True], event_time=times)
    assert one == many
