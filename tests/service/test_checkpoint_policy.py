"""When a checkpoint is due, and which one is skipped."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.service.run.checkpoint_policy import CheckpointPolicy


def after_a_checkpoint(seconds: float, *, every: float = 1.0, events: int = 10) -> CheckpointPolicy:
    """A policy whose last checkpoint ended at 0."""
    policy = CheckpointPolicy(every, events, -seconds)
    policy.began(-seconds)
    policy.wrote(0.0)
    return policy


def due(policy: CheckpointPolicy, now: float, *, changed: bool = True) -> float:
    return policy.due_in(now, lambda: changed)


@pytest.mark.parametrize(
    ("seconds", "options", "counted", "how", "times"),
    [
        (2.0, {}, 5, {}, {0.5: 7.5, 7.5: 0.5, 8.1: 0.0}),
        # With nothing to write, what the last one took is no reason to wait.
        (2.0, {}, 0, {"changed": lambda: False}, {1.0: 0.0}),
        (2.0, {}, 0, {"changed": lambda: True}, {1.0: 7.0}),
        # With nothing left to read, from the begin of one to the begin of the next.
        (2.0, {}, 5, {"idle": True}, {0.5: 1.5, 1.5: 0.5, 2.0: 0.0}),
        (0.125, {}, 5, {"idle": True}, {0.25: 0.625}),
        # A number of records makes it due earlier than a long period.
        (0.5, {"every": 60.0}, 10, {}, {1.0: 4.0, 5.0: 0.0}),
        # Changes are looked for only where they decide.
        (0.5, {}, 0, {"changed": None}, {0.25: 0.25}),
        (0.5, {}, 1, {"changed": None}, {0.5: 1.5}),
    ],
)
def test_when_a_checkpoint_is_due(
    seconds: float, options: Any, counted: int, how: Any, times: dict[float, float]
) -> None:
    policy = after_a_checkpoint(seconds, **options)
    policy.count(counted)
    assert {now: policy.due_in(now, **{"changed": None, **how}) for now in times} == times


def test_a_new_partition_makes_it_due_at_once() -> None:
    policy = after_a_checkpoint(2.0)
    policy.hurry()
    assert due(policy, 0.0, changed=False) == 0.0
    policy.began(0.0)
    policy.wrote(1.0)
    policy.count(1)
    assert due(policy, 1.0) > 0.0


def test_a_skipped_one_begins_the_period_anew() -> None:
    policy = after_a_checkpoint(2.0)
    policy.skipped(1.0)
    assert due(policy, 1.5, changed=False) == 0.5
    assert policy.seconds == 2.0
    # What it wrote last, and how long that took, still counts.
    policy.count(1)
    assert due(policy, 1.5) == 6.5


def test_a_join_is_written_by_the_clock_after_a_quiet_time() -> None:
    for seconds, quiet in ((0.1, 10.0), (5.0, 20.0)):
        policy = after_a_checkpoint(seconds)
        policy.skipped(quiet - 1)
        assert policy.is_quiet(quiet - 0.1)
        assert not policy.is_quiet(quiet)


@given(
    st.floats(0, 100),
    st.floats(0.1, 100),
    st.integers(1, 1000),
    st.lists(st.integers(0, 500), max_size=20),
    st.floats(0, 1000),
)
def test_bounds(seconds: float, every: float, events: int, counts: list[int], now: float) -> None:
    policy = after_a_checkpoint(seconds, every=every, events=events)
    policy.count(1)
    before = due(policy, now)
    assert 0.0 <= before <= max(every, 4 * seconds)
    # Waiting for as long as it says makes it due.
    assert due(policy, now + before + 1e-6) == 0.0
    for count in counts:
        policy.count(count)
    assert policy.records == 1 + sum(counts)
    assert (due(policy, now) == 0.0) >= (policy.records >= 8 * events)
    policy.began(now)
    assert policy.records == 0
    assert due(policy, now) == pytest.approx(every)
