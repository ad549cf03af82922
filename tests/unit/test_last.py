"""Last(n): the literal last n events, one by one, in batches, taken back, saved."""

from __future__ import annotations

import random
import re
from collections import deque
from typing import Any

import numpy as np
import pytest

import streameval as se
from streameval.errors import StateError
from tests.support.window_model import binary_stream, class_stream


def fed(n: int, items: list[Any], **options: Any) -> se.Evaluator:
    ev = se.Evaluator(window=se.Last(n), **options)
    for item in items:
        ev.update(**item.arguments())
    return ev


@pytest.mark.parametrize(("task", "temporal"), [("binary", True), ("multiclass", False)])
def test_any_event_inside_can_be_taken_back(task: str, temporal: bool) -> None:
    items = (binary_stream if task == "binary" else class_stream)(30, seed=3)
    options: dict[str, Any] = {"task": task, "temporal": temporal}
    for gone in range(20, 30):
        ev = fed(10, items, **options)
        # The newest equal event goes.
        same = items[gone].arguments()
        ev.revert(**same)
        ev._check()
        last = max(n for n in range(30) if items[n].arguments() == same)
        left = fed(10, items[20:last] + items[last + 1 :], **options)
        assert ev.to_bytes() == left.to_bytes()
        # The order of the others is kept: what leaves next is still the oldest.
        for item in items[:3]:
            ev.update(**item.arguments())
            left.update(**item.arguments())
        assert ev.to_bytes() == left.to_bytes()


def test_what_a_file_may_hold() -> None:
    state = fed(3, class_stream(5, seed=2), task="multiclass").to_state()
    more = fed(4, class_stream(5, seed=2), task="multiclass").to_state()["window"]
    for changed, message in [
        ({"later": np.zeros(3)}, "window: expected the keys"),
        ({"predicted": np.array([0, 1, -1])}, "window.predicted: expected values from 0"),
        ({"weight": np.array([1, 1, 0])}, "window.weight: expected values from 1"),
        ({"true": np.array([0, 1])}, "expected 2 values, got 3"),
        ({"share_labels": np.array([1, 0, 2, 0, 1, 2, 0, 1, 2])}, "labels to ascend"),
        ({"shares": np.full(9, 2.0)}, "window.shares"),
        ({"labels": ["a", "a", "b"]}, "expected distinct labels"),
        (more, "expected at most 3 events, got 4"),
    ]:
        with pytest.raises(StateError, match=re.escape(message)):
            se.Evaluator.from_state({**state, "window": {**state["window"], **changed}})


def test_one_event_is_written_in_one_way() -> None:
    left, right = (se.Evaluator(task="multiclass", window=se.Last(3)) for _ in range(2))
    left.update("a", proba={"a": 0.75, "b": 0.25})
    right.update("a", proba={"b": 0.25, "a": 0.75})
    assert left.to_bytes() == right.to_bytes()


# The compiled ring against a deque; in windows: tests/unit/test_fast_path.py --------


def test_a_ring_answers_as_a_deque_does() -> None:
    native = pytest.importorskip("streameval.states.native.event_ring")
    ring, held = native.NativeEventRing(8), deque[Any]()
    draw = random.Random(4)
    for _ in range(2_000):
        act, place = draw.random(), draw.randrange(len(held) + 1)
        score = draw.choice([None, 0.0, 0.5, draw.random()])
        item = (draw.randrange(2), draw.randrange(2), score, 1)
        if act < 0.5:
            ring.append(item)
            held.append(item)
        elif act < 0.85 and held:
            assert ring.popleft() == held.popleft()
        elif act < 0.9 and place < len(held):
            del ring[place]
            del held[place]
        elif act < 0.95:
            ring.insert(place, item)
            held.insert(place, item)
        else:
            backs = [back for back, other in enumerate(reversed(held), 1) if other == item]
            assert ring.newest(item) == (backs[0] if backs else 0)
        assert list(ring) == list(held)
        assert len(ring) == len(held)
    for call in (ring.__getitem__, ring.__delitem__):
        with pytest.raises(IndexError):
            call(len(ring))
    ring.drop(10**6)
    with pytest.raises(IndexError):
        ring.popleft()
    # Columns are the events.
    true, guess = np.array([True, False, True, True])[::2], np.array([False, True])
    ring.extend_columns(true, guess, np.array([-0.0, 0.5]))
    ring.extend_columns(true, guess, None)
    assert list(ring) == [(1, 0, 0.0, 1), (1, 1, 0.5, 1), (1, 0, None, 1), (1, 1, None, 1)]
    assert str(ring[0][2]) == "0.0"
