"""Intervals of calibration errors and of the calibration curve."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.uncertainty.calibration import (
    Gap,
    calibration_band,
    expected_absolute,
    gap_sum_ends,
)
from streameval.uncertainty.proportions import clopper_pearson

BOTH = ["expected_calibration_error", "max_calibration_error"]


@given(st.floats(0, 5), st.floats(0.01, 3))
def test_the_folded_normal_has_the_mean_of_its_integral(mean: float, error: float) -> None:
    x = mean + error * np.linspace(-12, 12, 200_001)
    density = np.exp(-0.5 * ((x - mean) / error) ** 2)
    direct = float((np.abs(x) * density).sum() / density.sum())
    assert expected_absolute(mean, error) == pytest.approx(direct, rel=1e-6)


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(1e-6, 0.5)), min_size=1, max_size=20),
    st.sampled_from([0.5, 0.95, 0.9999]),
)
@example([(0.5, 1e-12)], 0.95)
@example([(0.0115, 0.005)], 0.95)
@example([(1e-9, 0.5), (0.5, 1e-6)], 0.95)
def test_the_ends_are_where_the_sum_has_its_quantile(pairs, level):
    sizes, errors = np.array(pairs).T
    z = NormalDist().inv_cdf(0.5 + level / 2)
    few = np.where(sizes > z * errors, sizes, 0)
    many = np.sqrt(np.maximum(sizes**2 - errors**2, errors**2))
    ends = gap_sum_ends([Gap(*pair) for pair in pairs], level)
    for found, shape, target in zip(ends, (few, many), (z, -z), strict=True):

        def above(t: float, shape: Any = shape, target: float = target) -> bool:
            means = t * shape
            folded = np.array([*map(expected_absolute, means.tolist(), errors.tolist())])
            spread = np.maximum(0, means**2 + errors**2 - folded**2).sum()
            return bool(sizes.sum() - folded.sum() > target * math.sqrt(spread))

        if found:
            t = found / shape.sum()
            assert above(max(0, t * (1 - 1e-8) - 1e-9))
            assert not above(t * (1 + 1e-8) + 1e-9)
        else:
            assert not shape.any() or not above(0)


def stream(n: int, seed: int, sharpened: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 3, n)
    odds = (p / (1 - p)) ** sharpened
    return rng.random(n) < odds / (1 + odds), p


@settings(max_examples=30)
@given(st.integers(1, 60), st.integers(0, 10**6), st.sampled_from([None, 0.5, 3]))
def test_an_interval_contains_its_value(n: int, seed: int, weight: float | None) -> None:
    y_true, p = stream(n, seed)
    weights = None if weight is None else np.where(y_true, weight, 1.0)
    ev = se.Evaluator(intervals=True).update_many(y_true, score=p, weight=weights)
    total = n if weights is None else float(weights.sum())
    for name in BOTH:
        found = ev.interval(name)
        assert found.defined is not bool(found.reason)
        if found.defined:
            assert 0.0 <= found.low <= found.value <= found.high <= 1.0
            assert found.method == ("gaps (Kish)" if found.n != total else "gaps")


def test_the_interval_of_a_kept_state_is_that_of_the_index() -> None:
    y_true, p = stream(500, 1)
    derived, kept = se.Evaluator(), se.Evaluator(metrics=BOTH, intervals=True)
    without = se.Evaluator(metrics=BOTH)
    for ev in (derived, kept, without):
        ev.update_many(y_true, score=p)
    for name in BOTH:
        assert derived.interval(name) == kept.interval(name)
        assert derived.interval(name).defined
    assert without.interval(BOTH[0]).reason == (
        "the spread of the losses is not kept: pass intervals=True to the Evaluator"
    )
    # It reads bins only.
    assert without.interval(BOTH[1]) == kept.interval(BOTH[1])


def test_several_classes_have_intervals() -> None:
    rng = np.random.default_rng(2)
    shares = rng.dirichlet([1, 1, 1], 800)
    true = [str(rng.choice(list("abc"), p=row)) for row in shares]
    ev = se.Evaluator(task="multiclass", intervals=True)
    ev.update_many(true, proba=dict(zip("abc", shares.T, strict=True)))
    ece, largest = (ev.interval(name) for name in BOTH)
    assert 0.0 == ece.low <= ece.value <= ece.high  # they are calibrated
    assert largest.low <= largest.value <= largest.high


def test_where_there_is_no_interval() -> None:
    ev = se.Evaluator().update_many([True] * 20, score=[0.75] * 20)
    assert ev.interval(BOTH[0]).reason == "all events have the same gap: its spread is unknown"
    right = se.Evaluator().update_many([True, False] * 20, score=[1.0, 0.0] * 20)
    assert right.interval(BOTH[0]).reason == "no gap is above the resolution of the sums"
    assert right.interval(BOTH[1]).high > 0.1


def test_the_band_of_a_curve() -> None:
    y_true, p = stream(400, 3)
    curve = se.Evaluator().update_many(y_true, score=p).curve("calibration")
    rows = list(zip(curve.observed.tolist(), curve.weight.tolist(), strict=True))
    for n in (None, 40):
        low, high = calibration_band(curve, 0.95, n)
        assert ((low <= curve.observed) & (curve.observed <= high)).all()
        scale = (n or 400) / 400
        ends = [clopper_pearson(share * by * scale, by * scale, 0.95) for share, by in rows]
        assert [*zip(low.tolist(), high.tolist(), strict=True)] == ends
