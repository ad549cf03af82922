"""Panes: event time, the watermark, late events, the series, what is retained; columns of all."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import streameval as se
from streameval.errors import InputError, MetricError
from tests.support.window_model import binary_stream, columns

HOUR = 1_700_002_800  # a whole hour


def opened(**options: Any) -> se.Evaluator:
    window = se.Panes("1h", "10m", "20m", **options.pop("panes", {}))
    return se.Evaluator(window=window, time_unit="s", **options)


def test_a_late_event_changes_the_answer_and_a_later_one_only_a_count() -> None:
    ev = opened()
    ev.update(True, True, event_time=HOUR)
    ev.update(True, True, event_time=HOUR + 1500)
    assert (ev["accuracy"], ev.arrivals["on_time"]) == (1.0, 2)
    ev.update(True, False, event_time=HOUR + 100)  # its pane ended 900 s ago
    assert ev["accuracy"] == 2 / 3
    assert ev.arrivals == {"on_time": 2, "late_kept": 1, "late_dropped": 0}
    # The borders to the second: a pane's end at the watermark is too late.
    for newest, kept, dropped in ((1799, 2, 0), (1800, 2, 1)):
        ev.update(True, True, event_time=HOUR + newest)
        ev.update(True, False, event_time=HOUR + 599)
        assert (ev.arrivals["late_kept"], ev.arrivals["late_dropped"]) == (kept, dropped)


def test_the_series_shows_every_pane() -> None:
    ev = opened(panes={"retain": "3h"})
    assert ev.series("accuracy") == []
    for minute, right in [(0, True), (5, False), (31, True), (65, True)]:
        ev.update(True, right, event_time=HOUR + 60 * minute)
    rows = ev.series("accuracy")
    assert [row.support for row in rows] == [2, 0, 0, 1, 0, 0, 1]
    assert rows[0].start == "2023-11-14T23:00:00Z"
    assert [row.end for row in rows[:-1]] == [row.start for row in rows[1:]]
    assert rows[0].value == 0.5
    assert math.isnan(rows[1].value)
    assert rows[1].reason
    assert [row.support for row in ev.series("f1")] == [2, 0, 0, 1, 0, 0, 1]
    with pytest.raises(MetricError, match="no metric is called"):
        ev.series("f3")
    with pytest.raises(MetricError, match="a series needs a window of panes"):
        se.Evaluator(window=se.Last(5)).series("accuracy")


def test_memory_is_bounded_by_what_is_retained_and_says_so() -> None:
    ev = opened()
    items = binary_stream(3000, seed=8)
    most = ev.retained["panes_at_most"]
    assert most == 9  # 80 minutes, and the pane that is filling
    for start in range(0, 3000, 100):
        ev.update_many(**columns(items[start : start + 100], timed=True))
        kept = ev.retained
        assert kept["panes"] <= most
        assert kept["panes_frozen"] >= kept["panes"] - 4
        assert len(ev.series("accuracy")) <= most
    assert 0 < kept["frozen_bytes"] < 20_000  # of 2,000 events
    assert kept["since"] < ev.series("accuracy")[0].end


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("1h", "5m", "-1m"), "Panes(lateness): expected a duration"),
        (("0s",), "Panes(length): expected a duration"),
        (("1h", "5m", "10m", "1h"), "Panes(retain): expected at least length + lateness, 70m"),
        (("7d", "1s"), "Panes(pane): expected panes so long that at most 100000 are retained"),
    ],
)
def test_what_is_no_window(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        se.Panes(*arguments)


def test_times_at_the_ends_of_the_calendar() -> None:
    ev = se.Evaluator(window=se.Panes("7d"), slices=())
    for time in ("0001-01-01T00:00:00", "9999-12-31T23:59:59"):
        ev.update(True, True, event_time=f"{time}+00:00")
        assert [row.start[:5] for row in ev.series("accuracy")] == [time[:5]]
    assert ev["accuracy"] == 1.0


def test_the_window_before_is_of_its_own_panes() -> None:
    ev = se.Evaluator(window=se.Panes("20m", pane="10m", retain="60m"), time_unit="s")
    now, before = se.Evaluator(), se.Evaluator()
    for minute in range(60):
        ev.update(True, minute % 3 != 0, event_time=minute * 60)
        if minute >= 20:
            (now if minute >= 40 else before).update(True, minute % 3 != 0)
    view = ev.total.before(20 * 60_000_000)
    assert ev["accuracy"] == now["accuracy"]
    assert view["accuracy"] == before["accuracy"]
    assert str(view.interval("accuracy")) == str(before.interval("accuracy"))
    # It is of the events of its time.
    ev.update(True, True, event_time=70 * 60)
    assert view["accuracy"] == before["accuracy"]
    assert ev.total.before(20 * 60_000_000)["accuracy"] != view["accuracy"]
    with pytest.raises(MetricError, match="the window before needs a window of panes"):
        se.Evaluator().total.before(1)
    empty = se.Evaluator(window=se.Panes("20m"), time_unit="s").total.before(1)
    assert empty.report(["accuracy"]).rows[0].support == 0


SPECS: list[Any] = [
    se.Panes("40s", pane="10s", lateness="25s"),
    se.Panes("40s", pane="10s", lateness="11s", retain="70s"),
    se.Panes("7s"),
    se.Fading("1s"),
]


@pytest.mark.parametrize("spec", SPECS, ids=repr)
@given(st.lists(st.lists(st.integers(-200, 200), min_size=1, max_size=9), max_size=4))
@example([[90, 20], [0, 60], [-100, 91]])
@example([[120, 150, 155]])
def test_columns_arrive_as_their_events(spec: Any, batches: list[list[int]]) -> None:
    one, many = (se.Evaluator(window=spec, time_unit="s") for _ in range(2))
    for seconds in batches:
        times = [10**9 + second for second in seconds]
        labels = [second % 3 == 0 for second in seconds]
        for label, time in zip(labels, times, strict=True):
            one.update(label, True, event_time=time)
        many.update_many(labels, [True] * len(times), event_time=times)
    assert many.arrivals == one.arrivals
    assert many.to_bytes() == one.to_bytes()
    again = se.from_bytes(many.to_bytes())
    assert again.arrivals == one.arrivals
    # Which panes are frozen is a matter of memory, and another once a file was read.
    kept = [{**(ev.retained or {}), "panes_frozen": 0, "frozen_bytes": 0} for ev in (again, one)]
    assert kept[0] == kept[1]
    many._check()
