"""Last(n): the literal last n events, one by one, in batches, taken back, saved."""

from __future__ import annotations

import math
import re
import time
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


@pytest.mark.parametrize("task", ["binary", "multiclass"])
@pytest.mark.parametrize("temporal", [False, True])
def test_any_event_inside_can_be_taken_back(task: str, temporal: bool) -> None:
    items = (binary_stream if task == "binary" else class_stream)(60, seed=3)
    for gone in range(40, 60):
        ev = fed(20, items, task=task, temporal=temporal)
        ev.revert(**items[gone].arguments())
        ev._check()
        # The newest equal event goes.
        same = items[gone].arguments()
        last = max(n for n in range(60) if items[n].arguments() == same)
        rest = items[40:last] + items[last + 1 :]
        left = fed(20, rest, task=task, temporal=temporal)
        assert ev.to_bytes() == left.to_bytes()
        # The order of the others is kept: what leaves next is still the oldest.
        for item in items[:5]:
            ev.update(**item.arguments())
            left.update(**item.arguments())
        assert ev.to_bytes() == left.to_bytes()


def test_a_refused_revert_leaves_the_order_of_every_slice() -> None:
    def build() -> se.Evaluator:
        ev = se.Evaluator(window=se.Last(3), slices=("country", "model"))
        for n in range(6):
            ev.update(n % 2, score=n / 10, slices={"country": "PT" if n % 3 else "DE", "model": n})
        return ev

    ev, untouched = build(), build()
    # The total and the country have had it, this model has not.
    with pytest.raises(InputError, match="revert"):
        ev.revert(0, score=0.4, slices={"country": "PT", "model": 3})
    for n in range(4):
        for again in (ev, untouched):
            again.update(1, score=0.5, slices={"country": "PT", "model": n})
            again._check()
        assert ev.to_bytes() == untouched.to_bytes()
    ev = build()
    ev.revert(0, score=0.4, slices={"country": "PT", "model": 4})
    ev._check()
    assert [view.report(["accuracy"]).rows[0].support for view in ev.slices().values()] == [
        2, 2, 1, 1, 1, 1, 0, 1
    ]  # fmt: skip


def test_a_batch_larger_than_the_window_costs_no_more_than_the_window() -> None:
    rng = np.random.default_rng(0)
    true, score = rng.random(400_000) < 0.3, rng.random(400_000)

    def seconds(window: Any) -> float:
        best = np.inf
        for _ in range(3):
            ev = se.Evaluator(window=window, metrics=["roc_auc", "accuracy"])
            start = time.process_time()
            ev.update_many(true, score=score)
            ev["roc_auc"]
            best = min(best, time.process_time() - start)
        return float(best)

    # Validating a column is cheap; sorting or converting 400,000 events is not.
    assert seconds(se.Last(1000)) < seconds(None) / 2


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
    left.update("a", proba={"a": 0.75, "b": 0.25})
    right.update("a", proba={"b": 0.25, "a": 0.75})
    assert left.to_bytes() == right.to_bytes()
    right.revert("a", proba={"a": 0.75, "b": 0.25})
    assert math.isnan(right["accuracy"])
