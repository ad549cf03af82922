"""When a checkpoint is due, and which one is skipped."""

from __future__ import annotations

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


def test_the_time_that_a_dear_checkpoint_holds_back_the_next() -> None:
    policy = after_a_checkpoint(2.0)
    policy.count(5)
    assert [due(policy, now) for now in (0.5, 7.5, 8.1)] == [7.5, 0.5, 0.0]
    # With nothing to write, what the last one took is no reason to wait.
    quiet = after_a_checkpoint(2.0)
    assert due(quiet, 1.0, changed=False) == 0.0
    assert due(quiet, 1.0, changed=True) == 7.0


def test_a_dear_checkpoint_waits_less_while_nothing_is_left_to_read() -> None:
    policy = after_a_checkpoint(2.0)
    policy.count(5)
    assert [policy.due_in(now, lambda: True, idle=True) for now in (0.5, 1.5, 2.0)] == [1.5, 0.5, 0]
    # From the begin of one to the begin of the next.
    cheap = after_a_checkpoint(0.125)
    cheap.count(5)
    assert cheap.due_in(0.25, lambda: True, idle=True) == 0.625


def test_a_number_of_records_makes_it_due_earlier_than_a_long_period() -> None:
    policy = after_a_checkpoint(0.5, every=60.0)
    policy.count(10)
    assert due(policy, 1.0) == 4.0
    assert due(policy, 5.0) == 0.0


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


def test_changes_are_looked_for_only_where_they_decide() -> None:
    def fail() -> bool:
        raise AssertionError("not needed")

    policy = after_a_checkpoint(0.5)
    assert policy.due_in(0.25, fail) == 0.25
    policy.count(1)
    assert policy.due_in(0.5, fail) == 1.5
    with pytest.raises(AssertionError, match="not needed"):
        after_a_checkpoint(0.5).due_in(0.5, fail)


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
