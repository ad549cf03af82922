"""Last(n): the literal last n events, one by one, in batches, taken back, saved."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import streameval as se
from streameval.errors import InputError, StateError
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
    ev = fed(3, class_stream(5, seed=2), task="multiclass")
    state = ev.to_state()
    for key, value, message in [
        ("later", np.zeros(3), "window: expected the keys"),
        ("predicted", np.array([0, 1, -1]), "window.predicted: expected values from 0"),
        ("weight", np.array([1, 1, 0]), "window.weight: expected values from 1"),
        ("true", np.array([0, 1]), "expected 2 values, got 3"),
        ("share_labels", np.array([1, 0, 2, 0, 1, 2, 0, 1, 2]), "labels to ascend"),
        ("shares", np.full(9, 2.0), "window.shares"),
        ("labels", ["a", "a", "b"], "expected distinct labels"),
    ]:
        window = {**state["window"], key: value}
        with pytest.raises(StateError, match=re.escape(message)):
            se.Evaluator.from_state({**state, "window": window})
    many = fed(4, class_stream(5, seed=2), task="multiclass").to_state()["window"]
    with pytest.raises(StateError, match="expected at most 3 events, got 4"):
        se.Evaluator.from_state({**state, "window": many})


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "3", 10**9])
def test_how_many(bad: Any) -> None:
    with pytest.raises(InputError, match=re.escape("Last(n): expected a number of events from 1")):
        se.Last(bad)


def test_one_event_is_written_in_one_way() -> None:
    left, right = (se.Evaluator(task="multiclass", window=se.Last(3)) for _ in range(2))
    orders = {"a": 0.75, "b": 0.25}, {"b": 0.25, "a": 0.75}
    for ev, proba in zip((left, right), orders, strict=True):
        ev.update("a", proba=proba)
    assert left.to_bytes() == right.to_bytes()
    right.revert("a", proba=orders[0])
    assert math.isnan(right["accuracy"])
