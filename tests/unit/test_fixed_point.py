"""Order-independent sums: the logarithm, units of 2**-60, exact sums of floats, and moments."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.errors import StateError
from streameval.states.moments import ScoreMoments
from streameval.states.sums.exact_sum import ExactSum
from streameval.states.sums.fixed_point import (
    CHUNK,
    sum_units,
    sum_units_by_group,
    to_units,
    total_weight,
    total_weight_by_group,
)
from streameval.states.sums.loss_terms import portable_log, portable_log_many

FINITE = st.floats(allow_nan=False, allow_infinity=False)
INT_WEIGHTS = st.one_of(st.integers(1, 5), st.integers(1, 2**53))
FLOAT_WEIGHTS = st.one_of(
    st.floats(5e-324, 2.0**53), st.sampled_from([0.5, 1.5, 2.0**-1074, 2.0**-1022])
)


def _logarithm_inputs() -> np.ndarray:
    rng = np.random.default_rng(20)
    edges = [5e-324, 2.0**-1022, np.nextafter(2.0**-1022, 0), np.finfo(float).max, 2.0**-52]
    edges += [1.0, np.nextafter(1.0, 0), np.nextafter(1.0, 2), 1 - 2.0**-52, 0.5, 2.0, 4.0]
    edges += [math.sqrt(0.5), math.nextafter(math.sqrt(0.5), 0), math.nextafter(math.sqrt(0.5), 1)]
    edges += [2.0**k for k in range(-1074, 1024, 7)]
    return np.concatenate(
        (
            edges,
            1 - rng.random(40_000),
            2.0 ** rng.uniform(-1074, 1023.9, 40_000),
            1 + rng.uniform(-1, 1, 20_000) * 2.0 ** rng.uniform(-53, -3, 20_000),
        )
    )


def test_logarithm_has_the_same_bits_in_arrays_within_an_ulp_of_the_platforms() -> None:
    x = _logarithm_inputs()
    one_by_one, many = np.array(list(map(portable_log, x.tolist()))), portable_log_many(x)
    assert (one_by_one.view(np.int64) == many.view(np.int64)).all()
    platform = np.array(list(map(math.log, x.tolist())))
    assert (np.abs(many - platform) <= np.spacing(np.abs(platform))).all()


def test_units_do_not_overflow_in_a_full_chunk_of_the_largest_terms() -> None:
    n = 2 * CHUNK + 3
    values = np.full(n, 36.04365338911715)
    groups = np.zeros(n, dtype=np.int64)
    for weight in (1, 2047, 2048, 2**53, 2**62, 2**63 - 1):
        weights = np.full(n, weight, dtype=np.int64)
        expected = n * weight * to_units(36.04365338911715)
        assert sum_units(values, weights) == expected
        assert sum_units_by_group(values, groups, 1, weights) == [expected]
        assert total_weight(weights) == n * weight
        assert total_weight_by_group(groups, 1, weights) == [n * weight]


def _fraction(total: ExactSum) -> Fraction:
    total._check()
    return Fraction(*total.as_integer_ratio())


EVENTS = st.one_of(
    *(
        st.lists(st.tuples(FINITE, weights), min_size=1, max_size=12)
        for weights in (st.just(1), INT_WEIGHTS, FLOAT_WEIGHTS)
    )
)


@given(EVENTS)
@settings(max_examples=150)
def test_exact_sum_is_exact_by_one_and_by_many(events: list[tuple[float, float]]) -> None:
    values, weights = map(np.array, zip(*events, strict=True))
    sums = [ExactSum(), ExactSum(), ExactSum(), ExactSum()]
    for value, weight in events:
        sums[0].add(value, weight)
        sums[1].add_square(value, weight)
    sums[2].add_many(values, None if (weights == 1).all() else weights)
    sums[3].add_squares_many(values, weights)
    pairs = [(Fraction(v), Fraction(w)) for v, w in events]
    assert _fraction(sums[0]) == _fraction(sums[2]) == sum(v * w for v, w in pairs)
    assert _fraction(sums[1]) == _fraction(sums[3]) == sum(v * v * w for v, w in pairs)
    assert sums[0] == sums[2]
    assert sums[0].to_state() == sums[2].to_state()
    assert ExactSum.from_state(sums[3].to_state()).to_state() == sums[3].to_state()


def test_exact_sum_of_full_chunks_of_the_largest_mantissas() -> None:
    n = CHUNK + 1
    for value in (math.nextafter(1.0, 0.0), -math.nextafter(2.0**1023, 0.0), 5e-324):
        for weights in (None, np.full(n, 2**53, dtype=np.int64), np.full(n, 1 - 2.0**-53)):
            weight = Fraction(1 if weights is None else weights[0].item())
            plain, squares = ExactSum(), ExactSum()
            plain.add_many(np.full(n, value), weights)
            squares.add_squares_many(np.full(n, value), weights)
            assert _fraction(plain) == n * weight * Fraction(value)
            assert _fraction(squares) == n * weight * Fraction(value) ** 2


@pytest.mark.parametrize(
    ("numerator", "shift", "message"),
    [
        (1, -1, r"s\.shift: expected an integer in 0 … 5370, got -1"),
        (1, 5371, r"s\.shift: expected an integer in 0 … 5370, got 5371"),
        (1 << 19999, 0, r"s\.numerator: expected an integer of at most"),
        (2, 1, "lowest terms"),
    ],
    ids=["low", "high", "long", "factor"],
)
def test_exact_sum_refuses_what_it_did_not_write(numerator: int, shift: int, message: str) -> None:
    with pytest.raises(StateError, match=message):
        ExactSum.from_state({"numerator": numerator, "shift": shift}, "s")


# Mean and variance of scores ------------------------------------------------------


def _as_float(value: Fraction) -> float:
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf


@given(EVENTS, st.booleans())
@settings(max_examples=150)
def test_mean_and_variance_are_correctly_rounded(events: list[Any], positive: bool) -> None:
    single, many = ScoreMoments(), ScoreMoments()
    for event in events:
        single.update(positive, *event)
    many.update_many([positive] * len(events), *map(list, zip(*events, strict=True)))
    assert single == many
    single._check()
    pairs = [(Fraction(score), Fraction(weight)) for score, weight in events]
    total = sum(weight for _, weight in pairs)
    mean = sum(score * weight for score, weight in pairs) / total
    variance = sum((score - mean) ** 2 * weight for score, weight in pairs) / total
    assert (single.mean(positive), single.variance(positive)) == (
        _as_float(mean),
        _as_float(variance),
    )
    assert single.count(positive) in (total, float(total))  # exact, or of fractions
    assert single.mean(not positive) is single.variance(not positive) is None
    assert single.count(not positive) == 0
