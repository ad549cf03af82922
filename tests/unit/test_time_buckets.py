"""Buckets of time: arrivals one by one and in columns, what is kept, and what is frozen."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streameval as se
from streameval.errors import InputError, StateError
from streameval.states.state_set import StatePlan
from streameval.windows.time_buckets import BucketTimeline, TimeBuckets
from tests.support.laws import assert_same

SECOND = 1_000_000
SPECS: list[Any] = [se.Panes("40s", pane="10s", lateness="25s"), se.Panes("7s"), se.Fading("1s")]
PLAN = StatePlan.everything("binary")


def facts(timeline: BucketTimeline) -> Any:
    state = timeline.to_state()
    numbers = range(-400, 400)
    kept = [n for n in numbers if timeline.keeps(n)]
    return state, timeline.newest, kept, [n for n in kept if timeline.closed(n)]


@pytest.mark.parametrize("spec", SPECS, ids=repr)
@given(st.lists(st.integers(-200, 200), max_size=30), st.lists(st.integers(0, 30), max_size=4))
def test_columns_arrive_as_their_events(spec: Any, seconds: list[int], cuts: list[int]) -> None:
    one, many = spec.timeline(), spec.timeline()
    kept = []
    for n, second in enumerate(seconds):
        moment = second * SECOND
        if not one.drops(moment):
            kept.append(n)
        one.admit(moment)
    found: list[int] = []
    borders = sorted({0, *(cut for cut in cuts if cut < len(seconds)), len(seconds)})
    for start, end in itertools.pairwise(borders):
        arrivals = many.arrivals(np.array(seconds[start:end]) * SECOND)
        before = facts(many)
        rows = range(end - start) if arrivals.kept is None else arrivals.kept.tolist()
        found += [start + row for row in rows]
        assert facts(many) == before  # an arrival is counted when it is admitted
        many.admit_many(arrivals)
    assert found == kept
    assert facts(one) == facts(many)
    again = spec.timeline()
    again.restore(one.to_state())
    assert facts(again) == facts(one)


@pytest.mark.parametrize("spec", SPECS, ids=repr)
@given(st.lists(st.integers(-100, 100)), st.lists(st.integers(-100, 100)))
def test_a_merge_knows_the_later_moment(spec: Any, first: list[int], second: list[int]) -> None:
    one, other = spec.timeline(), spec.timeline()
    for timeline, seconds in ((one, first), (other, second)):
        for moment in seconds:
            timeline.admit(moment * SECOND)
    operand = facts(other)
    one.merge(other)
    assert facts(other) == operand
    latest = max((*first, *second), default=None)
    assert one.latest == (None if latest is None else latest * SECOND)
    assert one.newest == (None if latest is None else latest * SECOND // one.width)


def test_a_bucket_is_made_by_its_first_event_and_not_by_a_check() -> None:
    timeline = SPECS[0].timeline()
    buckets = TimeBuckets(PLAN, timeline, "pane")
    timeline.admit(35 * SECOND)
    event = (1, 1, 0.5, 1)
    buckets.read(3).check(*event)
    assert len(buckets) == 0
    refused = (1, 1, 0.5, 2**62)
    with pytest.raises(InputError, match="weight"):
        buckets.update(3, refused)
    assert len(buckets) == 0
    buckets.update(3, event)
    assert list(buckets) == [3]
    with pytest.raises(InputError, match="weight"):
        buckets.update(3, refused)
    assert buckets.read(3).support("confusion") == 1
    buckets.live(3).revert(*event)
    buckets.drop_empty(3)
    assert 3 not in buckets


def test_a_closed_bucket_is_frozen_and_an_old_one_dropped() -> None:
    timeline = SPECS[0].timeline()
    buckets = TimeBuckets(PLAN, timeline, "pane")
    timeline.admit(0)
    buckets.update(0, (1, 1, 0.5, 1))
    state = buckets.to_state()
    assert buckets.frozen(0) is None
    timeline.admit(35 * SECOND)  # 25 s after the end of the bucket
    buckets.prune()
    data = buckets.frozen(0)
    assert data is not None
    assert buckets.frozen(0) is data
    assert_same(buckets.to_state(), state)
    again = TimeBuckets(PLAN, timeline, "pane")
    again.restore(state)
    assert_same(again.to_state(), state)
    again._check()
    buckets.live(0).update(0, 1, 0.25, 1)  # a revert may thaw it
    assert buckets.frozen(0) is None
    buckets.prune(force=True)
    assert buckets.frozen(0) not in (None, data)
    timeline.admit(80 * SECOND)
    buckets.prune()
    assert len(buckets) == 0
    with pytest.raises(StateError, match="expected a pane that is kept, got 0"):
        again.restore(state)
