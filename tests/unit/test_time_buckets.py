"""Buckets of time: in columns events are kept, late or dropped as they are one by one."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streameval as se

SPECS: list[Any] = [se.Panes("40s", pane="10s", lateness="25s"), se.Panes("7s"), se.Fading("1s")]


@pytest.mark.parametrize("spec", SPECS, ids=repr)
@given(st.lists(st.integers(-200, 200), max_size=30), st.lists(st.integers(0, 30), max_size=4))
def test_columns_arrive_as_their_events(spec: Any, seconds: list[int], cuts: list[int]) -> None:
    one, many = (se.Evaluator(window=spec, time_unit="s") for _ in range(2))
    labels = [second % 3 == 0 for second in seconds]
    for label, second in zip(labels, seconds, strict=True):
        one.update(label, True, event_time=10**9 + second)
    borders = sorted({0, *(cut for cut in cuts if cut < len(seconds)), len(seconds)})
    for start, end in itertools.pairwise(borders):
        times = [10**9 + second for second in seconds[start:end]]
        many.update_many(labels[start:end], [True] * len(times), event_time=times)
    assert many.arrivals == one.arrivals
    assert many.to_bytes() == one.to_bytes()
    again = se.from_bytes(many.to_bytes())
    assert (again.arrivals, again.retained) == (one.arrivals, one.retained)
    many._check()
