"""Mean and variance of scores, against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.states.moments import ScoreMoments

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


def test_a_count_of_fractions_is_rounded_once_and_one_of_whole_weights_is_an_integer() -> None:
    moments = ScoreMoments()
    for weight in (0.1, 2**53, 0.1):
        moments.update(True, 2.0, weight)
    assert moments.count(True) == 2.0**53  # the nearest float to the exact sum
    assert type(moments.count(True)) is float
    assert type(ScoreMoments().count(True)) is int
