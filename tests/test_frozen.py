"""Frozen states thaw to equal ones."""

from __future__ import annotations

import pytest

from streameval.tally import Plan, Tally
from streameval.windows.time_buckets import freeze, thaw
from tests.laws import assert_same
from tests.window_model import Item, binary_stream, class_stream


def fed(task: str, items: list[Item], weight: float) -> Tally:
    tally = Tally(Plan.everything(task))  # type: ignore[arg-type]
    for item in items:
        if task == "binary":
            tally.update(item.y_true, int(item.score >= 0.5), item.score, weight)
        else:
            tally.update(item.y_true, "a", item.proba, weight)
    return tally


@pytest.mark.parametrize("task", ["binary", "multiclass"])
@pytest.mark.parametrize("weight", [1, 2**52, 0.5])
def test_there_and_back(task: str, weight: float) -> None:
    items = (binary_stream if task == "binary" else class_stream)(100, seed=1)
    # Sums of probabilities of such weights pass 64 bits.
    tally = fed(task, items, weight)
    again = thaw(freeze(tally), tally.plan)
    assert_same(again.to_state(), tally.to_state())
    again._check()
    # What is thawed can be changed.
    again.merge(tally)
    assert again.support("confusion") == 2 * tally.support("confusion")


def test_a_pane_of_labels_takes_little_room() -> None:
    tally = Tally(Plan.for_states("binary", ["confusion"]))
    for true in (0, 1):
        for predicted in (0, 1):
            tally.update(true, predicted)
    assert len(freeze(tally)) < 200
