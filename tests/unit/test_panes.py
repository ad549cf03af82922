"""Panes: event time, the watermark, late events, the series, shards, memory."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

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
    ev.update(True, True, event_time=HOUR + 1799)
    before = ev.to_state()
    ev.update(True, False, event_time=HOUR + 500)  # ends 1199 s before: still kept
    ev.update(True, False, event_time=HOUR - 1)  # ended 1799 s before
    after = ev.to_state()
    assert ev.arrivals == {"on_time": 3, "late_kept": 2, "late_dropped": 1}
    assert before["timeline"]["latest"] == after["timeline"]["latest"]
    # The borders to the second: a pane's end at the watermark is too late.
    ev.update(True, False, event_time=HOUR + 1800)
    ev.update(True, False, event_time=HOUR + 599)
    assert ev.arrivals["late_dropped"] == 2


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
    ("lateness", "retain"),
    [("0s", None), ("10m", "7h"), ("59m", "400m"), ("1h", None), ("61m", "7h")],
)
def test_what_is_retained_does_not_depend_on_the_clock_in_the_newest_pane(
    lateness: str, retain: str | None
) -> None:
    window = se.Panes("5h", pane="1h", lateness=lateness, retain=retain)
    single, batch = (se.Evaluator(window=window, time_unit="s") for _ in range(2))
    hour = 3600
    times = [22 * hour + 1200, 23 * hour, *(24 * hour + 60 * k for k in range(500))]
    labels, scores = [n % 7 == 0 for n in times], [n * 37 % 101 / 101 for n in times]
    for label, score, time in zip(labels, scores, times, strict=True):
        single.update(label, score=score, event_time=time)
        if time % 1800 == 0:
            assert se.from_bytes(single.to_bytes()) == single
    batch.update_many(labels, score=scores, event_time=times)
    assert single.to_bytes() == batch.to_bytes()


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
