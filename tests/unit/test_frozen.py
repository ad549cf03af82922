"""Frozen states are small, and thaw to equal ones."""

from __future__ import annotations

import pytest

from streameval.states.backend import compiled
from streameval.states.state_set import StatePlan, StateSet
from streameval.windows.time_buckets import freeze, thaw
from tests.support.laws import assert_same
from tests.support.window_model import binary_stream

# That panes thaw to what was frozen, of every task and weight: tests/unit/test_golden_states.py and
# the oracle of windows.


@pytest.mark.skipif(
    compiled("streameval.states.native.batch_partition") is None,
    reason="the bytes of compiled code",
)
@pytest.mark.parametrize("states", [["confusion"], ["index"], ["confusion", "index"]])
@pytest.mark.parametrize(("weight", "width"), [(1, 1), (300, 2), (2**20, 4), (2**52, 8)])
def test_a_pane_of_scores_is_packed(states: list[str], weight: int, width: int) -> None:
    state_set = StateSet(StatePlan.for_states("binary", states))
    for item in binary_stream(50, seed=2):
        state_set.update(item.y_true, int(item.score >= 0.5), item.score, weight)
    data = freeze(state_set)
    scores = state_set.index.distinct if "index" in states else 0
    assert len(data) <= 48 + (8 + 2 * width) * scores
    again = thaw(data, state_set.plan)
    assert_same(again.to_state(), state_set.to_state())
    again._check()
    assert freeze(again) == data
