"""Columns of event times of any form are read as the evaluator reads single ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.errors import InputError
from streameval.events.time import event_time
from streameval.records.times import number_or_text, time_column, time_error

MOMENTS = st.datetimes(
    datetime(1, 1, 3),
    datetime(9999, 12, 29),
    timezones=st.sampled_from([UTC, *(timezone(timedelta(minutes=m)) for m in (60, -330, 1))]),
)
SHAPES: list[Any] = [
    lambda moment: moment.isoformat(),
    lambda moment: moment.isoformat(timespec="seconds"),
    lambda moment: moment.isoformat(timespec="milliseconds"),
    lambda moment: moment.isoformat(" ", timespec="microseconds"),
    lambda moment: moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
    lambda moment: moment.astimezone(UTC).isoformat(timespec="microseconds"),
    lambda moment: moment.strftime("%Y%m%dT%H%M%S%z") if moment.year > 999 else moment.isoformat(),
]


@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
@settings(max_examples=30)
@given(moments=st.lists(MOMENTS, min_size=1, max_size=5))
def test_text_of_every_shape(shape: Any, moments: list[datetime]) -> None:
    texts = [shape(moment) for moment in moments]
    column, wrong = time_column(texts, None)
    assert wrong is None
    assert column.dtype == "datetime64[us]"
    assert column.astype(np.int64).tolist() == [event_time(text) for text in texts]


MOMENT = "2026-03-01T12:30:00Z"
# One letter away from a shape that is parsed at once.
NEARLY = st.builds(
    lambda place, letter: f"{MOMENT[:place]}{letter}{MOMENT[place + 1 :]}",
    st.integers(0, 19),
    st.sampled_from("0123456789-+:TZ. n/é"),
)


@settings(max_examples=300)
@given(text=NEARLY, unit=st.sampled_from([None, "s"]))
def test_what_is_nearly_a_time_is_judged_as_the_evaluator_does(text: str, unit: str | None) -> None:
    column, wrong = time_column([MOMENT, text], unit)
    try:
        expected: int | str = event_time(text, unit)
    except InputError as error:
        expected = error.got
    moment = int(column.astype(np.int64)[1])
    assert (moment if wrong is None else time_error(text, unit).got) == expected
    assert wrong is None or wrong.tolist() == [False, True]


def test_mixtures_and_numbers() -> None:
    column, wrong = time_column(["1970-01-01T00:00:01Z", 2, 3.5, "x", True, float("nan")], "s")
    assert wrong is not None
    assert wrong.tolist() == [False, False, False, True, True, True]
    assert column.astype(np.int64).tolist() == [1_000_000, 2_000_000, 3_500_000, 0, 0, 0]
    assert time_column([], None)[0].shape == (0,)
    nanoseconds = 1_772_323_200_123_456_789
    column, _ = time_column([number_or_text(str(nanoseconds))], "ns")
    assert column.astype(np.int64).tolist() == [nanoseconds // 1000]
    for cell in ("", "nan", "1_000", "0x10", "٣", "1e", "--1", "1" * 50):
        assert number_or_text(cell) == cell
