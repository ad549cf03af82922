"""LabelPersistence: equal neighbours in a stream of true labels."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.errors import InputError, StateError
from streameval.states.label_persistence import LabelPersistence
from tests.support.laws import LAWS, StateSpec, check_law, columns

LABELS = st.sampled_from(["sun", "rain", np.str_("sun")])
NUMBERS = st.sampled_from([0, 1, True, 1.0, np.int64(0), 2**70])

REASONS = {
    "shards": "the pair across the boundary of two shards is not counted",
    "order": "it is about the order of the events",
    "revert": "removing an event makes its neighbours neighbours of each other",
}


def spec(name: str, labels: Any) -> StateSpec:
    return StateSpec(
        name=name,
        empty=LabelPersistence,
        events=st.tuples(labels, st.sampled_from([1, 2, 0.5])),
        update=lambda state, event: state.update(*event),
        update_many=lambda state, events: state.update_many(*columns(events, 2)),
        revert=lambda state, event: state.revert(*event),
        read=lambda state: [state.events, state.pairs, state.repeats, state.last, state.exact],
        excused=REASONS,
    )


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    "spec", [spec("words", LABELS), spec("numbers", NUMBERS)], ids=lambda spec: spec.name
)
def test_succession_keeps_the_law(spec: StateSpec, law: str) -> None:
    check_law(spec, law)


@settings(max_examples=60)
@given(st.lists(st.sampled_from("ab"), max_size=20), st.integers(0, 20))
def test_counts_follow_from_the_list_of_labels(labels: list[str], forgotten: int) -> None:
    forgotten = min(forgotten, len(labels))
    state = LabelPersistence()
    state.update_many(labels)
    for n in range(forgotten):
        following = labels[n + 1] if n + 1 < len(labels) else None
        state.forget_oldest(labels[n], following)
        state._check()
    kept = labels[forgotten:]
    assert state.events == len(kept)
    assert state.pairs == max(0, len(kept) - 1)
    assert state.repeats == sum(a == b for a, b in pairwise(kept))
    assert state.last == (kept[-1] if kept else None)


def test_a_merge_counts_no_pair_across_the_boundary() -> None:
    left, right = LabelPersistence(), LabelPersistence()
    left.update_many(["a", "a"])
    right.update("a")
    left.merge(right)
    assert (left.events, left.pairs, left.repeats, left.last) == (3, 1, 1, None)
    left.update("a")
    assert (left.events, left.pairs, left.repeats, left.last) == (4, 1, 1, "a")
    # Parts of one event each have no pair, yet are not nothing.
    one, other = LabelPersistence(), LabelPersistence()
    one.update("b")
    other.update("c")
    one.merge(other)
    assert (one.events, one.last) == (2, None)
    with pytest.raises(StateError, match=r"^merge: expected LabelPersistence, got 1$"):
        one.merge(1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fed", "oldest", "following"),
    [
        *(("", "a", None), ("", "a", "b"), ("a", "b", None), ("a", "a", "a")),
        *(("ab", "a", None), ("ab", "a", "a"), ("aa", "a", "b")),
    ],
)
def test_only_what_came_can_be_forgotten(fed: str, oldest: str, following: Any) -> None:
    state = LabelPersistence()
    state.update_many([*fed])
    before = state.copy()
    with pytest.raises(InputError, match=r"^y_true: expected an event that was counted before"):
        state.forget_oldest(oldest, following)
    assert state == before
