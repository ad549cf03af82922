"""Sums beside a bounded index: derived while it holds every score, kept before it is coarsened."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import streameval as se
from streameval.errors import StateError

LIMIT = 1024
SUMS = ("log_loss", "brier_score", "expected_calibration_error", "binormal_auc")
WINDOWS = (
    None,
    se.Panes("4h", pane="1h"),
    se.Fading(half_life="2h"),
)

Event = dict[str, Any]


def _events(rng: random.Random, size: int) -> list[Event]:
    digits, outside = rng.choice((3, 17)), rng.choice((0, 0, 0.01))
    return [
        {
            "y_true": rng.random() < 0.4,
            "score": round(rng.random(), digits) if rng.random() >= outside else -3.0,
            "weight": rng.choice((1, 1, 2)),
            "event_time": (1_700_000_000 + rng.randrange(6 * 3_600)) * 1_000_000,
        }
        for _ in range(size)
    ]


def _evaluator(window: Any, limit: int | None, *, intervals: bool = False) -> se.Evaluator:
    return se.Evaluator(
        window=window, max_scores=limit, intervals=intervals, time_unit="us", slices=["half"]
    )


def _half(event: Event) -> dict[str, Any]:
    return {"half": "low" if event["score"] < 0.5 else "high"}


def _one(evaluator: se.Evaluator, event: Event) -> None:
    evaluator.update(**event, slices=_half(event))


def _batch(evaluator: se.Evaluator, events: list[Event]) -> None:
    if events:
        columns = {key: np.array([event[key] for event in events]) for key in events[0]}
        half = [_half(event)["half"] for event in events]
        evaluator.update_many(**columns, slices={"half": np.array(half)})


def _any_way(rng: random.Random, evaluator: se.Evaluator, events: list[Event]) -> se.Evaluator:
    """The events in batches and one by one, with reads, copies and reverted events between them."""
    at = 0
    while at < len(events):
        size = rng.choice((1, 3, 40, 400))
        part = events[at : at + size]
        at += size
        if rng.random() < 0.5:
            _batch(evaluator, part)
        else:
            for event in part:
                _one(evaluator, event)
        act = rng.randrange(3)
        if act == 0:
            evaluator[rng.choice(SUMS)]
        elif act == 1:
            evaluator = se.from_bytes(evaluator.to_bytes())
        elif evaluator.options["window"]["kind"] != "panes":  # which count what has arrived
            _one(evaluator, part[0])
            evaluator.revert(**part[0], slices=_half(part[0]))
        evaluator._check()
    return evaluator


@pytest.mark.parametrize("window", WINDOWS, ids=["all", "panes", "fading"])
def test_any_way_to_a_bounded_evaluator_gives_one_content_and_exact_sums(window: Any):
    rng = random.Random(1)
    # In order of time, so that lateness does not depend on the way.
    events = sorted(_events(rng, 1500), key=lambda event: int(event["event_time"]))
    intervals = rng.random() < 0.5
    whole = _evaluator(window, LIMIT, intervals=intervals)
    for event in events:
        _one(whole, event)
    ways = [_any_way(rng, whole.emptied(), events)]
    cut = rng.randrange(len(events))
    shards = [_any_way(rng, whole.emptied(), part) for part in (events[:cut], events[cut:])]
    ways.append(se.merge([*reversed(shards)]))
    exact = _evaluator(window, None, intervals=intervals)
    _batch(exact, events)
    for evaluator in [whole, *ways]:
        assert evaluator.to_bytes() == whole.to_bytes()
        assert evaluator == whole
        evaluator._check()
        for name in SUMS:
            others = exact.slices()
            pairs = [(view, others[key]) for key, view in evaluator.slices().items()]
            for bounded, reference in [(evaluator, exact), *pairs]:
                found, wanted = bounded[name], reference[name]
                # A fading window's weights are fractions.
                if isinstance(window, se.Fading):
                    assert found == pytest.approx(wanted, rel=1e-9, nan_ok=True)
                else:
                    assert found == wanted or np.isnan([found, wanted]).all()


def test_the_sums_are_written_where_the_index_is_coarse_and_ignored_where_it_is_not():
    few, many = se.Evaluator(max_scores=LIMIT), se.Evaluator(max_scores=LIMIT)
    for number in range(2000):
        many.update(number % 3 == 0, score=number / 2000)
        if number < 1000:
            few.update(number % 3 == 0, score=number / 2000)
    exact, coarse = few.to_state(), many.to_state()
    assert set(exact["window"]) == {"confusion", "index"}
    assert set(coarse["window"]) == {"confusion", "index", "probability", "moments"}
    # As written by a version that kept them from the start.
    older = {**exact, "window": {**coarse["window"], **exact["window"]}}
    assert se.Evaluator.from_state(older).to_bytes() == few.to_bytes()
    del coarse["window"]["probability"]
    with pytest.raises(StateError, match="expected probability beside coarsened scores"):
        se.Evaluator.from_state(coarse)
