"""The score index of a small window answers as the score index of the same events."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import assert_same

from streameval.errors import InputError
from streameval.states.portable_index import PortableScoreIndex
from streameval.states.rolling_index import RollingScoreIndex
from streameval.states.sorted_blocks import SortedBlocks

EVENTS = st.lists(
    st.tuples(st.booleans(), st.sampled_from([-1.0, 0.0, 0.1, 0.5, 0.5000001, 2.0])), max_size=30
)


@settings(max_examples=80, deadline=None)
@given(EVENTS, EVENTS, st.sampled_from([10, 100_000]), st.booleans())
def test_it_is_the_score_index(
    first: list[tuple[bool, float]], more: list[tuple[bool, float]], capacity: int, read: bool
) -> None:
    rolling, index = RollingScoreIndex(capacity), PortableScoreIndex()
    for event in first:
        rolling.update(*event)
        index.update(*event)
        if read:
            assert rolling.twice_wins == index.twice_wins
    if more:
        flags, scores = np.array([e[0] for e in more]), np.array([e[1] for e in more])
        rolling.update_many(flags, scores)
        index.update_many(flags, scores)
    rolling._check()
    for event in first:
        assert rolling.twice_wins == index.twice_wins
        rolling.revert(*event)
        index.revert(*event)
        rolling._check()
    assert (rolling.positives, rolling.negatives) == (index.positives, index.negatives)
    assert rolling.distinct == index.distinct
    assert rolling.exact
    assert_same(rolling.to_state(), index.to_state())
    fresh = RollingScoreIndex(capacity)
    for event in more:
        fresh.update(*event)
    assert rolling == fresh


@pytest.mark.parametrize("capacity", [10, 100_000])
def test_what_never_came_cannot_be_taken_back(capacity: int) -> None:
    index = RollingScoreIndex(capacity)
    index.update(True, 0.5)
    for event in ((False, 0.5), (True, 0.25), (True, 0.75)):
        with pytest.raises(InputError, match="expected an event that was counted before"):
            index.revert(*event)
    assert (index.positives, index.negatives, index.twice_wins) == (1, 0, 0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([3, 50, 10**9]))
def test_blocks_are_a_sorted_list(seed: int, values: int) -> None:
    rng = np.random.default_rng(seed)
    blocks = SortedBlocks(10_000 if seed % 3 else 10)
    blocks._load = 4  # small, so that blocks are cut and joined all the time
    kept: list[float] = []
    if seed % 2:
        start = rng.integers(0, values, 60) / 7
        blocks.add_many(start)
        kept = sorted(start.tolist())
    for _ in range(150):
        value = float(rng.integers(0, values)) / 7
        if kept and rng.random() < (0.3 if len(kept) < 70 else 0.9):
            value = kept[int(rng.integers(len(kept)))]
            kept.remove(value)
            blocks.remove(value)
        else:
            kept = sorted([*kept, value])
            blocks.add(value)
        assert blocks.rank(value) == (bisect_left(kept, value), bisect_right(kept, value))
        blocks._check()
        assert list(blocks) == kept
    with pytest.raises(ValueError, match="-1"):
        blocks.remove(-1.0)
    with pytest.raises(ValueError, match="1e"):
        blocks.remove(1e300)
    for value in kept:
        blocks.remove(value)
    assert len(blocks) == len(list(blocks)) == 0
    assert blocks.rank(0.5) == (0, 0)
    assert len(blocks._blocks) == 0
