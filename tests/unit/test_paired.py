"""Tests of paired differences: published examples, brute force, level and power."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from streameval.uncertainty.anytime import beta_binomial
from streameval.uncertainty.multiple_testing import benjamini_hochberg, holm
from streameval.uncertainty.paired import (
    EXACT_BELOW,
    _sums,
    anytime_difference,
    mcnemar,
    paired_bootstrap,
    paired_delong,
)

# DeLong ---------------------------------------------------------------------


def placements(positive: Any, scores: Any) -> tuple[list[float], list[float]]:
    """Each event's share of the other class that it is ranked correctly against, pair by pair."""
    ups = [s for s, is_positive in zip(scores, positive, strict=True) if is_positive]
    downs = [s for s, is_positive in zip(scores, positive, strict=True) if not is_positive]
    wins = [[(up > down) + 0.5 * (up == down) for down in downs] for up in ups]
    return (
        [sum(row) / len(downs) for row in wins],
        [sum(row[n] for row in wins) / len(ups) for n in range(len(downs))],
    )


def brute_force(positive: Any, a: Any, b: Any) -> tuple[float, float]:
    """The difference and its variance by DeLong's covariance matrix of placements."""
    of_a, of_b = placements(positive, a), placements(positive, b)
    covariance = sum(
        np.cov(np.array([of_a[side], of_b[side]])) / len(of_a[side]) for side in (0, 1)
    )
    contrast = np.array([1.0, -1.0])
    return float(np.mean(of_a[0]) - np.mean(of_b[0])), float(contrast @ covariance @ contrast)


SCORE = st.sampled_from([0.0, 0.2, 0.4, 0.5, 0.9])
EVENTS = st.lists(
    st.tuples(st.booleans(), SCORE, SCORE, st.integers(1, 3)), min_size=4, max_size=12
)


@settings(max_examples=100, deadline=None)
@given(EVENTS)
def test_delong_is_the_covariance_of_placements(events: list[Any]) -> None:
    rows = [event for event in events for _ in range(event[3])]
    positive, a, b = (np.array([row[n] for row in rows]) for n in range(3))
    test = paired_delong(
        *(np.array([event[n] for event in events]) for n in range(3)),
        np.array([event[3] for event in events]),
    )
    if not 2 <= positive.sum() <= len(rows) - 2:
        assert math.isnan(test.p_value)
        assert "two events of each class" in test.reason
        return
    value, variance = brute_force(positive, a, b)
    if variance < 1e-15:
        assert test.reason == "the standard error is 0" or (test.low, test.p_value) == (0, 1)
        return
    assert (test.low + test.high) / 2 == pytest.approx(value, abs=1e-12)
    half = 1.959963984540054 * math.sqrt(variance)
    assert (test.high - test.low) / 2 == pytest.approx(half, rel=1e-9)
    assert test.n == len(rows)


def test_sums_beyond_64_bits_are_exact() -> None:
    values, weight = np.array([2**40, -(2**40), 3]), np.array([2**50, 1, 5])
    pairs = list(zip(weight.tolist(), values.tolist(), strict=True))
    assert _sums(values, weight) == (sum(w * v for w, v in pairs), sum(w * v * v for w, v in pairs))


# Proportions ----------------------------------------------------------------


def test_mcnemar_of_published_tables() -> None:
    """Bentur et al. (2009), as analysed by Fagerland, Lydersen & Laake (2014): 1, 7 of 21; and
    Agresti, Categorical Data Analysis, table 10.1: 150 and 86 of 1600 changed their opinion."""
    few = mcnemar(1, 7, 21)
    assert few.p_value == pytest.approx(18 / 256, rel=1e-15)  # printed: 0.070
    assert (round(few.low, 3), round(few.high, 3)) == (-0.508, -0.013)
    assert few.method.startswith("McNemar exact")
    many = mcnemar(86, 150, 1600)
    z = (86 - 150) / math.sqrt(86 + 150)
    assert (z, z * z) == pytest.approx((-4.17, 17.36), abs=5e-3)  # printed
    assert many.p_value == pytest.approx(math.erfc(-z / math.sqrt(2)), rel=1e-12)
    # Printed, Wald's: (−0.06, −0.02).
    assert (round(many.low, 2), round(many.high, 2)) == (-0.06, -0.02)
    assert mcnemar(13, 12, 100).method.startswith("McNemar,")


def test_the_exact_p_value_is_the_binomial_one() -> None:
    discordant = EXACT_BELOW - 1
    for wins in range(EXACT_BELOW):
        test = mcnemar(wins, discordant - wins, 100)
        expected = stats.binomtest(wins, discordant).pvalue
        assert test.p_value == pytest.approx(expected, rel=1e-12)
    assert mcnemar(0, 0, 10).p_value == 1.0
    assert mcnemar(0, 0, 0).reason == anytime_difference(0, 0, 0).reason == "no events"


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 200), st.integers(0, 200), st.integers(0, 500))
def test_an_anytime_interval_leaves_out_0_where_p_says_so(a: int, b: int, ties: int) -> None:
    n = a + b + ties
    if not n:
        return
    test = anytime_difference(a, b, n)
    outside = test.low > 0 or test.high < 0
    if abs(test.p_value - 0.05) > 1e-9:
        assert outside == (test.p_value < 0.05)
    assert test.low <= (a - b) / n <= test.high
    if a > b and test.low > 0:  # of α = 5 %, a tenth is for the rate of discordant pairs
        share, rate = beta_binomial(a, a + b, 0.955), beta_binomial(a + b, n, 0.995)
        assert test.low == pytest.approx((2 * share[0] - 1) * rate[0], rel=1e-12)
    mirrored = anytime_difference(b, a, n)
    assert (mirrored.low, mirrored.high) == pytest.approx((-test.high, -test.low), abs=1e-12)


def test_the_bootstrap_is_that_of_the_events_one_by_one() -> None:
    """A cell of weight w drawn as Poisson(w) is w events drawn as Poisson(1) each."""
    gains, weight = np.array([1.0, -1.0, 0.0]), np.array([40, 25, 135])

    def difference(drawn: Any) -> float:
        return float(drawn @ gains / drawn.sum())

    def half(**options: Any) -> float:
        test = paired_bootstrap(difference, difference(weight), weight, **options)
        return (test.high - test.low) / 2

    # The paired proportions' own formula.
    exact = math.sqrt((65 - 15**2 / 200) / 200**2)
    assert half(replicates=4_000) / 1.959963984540054 == pytest.approx(exact, rel=0.05)
    assert half() == half() != half(seed=1)
    # Many degrees of freedom are the normal.
    assert half(freedom=9) / half() == pytest.approx(stats.t.ppf(0.975, 9) / 1.959964, rel=1e-4)
    assert half(freedom=1e9) == pytest.approx(half(), rel=1e-6)
    none = paired_bootstrap(lambda drawn: math.nan if drawn[0] < 2 else 0.1, 0.1, np.array([1, 9]))
    assert math.isnan(none.low)
    assert "of 200 bootstrap replicates" in none.reason


# Several tests --------------------------------------------------------------


P_VALUES = st.lists(st.one_of(st.floats(0, 1), st.just(math.nan)), max_size=12)


@settings(max_examples=200, deadline=None)
@given(P_VALUES, st.floats(0.001, 0.999))
def test_adjusted_p_values_reject_as_the_step_rules_do(p_values: list[float], rate: float) -> None:
    numbers = sorted(p for p in p_values if not math.isnan(p))
    m = len(numbers)
    stepped = 0
    while stepped < m and numbers[stepped] <= rate / (m - stepped):
        stepped += 1
    by_holm = holm(p_values)
    # Products and quotients are rounded differently where they are equal.
    near = any(abs(p - rate) < 1e-12 for p in by_holm)
    assert near or sum(p <= rate for p in by_holm) == stepped
    raised = max((n for n, p in enumerate(numbers, 1) if p <= rate * n / m), default=0)
    by_rate = benjamini_hochberg(p_values)
    near = any(abs(p - rate) < 1e-12 for p in by_rate)
    assert near or sum(p <= rate for p in by_rate) == raised
    for adjusted in (by_holm, by_rate):
        for before, after in zip(p_values, adjusted, strict=True):
            assert math.isnan(after) == math.isnan(before)
            assert math.isnan(after) or before <= after <= 1
