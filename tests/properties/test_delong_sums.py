"""The sums of DeLong's variance: those of the definition, in integers, on every path."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import streameval as se
from streameval.states.ranking.reference_index import ReferenceScoreIndex

Event = tuple[bool, float, int]
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
