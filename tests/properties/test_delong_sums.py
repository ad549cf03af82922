"""The sums of DeLong's variance: those of the definition, in integers, on every path."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import streameval as se
from streameval.states.ranking.reference_index import ReferenceScoreIndex
from tests.support.examples import number_of_examples

Event = tuple[bool, float, int]
SCORES = st.one_of(st.integers(0, 9).map(lambda n: n / 8), st.floats(0, 1))
WEIGHTS = st.sampled_from([1, 1, 1, 2, 3, 70_000, 2**33, 2**53])
EVENTS = st.lists(st.tuples(st.booleans(), SCORES, WEIGHTS), max_size=30)
KINDS = list(dict.fromkeys((ReferenceScoreIndex, se.ScoreIndex)))


def by_pairs(events: Iterable[Event]) -> tuple[int, int]:
    """Each placement twice over, squared: the loops of the definition."""
    events = list(events)
    sums = [0, 0]
    for positive, score, weight in events:
        placement = 0
        for other, theirs, much in events:
            if other != positive:
                won = theirs < score if positive else theirs > score
                placement += much * (2 * won + (theirs == score))
        sums[not positive] += weight * placement**2
    return sums[0], sums[1]


def fed(kind: type, events: Iterable[Event]) -> Any:
    index = kind()
    for event in events:
        index.update(*event)
    return index


@pytest.mark.parametrize("kind", KINDS)
@given(events=EVENTS)
def test_they_are_the_sums_over_all_pairs(kind: type, events: list[Event]) -> None:
    sums = fed(kind, events).delong_sums()
    assert sums == by_pairs(events)
    assert [type(each) for each in sums] == [int, int]


@pytest.mark.parametrize("kind", KINDS)
def test_weights_up_to_the_limit_of_a_class(kind: type) -> None:
    shares = [(True, 0.2, 2**61), (False, 0.2, 2**61 + 5), (True, 0.7, 2**60), (False, 0.9, 7)]
    state = {
        "exact": True,
        "scores": np.array([0.2, 0.7, 0.9]),
        "positives": np.array([2**61, 2**60, 0]),
        "negatives": np.array([2**61 + 5, 0, 7]),
    }
    index = kind.from_state(state)
    assert index.delong_sums() == by_pairs(shares)
    # Kept from here on, at the full width of the integers.
    room = 2**62 - 1 - index.positives
    more = [(True, 0.5, 2**53), (False, 0.1, 2**53), (True, 0.9, 3), (False, 0.7, 1)]
    for event in more:
        index.update(*event)
    assert index.delong_sums() == by_pairs(shares + more)
    full = kind.from_state(
        {
            "exact": True,
            "scores": np.array([0.1, 0.4]),
            "positives": np.array([0, room - 2**53 - 3]),
            "negatives": np.array([2**61 - 2**53 - 20, 0]),
        }
    )
    index.merge(full)
    assert index.positives == 2**62 - 1
    shares += [(True, 0.4, room - 2**53 - 3), (False, 0.1, 2**61 - 2**53 - 20)]
    assert index.delong_sums() == by_pairs(shares + more)
    for event in more:
        index.revert(*event)
    assert index.delong_sums() == by_pairs(shares)
    index._check()


@pytest.mark.parametrize("kind", KINDS)
def test_sums_of_fractions_are_floats_and_do_not_depend_on_order(kind: type) -> None:
    events = [(True, 0.3, 0.1), (False, 0.3, 0.7), (False, 0.1, 1.3), (True, 0.9, 0.2)]
    first, second = fed(kind, events), fed(kind, events[::-1])
    assert first.delong_sums() == second.delong_sums()
    assert [type(each) for each in first.delong_sums()] == [float, float]
    assert first.delong_sums() == pytest.approx(by_pairs(events), rel=1e-12)  # type: ignore[arg-type]


def test_the_window_of_the_last_events_keeps_them() -> None:
    rng = np.random.default_rng(8)
    ev = se.Evaluator(window=se.Last(300), metrics=["roc_auc"])
    events: list[Event] = []
    for n in range(2_000):
        event = (bool(rng.random() < 0.3), round(float(rng.random()), 3), 1)
        ev.update(event[0], score=event[1])
        events.append(event)
        if n == 500 or n % 97 == 0:
            # The index itself, which the ring fills: no copy, whose sums would be new.
            index = ev._windows.total.state_set.index
            assert index.delong_sums() == by_pairs(events[-300:])
            index._check()


class Model(RuleBasedStateMachine):
    """An index whose sums were read, beside a list of its events."""

    def __init__(self) -> None:
        super().__init__()
        self.indices = [kind() for kind in KINDS]
        self.events: list[Event] = []
        for index in self.indices:
            index.delong_sums()

    @rule(event=st.tuples(st.booleans(), SCORES, WEIGHTS))
    def update(self, event: Event) -> None:
        self.events.append(event)
        for index in self.indices:
            index.update(*event)

    @rule(data=st.data())
    def revert(self, data: st.DataObject) -> None:
        if self.events:
            event = self.events.pop(data.draw(st.integers(0, len(self.events) - 1)))
            for index in self.indices:
                index.revert(*event)

    @rule(events=EVENTS)
    def update_many(self, events: list[Event]) -> None:
        if events:
            self.events += events
            for index in self.indices:
                index.update_many(*zip(*events, strict=True))

    @rule(events=EVENTS)
    def merge(self, events: list[Event]) -> None:
        self.events += events
        for index in self.indices:
            index.merge(fed(type(index), events))

    @rule()
    def pickle(self) -> None:
        self.indices = [pickle.loads(pickle.dumps(index)) for index in self.indices]

    @rule()
    def copy(self) -> None:
        self.indices = [index.copy() for index in self.indices]

    @invariant()
    def agree(self) -> None:
        expected = by_pairs(self.events)
        for index in self.indices:
            assert index.delong_sums() == expected
            index._check()


TestModel = Model.TestCase
TestModel.settings = settings(
    max_examples=number_of_examples(30), stateful_step_count=25, deadline=None
)
