"""LabelPersistence: equal neighbours in a stream of true labels."""

from __future__ import annotations

import copy
import re
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
    "spec",
    [spec("words", LABELS), spec("numbers", NUMBERS)],
    ids=lambda value: getattr(value, "name", value),
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
    # Two parts of one event each have no pair, yet are not nothing.
    one, other, third = LabelPersistence(), LabelPersistence(), LabelPersistence()
    one.update("a")
    other.update("b")
    third.update("c")
    one.merge(other)
    one.merge(third)
    assert one.last is None
    one.merge(one)
    assert one.events == 6
    with pytest.raises(StateError, match=r"^merge: expected LabelPersistence, got 1$"):
        one.merge(1)  # type: ignore[arg-type]


def test_wrong_input_is_refused_whole() -> None:
    state = LabelPersistence()
    state.update("a")
    before = state.to_state()
    for bad, message in (
        (1, "expected a str like the label 'a', got 1, a number; coerce the labels"),
        (None, "expected a str, int or bool label, got None; this event has no label yet"),
        (["a"], "expected a str, int or bool label, got ['a'] of type list"),
    ):
        with pytest.raises(InputError, match="^" + re.escape(f"y_true: {message}")):
            state.update(bad)
        with pytest.raises(InputError, match="^" + re.escape(f"y_true[0]: {message}")):
            state.update_many([bad, bad])
    for weight in (0, -1, float("nan"), None, True):
        with pytest.raises(InputError, match=r"^weight: expected a weight above 0"):
            state.update("a", weight)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^weight\[1\]: expected a weight above 0"):
        state.update_many(["a", "a"], [1, 0])
    with pytest.raises(InputError, match=r"^weight: expected 1 values, one for each event, got 2"):
        state.update_many(["a"], [1, 1])
    assert state.to_state() == before


def test_nothing_can_be_taken_back() -> None:
    state = LabelPersistence()
    state.update("a")
    with pytest.raises(
        InputError,
        match=r"^revert: expected a state that does not depend on the order of events, got the "
        r"succession of labels, from which 'a' cannot be taken back; leave kappa_temporal out",
    ):
        state.revert("a")


@pytest.mark.parametrize(
    ("fed", "oldest", "following"),
    [
        ([], "a", None),
        ([], "a", "b"),
        (["a"], "b", None),
        (["a"], "a", "a"),
        (["a", "b"], "a", None),
        (["a", "b"], "a", "a"),
        (["a", "a"], "a", "b"),
    ],
)
def test_only_what_came_can_be_forgotten(fed: list[str], oldest: str, following: Any) -> None:
    state = LabelPersistence()
    state.update_many(fed)
    before = state.copy()
    with pytest.raises(InputError, match=r"^y_true: expected an event that was counted before"):
        state.forget_oldest(oldest, following)
    assert state == before


def test_the_object() -> None:
    state = LabelPersistence()
    state.update_many(np.array([True, True, False]))
    assert repr(state) == "LabelPersistence(events=3, pairs=2, repeats=1)"
    twin = copy.copy(state)
    twin.update(0)
    assert twin != state
    assert state != 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"events": 1}, "succession.pairs: expected an integer in 0 … 0, got 1"),
        ({"pairs": -1}, "succession.pairs: expected an integer in 0 … 1, got -1"),
        ({"repeats": 2}, "succession.repeats: expected an integer in 0 … 1, got 2"),
        ({"last": ["a", "b"]}, "succession.last: expected at most one label, and none before any"),
        ({"last": [0.5]}, "succession.last: expected labels that are all str or all int"),
        ({"last": []}, "succession.pairs: expected an integer in 0 … 0, got 1"),
        ({"last": [], "events": 1, "pairs": 0}, "succession.last: expected the label of the one"),
        ({"events": 0, "pairs": 0}, "succession.last: expected at most one label, and none before"),
        ({"extra": 0}, "succession: expected the keys events, last, pairs, repeats, got"),
    ],
)
def test_a_damaged_state_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    state = LabelPersistence()
    state.update_many(["a", "b"])
    assert LabelPersistence.from_state(state.to_state()) == state
    with pytest.raises(StateError, match="^" + re.escape(message)):
        LabelPersistence.from_state(state.to_state() | change)
