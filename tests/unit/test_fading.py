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
from streameval.windows.fading import EPOCHS, FadingWindow, units, units_many
from tests.support.fading_oracle import Given, Oracle
from tests.support.window_model import Item, binary_stream, class_stream, columns, plain


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


def test_years_go_by() -> None:
    ev = opened("1m", metrics=["accuracy", "roc_auc", "log_loss"])
    start = 1_000_000_000
    rng = np.random.default_rng(0)
    for year in range(3):
        moments = start + year * 31_536_000 + np.sort(rng.integers(0, 31_536_000, 40))
        moments = np.concatenate((moments, moments[-1] + np.arange(0, 1800, 11)))
        true = rng.random(len(moments)) < 0.4
        score = rng.random(len(moments)).round(2)
        ev.update_many(true, score=score, event_time=moments)
        weight = 2.0 ** ((moments - moments.max()) / 60.0)
        near = weight > 2.0**-900
        fresh = plain(
            "binary",
            [
                (Item(bool(t), score=float(s)), float(w))
                for t, s, w in zip(true[near], score[near], weight[near], strict=True)
            ],
        )
        for name in ("accuracy", "roc_auc", "log_loss"):
            assert math.isclose(ev[name], fresh[name], rel_tol=1e-9)
        assert ev.retained["half_lives"] <= EPOCHS == ev.retained["half_lives_at_most"]
    ev._check()


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
    keep = [item for n, item in enumerate(items) if n % 3 or item.time == latest]
    rest.update_many(**columns(keep, timed=True))
    for n, item in enumerate(items):
        if not (n % 3 or item.time == latest):
            ev.revert(**item.arguments(timed=True))
            if n % 30 == 0:
                ev._check()
    assert ev.to_bytes() == rest.to_bytes()
    before = ev.to_bytes()
    with pytest.raises(InputError, match="expected an event that was counted before"):
        ev.revert(items[1].y_true, **(
            {"score": 0.987} if task == "binary" else {"proba": {"zebra": 1.0}, "y_pred": "a"}
        ), event_time=items[1].time)  # fmt: skip
    with pytest.raises(InputError, match="one that was not counted or has faded out"):
        ev.revert(**{**items[1].arguments(timed=True), "event_time": 5})
    assert ev.to_bytes() == before
    by_count = opened(10, task=task)
    by_count.update(**items[0].arguments())
    with pytest.raises(InputError, match="fades by the number of events"):
        by_count.revert(**items[0].arguments())


def test_weights_are_bounded_and_nothing_is_counted() -> None:
    ev = opened()
    ev.update(True, score=0.5, weight=2**20, event_time=0)
    before = ev.to_bytes()
    with pytest.raises(InputError, match="weight: expected a weight of at most 1048576"):
        ev.update(True, score=0.5, weight=2**20 + 1, event_time=9)
    with pytest.raises(InputError, match=re.escape("weight[1]: expected a weight of at most")):
        ev.update_many([True] * 2, score=[0.5] * 2, weight=[1, 2**21], event_time=[9, 9])
    assert ev.to_bytes() == before
    # More than an epoch holds: refused before another epoch has its part.
    with pytest.raises(InputError, match=rf"at most {2**30 - 1} events of weight 1 in a half-life"):
        ev.update_many(
            [True] * 4000, score=[0.5] * 4000, weight=[2**20] * 4000, event_time=[4000] + [9] * 3999
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


def test_a_restored_window_drops_what_fades_out() -> None:
    ev = opened("1m", metrics=["accuracy", "roc_auc"])
    start = 1_700_000_000
    for n in range(90):
        ev.update(n % 3 == 0, score=n / 90, event_time=start + n)
    unread = se.from_bytes(ev.to_bytes())
    unread.update(True, score=0.25, event_time=start + 70 * 60)
    assert unread.retained["half_lives"] == 1
    ev = se.from_bytes(ev.to_bytes())
    assert ev["accuracy"] < 0.5
    # The minutes that hold the 90 events fade out one after the other.
    for n, known in enumerate((True, True, False)):
        ev.update(True, score=n / 3, event_time=start + (63 + n) * 60)
        assert math.isnan(ev["roc_auc"]) is not known
        assert math.isnan(ev.value("roc_auc")) is not known
        ev._check()
    assert ev.retained["half_lives"] == 3


def test_metrics_of_labels_sum_no_scores() -> None:
    ev = opened()
    ev.update_many([True, False], score=[0.75, 0.25], event_time=[0, 9])
    assert (ev.value("accuracy"), ev["f1"]) == (1.0, 1.0)
    window = ev._windows.total
    assert isinstance(window, FadingWindow)
    assert not window._sums.keeps("index")
    assert ev.value("roc_auc") == 1.0
    assert window._sums.keeps("index")


def test_a_copy_of_the_confusion_stays_as_it_is() -> None:
    ev = opened()
    ev.update_many([True, False, True], [True, True, False], event_time=[0, 1800, 3600])
    copied, before = ev.confusion, ev["f1"]
    ev.update(True, True, event_time=3700)
    assert class_metrics.f1(copied, positive=True) == before != ev["f1"]
    copied.update(True, True)
    assert math.isclose(class_metrics.accuracy(copied), copied.correct / copied.total)


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, None, "soon", 2**41, "80000d"])
def test_what_is_no_half_life(bad: Any) -> None:
    with pytest.raises(InputError, match=re.escape("Fading(half_life): expected")):
        se.Fading(bad)
