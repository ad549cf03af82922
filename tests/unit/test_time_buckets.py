"""Buckets of time: in columns events are kept, late or dropped as they are one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import streameval as se

SPECS: list[Any] = [se.Panes("40s", pane="10s", lateness="25s"), se.Panes("7s"), se.Fading("1s")]


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
