"""The compiled ring of Last(n): the bits, the errors and the file of the ring made in Python."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import numpy as np
import pytest

import streameval as se

NativeEventRing = pytest.importorskip(
    "streameval.states.native.event_ring",
    reason="NOT TESTED: compiled code, of which none was built",
).NativeEventRing

compiled = pytest.mark.skipif(se.backend() != "native", reason="the portable backend has no ring")


@compiled
def test_the_ring_is_in_use_until_an_event_has_another_weight() -> None:
    ev = se.Evaluator(positive="spam", window=se.Last(3))
    window = ev._windows.total
    for label in ("ham", "spam", "spam"):
        ev.update(label, score=0.5)
    assert window._ring is window._compiled  # type: ignore[attr-defined]
    assert ev["log_loss"] > 0
    ev._check()
    ev.update("spam", score=0.75, weight=2)
    assert isinstance(window._ring, deque)  # type: ignore[attr-defined]
    ev.update("spam", score=0.5)
    ev.update_many(["spam", "ham", "spam"], score=[0.5, 0.5, 0.5])
    assert window._ring is window._compiled  # type: ignore[attr-defined]
    ev.update("spam", score=0.5)
    ev._check()
    emptied = ev.emptied()
    emptied.merge(ev)
    assert emptied.to_bytes() == ev.to_bytes()


def test_a_ring_answers_as_a_deque_does() -> None:
    ring, held = NativeEventRing(8), deque[Any]()
    draw = random.Random(4)
    for _ in range(2_000):
        act = draw.random()
        score = draw.choice([None, 0.0, 0.5, draw.random()])
        item = (draw.randrange(2), draw.randrange(2), score, 1)
        if act < 0.5:
            ring.append(item)
            held.append(item)
        elif act < 0.85 and held:
            assert ring.popleft() == held.popleft()
        elif act < 0.9 and held:
            place = draw.randrange(len(held))
            del ring[place]
            del held[place]
        elif act < 0.95:
            place = draw.randrange(len(held) + 1)
            ring.insert(place, item)
            held.insert(place, item)
        else:
            backs = [back for back, other in enumerate(reversed(held), 1) if other == item]
            assert ring.newest(item) == (backs[0] if backs else 0)
        assert list(ring) == list(held)
        assert len(ring) == len(held)
    with pytest.raises(IndexError):
        ring[len(ring)]
    with pytest.raises(IndexError):
        del ring[len(ring)]
    ring.drop(10**6)
    with pytest.raises(IndexError):
        ring.popleft()
    assert list(ring) == []
    # Columns are the events.
    true, guess = np.array([True, False, True, True])[::2], np.array([False, True])
    ring.extend_columns(true, guess, np.array([-0.0, 0.5]))
    ring.extend_columns(true, guess, None)
    assert list(ring) == [(1, 0, 0.0, 1), (1, 1, 0.5, 1), (1, 0, None, 1), (1, 1, None, 1)]
    assert str(ring[0][2]) == "0.0"
