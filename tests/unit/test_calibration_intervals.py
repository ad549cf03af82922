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
@example([(1e-9, 0.5), (0.5, 1e-6)], 0.95)
def test_the_ends_are_those_of_sixty_halvings(
    pairs: list[tuple[float, float]], level: float
) -> None:
    gaps = [Gap(*pair) for pair in pairs]
    z = NormalDist().inv_cdf(0.5 + level / 2)

    def end(shape: list[float], target: float) -> float:
        def above(t: float) -> bool:
            folded = [
                expected_absolute(t * d, gap.error) for d, gap in zip(shape, gaps, strict=True)
            ]
            spread = sum(
                max(0.0, (t * d) ** 2 + gap.error**2 - f * f)
                for d, gap, f in zip(shape, gaps, folded, strict=True)
            )
            return sum(gap.size for gap in gaps) - sum(folded) > target * math.sqrt(spread)

        if not any(shape) or not above(0.0):
            return 0.0
        low, high = 0.0, 1.0
        while above(high):
            low, high = high, 2.0 * high
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if above(middle) else (low, middle)
        return high * sum(shape)

    few = [gap.size if gap.size > z * gap.error else 0.0 for gap in gaps]
    many = [math.sqrt(max(g.size**2 - g.error**2, g.error**2)) for g in gaps]
    expected = (end(few, z), end(many, -z))
    assert gap_sum_ends(gaps, level) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def stream(n: int, seed: int, sharpened: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 3, n)
    odds = (p / (1 - p)) ** sharpened
    return rng.random(n) < odds / (1 + odds), p


@settings(max_examples=30)
@given(st.integers(1, 60), st.integers(0, 10**6), st.sampled_from([None, 0.5, 3]))
def test_an_interval_contains_its_value(n: int, seed: int, weight: float | None) -> None:
    y_true, p = stream(n, seed)
    ev = se.Evaluator(intervals=True)
    weights = None if weight is None else np.where(y_true, weight, 1.0)
    ev.update_many(y_true, score=p, weight=weights)
    for name in BOTH:
        found = ev.interval(name)
        if found.defined:
            assert 0.0 <= found.low <= found.value <= found.high <= 1.0
            assert found.method == ("gaps (Kish)" if found.n != sum_of(weights, n) else "gaps")
        else:
            assert found.reason


def sum_of(weights: Any, n: int) -> float:
    return n if weights is None else float(weights.sum())


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
    for name in BOTH:
        found = ev.interval(name)
        assert found.low <= found.value <= found.high
    assert ev.interval(BOTH[0]).low == 0.0  # they are calibrated


def test_where_there_is_no_interval() -> None:
    ev = se.Evaluator()
    ev.update_many([True] * 20, score=[0.75] * 20)
    assert ev.interval(BOTH[0]).reason == "all events have the same gap: its spread is unknown"
    right = se.Evaluator()
    right.update_many([True, False] * 20, score=[1.0, 0.0] * 20)
    assert right.interval(BOTH[0]).reason == "no gap is above the resolution of the sums"
    assert right.interval(BOTH[1]).high > 0.1


def test_the_band_of_a_curve() -> None:
    y_true, p = stream(400, 3)
    ev = se.Evaluator()
    ev.update_many(y_true, score=p)
    curve = ev.curve("calibration")
    low, high = calibration_band(curve, 0.95)
    assert ((low <= curve.observed) & (curve.observed <= high)).all()
    rows = zip(curve.observed.tolist(), curve.weight.tolist(), strict=True)
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == [
        clopper_pearson(share * weight, weight, 0.95) for share, weight in rows
    ]
    wide, _ = calibration_band(curve, 0.95, n=40)
    assert (wide <= low).all()
