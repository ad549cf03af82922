"""Frozen states thaw to equal ones."""

from __future__ import annotations

import pytest

from streameval.states.backend import compiled
from streameval.states.state_set import StatePlan, StateSet
from streameval.windows.time_buckets import freeze, thaw
from tests.support.laws import assert_same
from tests.support.window_model import Item, binary_stream, class_stream


def fed(task: str, items: list[Item], weight: float) -> StateSet:
    state_set = StateSet(StatePlan.everything(task))  # type: ignore[arg-type]
    for item in items:
        if task == "binary":
            state_set.update(item.y_true, int(item.score >= 0.5), item.score, weight)
        else:
            state_set.update(item.y_true, "a", item.proba, weight)
    return state_set


@pytest.mark.parametrize("task", ["binary", "multiclass"])
@pytest.mark.parametrize("weight", [1, 2**52, 0.5])
def test_there_and_back(task: str, weight: float) -> None:
    items = (binary_stream if task == "binary" else class_stream)(100, seed=1)
    # Sums of probabilities of such weights pass 64 bits.
    state_set = fed(task, items, weight)
    again = thaw(freeze(state_set), state_set.plan)
    assert_same(again.to_state(), state_set.to_state())
    again._check()
    # What is thawed can be changed.
    again.merge(state_set)
    assert again.support("confusion") == 2 * state_set.support("confusion")


def test_a_pane_of_labels_takes_little_memory() -> None:
    state_set = StateSet(StatePlan.for_states("binary", ["confusion"]))
    for true in (0, 1):
        for predicted in (0, 1):
            state_set.update(true, predicted)
    assert len(freeze(state_set)) < 200


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
    assert freeze(again) == data
