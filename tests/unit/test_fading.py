"""Fading: weights by age, late events, reverts, years, bits that depend on the events only."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.errors import InputError
from streameval.metrics import class_metrics
from streameval.windows.fading import units, units_many
from tests.support.fading_oracle import Given, Oracle
from tests.support.window_model import binary_stream, class_stream, columns


def opened(half_life: Any = "1h", **options: Any) -> se.Evaluator:
    return se.Evaluator(window=se.Fading(half_life), time_unit="s", **options)


@settings(max_examples=200)
@given(st.integers(1, 2**52), st.floats(0, 1, exclude_max=True))
def test_units_are_powers_of_two_to_nine_digits(half_life: int, part: float) -> None:
    phase = min(int(part * half_life), half_life - 1)
    whole = units(phase, half_life)
    assert 2**31 <= whole <= 2**32
    assert math.isclose(whole, 2.0 ** (31 + phase / half_life), rel_tol=3e-10)
    assert units_many(np.array([phase]), half_life).tolist() == [whole]


def test_a_half_life_halves() -> None:
    ev = opened()
    ev.update(True, True, event_time=0)
    ev.update(True, False, event_time=3600)
    assert math.isclose(ev["accuracy"], 1 / 3, rel_tol=1e-9)
    assert math.isclose(ev.report(["accuracy"]).rows[0].support, 1.5, rel_tol=1e-9)
    ev.update(False, False, event_time=1800)  # late, and weighs what it would have in time
    weights = [0.5, 1.0, math.sqrt(0.5)]
    assert math.isclose(ev["accuracy"], (weights[0] + weights[2]) / sum(weights), rel_tol=1e-9)
    by_count = opened(2)
    by_count.update_many([True] * 3, [True, True, False])
    assert math.isclose(by_count["accuracy"], (0.5 + 2**-0.5) / (1.5 + 2**-0.5), rel_tol=1e-9)


def test_what_has_faded_out_is_counted_and_nothing_else() -> None:
    ev = opened("1m")
    ev.update(True, True, event_time=100_000)
    before = repr(ev.to_state()["window"])
    ev.update(True, False, event_time=100_000 - 65 * 60)
    ev.update_many([True, True], [False, False], event_time=[0, 1])
    assert ev.arrivals == {"faded_out": 3}
    assert repr(ev.to_state()["window"]) == before
    assert ev["accuracy"] == 1.0


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_reverts_are_exact(task: str) -> None:
    items = (binary_stream if task == "binary" else class_stream)(200, seed=4)
    ev, rest = opened(task=task), opened(task=task)
    ev.update_many(**columns(items, timed=True))
    latest = max(item.time for item in items)
    gone = [item for n, item in enumerate(items) if not n % 3 and item.time != latest]
    rest.update_many(**columns([item for item in items if item not in gone], timed=True))
    for item in gone:
        ev.revert(**item.arguments(timed=True))
    ev._check()
    assert ev.to_bytes() == rest.to_bytes()
    with pytest.raises(InputError, match="one that was not counted or has faded out"):
        ev.revert(**{**items[1].arguments(timed=True), "event_time": 5})
    assert ev.to_bytes() == rest.to_bytes()


def test_more_weight_than_an_epoch_holds_is_refused_and_nothing_is_counted() -> None:
    ev = opened()
    ev.update(True, score=0.5, weight=2**20, event_time=0)
    before = ev.to_bytes()
    for weight, message in (
        ([1] * 3999 + [2**21], "weight[3999]: expected a weight of at most"),
        # Refused before another epoch has its part.
        ([2**20] * 4000, f"at most {2**30 - 1} events of weight 1 in a half-life"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            ev.update_many(
                [True] * 4000, score=[0.5] * 4000, weight=weight, event_time=[4000] + [9] * 3999
            )
        assert ev.to_bytes() == before


def test_numbers_that_compiled_sums_do_not_hold() -> None:
    ev = opened(metrics=["accuracy", "f1"])
    oracle = Oracle(3600 * 10**6)
    for start in (1_700_000_000, 1_700_003_600):
        times = [start + n for n in range(3000)]
        true, predicted = [n % 3 == 0 for n in times], [n % 5 < 2 for n in times]
        ev.update_many(true, predicted, weight=[2**20] * 3000, event_time=times)
        for moment, *labels in zip(times, true, predicted, strict=True):
            oracle.add(Given(moment * 10**6, *labels, weight=2**20))
    for seconds in (0, 1, 7200, 64 * 3600):
        moment = 1_700_010_000 + seconds
        ev.update(True, seconds != 1, event_time=moment)
        oracle.add(Given(moment * 10**6, True, seconds != 1))
        expected = oracle.values()
        assert (ev["accuracy"], ev["f1"]) == (expected["accuracy"], expected["f1"])
    ev._check()


def test_a_copy_of_the_confusion_stays_as_it_is() -> None:
    ev = opened()
    ev.update_many([True, False, True], [True, True, False], event_time=[0, 1800, 3600])
    copied, before = ev.confusion, ev["f1"]
    ev.update(True, True, event_time=3700)
    assert class_metrics.f1(copied, positive=True) == before != ev["f1"]


@pytest.mark.parametrize("bad", [-1, 1.5, True, 2**41, "80000d"])
def test_what_is_no_half_life(bad: Any) -> None:
    with pytest.raises(InputError, match=re.escape("Fading(half_life): expected")):
        se.Fading(bad)
