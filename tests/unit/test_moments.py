"""Mean and variance of scores, against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.states.moments import ScoreMoments
from streameval.states.score_index import ScoreIndex

FINITE = st.floats(allow_nan=False, allow_infinity=False)
WEIGHTS = st.one_of(st.integers(1, 5), st.integers(1, 2**53), st.floats(5e-324, 2.0**53))


def _as_float(value: Fraction) -> float:
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def expected(events: list[Any]) -> tuple[float, float]:
    """Mean and population variance, each rounded once."""
    pairs = [(Fraction(score), Fraction(weight)) for score, weight in events]
    total = sum(weight for _, weight in pairs)
    mean = sum(score * weight for score, weight in pairs) / total
    variance = sum((score - mean) ** 2 * weight for score, weight in pairs) / total
    return _as_float(mean), _as_float(variance)


@given(st.lists(st.tuples(FINITE, WEIGHTS), min_size=1, max_size=8), st.booleans())
@settings(max_examples=150)
def test_mean_and_variance_are_correctly_rounded(events: list[Any], positive: bool) -> None:
    single, many = ScoreMoments(), ScoreMoments()
    for score, weight in events:
        single.update(positive, score, weight)
    many.update_many(
        [positive] * len(events), [score for score, _ in events], [w for _, w in events]
    )
    assert single == many
    single._check()
    assert (single.mean(positive), single.variance(positive)) == expected(events)
    assert single.mean(not positive) is single.variance(not positive) is None
    assert single.count(not positive) == 0


def test_many_events_have_the_bits_of_single_ones() -> None:
    rng = np.random.default_rng(6)
    n = 40_000
    scores = rng.normal(size=n) * 2.0 ** rng.integers(-40, 40, n)
    scores[:50] = rng.normal(size=50) * 2.0 ** rng.integers(-1070, 1020, 50)
    positive = rng.random(n) < 0.3
    big = np.where(rng.random(n) < 0.01, 2**53, rng.integers(1, 5, n))
    for weight in (None, big, rng.random(n)):
        single, many = ScoreMoments(), ScoreMoments()
        many.update_many(positive, scores, weight)
        weights = [1] * n if weight is None else weight.tolist()
        for event in zip(positive.tolist(), scores.tolist(), weights, strict=True):
            single.update(*event)
        assert many.to_state() == single.to_state()


@pytest.mark.parametrize("whole", [True, False])
def test_from_groups_has_the_bits_of_the_events(whole: bool) -> None:
    rng = np.random.default_rng(7)
    scores = np.round(rng.normal(size=3000), 2)
    positive = rng.random(3000) < 0.5
    weight = rng.integers(1, 3000, 3000) if whole else rng.integers(1, 9, 3000) / 2
    index = ScoreIndex()
    index.update_many(positive, scores, weight)
    derived, fed = ScoreMoments.from_blocks((index.groups(),)), ScoreMoments()
    fed.update_many(positive, scores, weight)
    # Halves add up in the index without rounding, too.
    assert derived == fed
    assert derived.exact is whole


def test_a_count_of_fractions_is_rounded_once_and_one_of_whole_weights_is_an_integer() -> None:
    moments = ScoreMoments()
    for weight in (0.1, 2**53, 0.1):
        moments.update(True, 2.0, weight)
    assert moments.count(True) == 2.0**53  # the nearest float to the exact sum
    assert type(moments.count(True)) is float
    assert type(ScoreMoments().count(True)) is int
