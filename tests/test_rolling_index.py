"""The score index of a small window answers as the score index of the same events."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import assert_same

from streameval.errors import InputError
from streameval.states.portable_index import PortableScoreIndex
from streameval.states.rolling_index import RollingScoreIndex

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
