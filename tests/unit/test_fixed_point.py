"""Order-independent sums: the logarithm, units of 2**-60, and exact sums of any floats."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.errors import StateError
from streameval.states.sums.exact_sum import ExactSum
from streameval.states.sums.fixed_point import (
    CHUNK,
    UNIT,
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
UNITS = st.one_of(
    st.floats(0.0, 1.0), st.floats(0.0, 37.0), st.sampled_from([0.0, 1.0, 5e-324, 36.04, 2**-60])
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


def test_logarithm_has_the_same_bits_one_by_one_and_in_arrays() -> None:
    x = _logarithm_inputs()
    one_by_one = np.array([portable_log(value) for value in x.tolist()])
    assert (one_by_one.view(np.int64) == portable_log_many(x).view(np.int64)).all()


def test_logarithm_is_within_an_ulp_of_the_platforms() -> None:
    x = _logarithm_inputs()
    platform = np.array([math.log(value) for value in x.tolist()])
    off = np.abs(portable_log_many(x) - platform)
    assert (off <= np.spacing(np.abs(platform))).all()


@given(st.lists(st.tuples(UNITS, INT_WEIGHTS, st.integers(0, 4)), max_size=30), st.data())
@settings(max_examples=100)
def test_units_of_arrays_are_those_of_single_values(events: list, data: st.DataObject) -> None:
    values = np.array([value for value, _, _ in events], dtype=np.float64)
    weights = np.array([weight for _, weight, _ in events], dtype=np.int64)
    groups = np.array([group for _, _, group in events], dtype=np.int64)
    assert sum_units(values) == sum(to_units(value) for value in values.tolist())
    assert sum_units(values, weights) == sum(to_units(v) * w for v, w, _ in events)
    for weight in (None, weights):
        expected = [0] * 5
        held = [0] * 5
        for value, by, group in events:
            expected[group] += to_units(value) * (1 if weight is None else by)
            held[group] += 1 if weight is None else by
        assert sum_units_by_group(values, groups, 5, weight) == expected
        assert total_weight_by_group(groups, 5, weight) == held
    assert total_weight(weights) == sum(weights.tolist())


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


def test_units_of_float_weights_are_floats() -> None:
    values, weights = np.array([0.5, 0.25, 1.0]), np.array([0.5, 1.5, 2.0])
    groups = np.array([0, 1, 0])
    assert sum_units(values, weights) == 2.625 * UNIT
    assert sum_units_by_group(values, groups, 2, weights) == [2.25 * UNIT, 0.375 * UNIT]
    assert total_weight(weights) == 4.0
    assert total_weight_by_group(groups, 2, weights) == [2.5, 1.5]


def _fraction(total: ExactSum) -> Fraction:
    total._check()
    return Fraction(*total.as_integer_ratio())


@given(st.lists(st.tuples(FINITE, st.one_of(INT_WEIGHTS, FLOAT_WEIGHTS)), max_size=12), st.data())
@settings(max_examples=150)
def test_exact_sum_is_exact_by_one_and_by_many(events: list, data: st.DataObject) -> None:
    kinds = data.draw(st.sampled_from(["none", "whole", "float"]))
    values = np.array([value for value, _ in events], dtype=np.float64)
    by: list = [1] * len(events)
    weights = None
    if kinds == "whole":
        by = [int(weight) or 1 for _, weight in events]
        weights = np.array(by, dtype=np.int64)
    elif kinds == "float":
        by = [float(weight) for _, weight in events]
        weights = np.array(by, dtype=np.float64)
    sums = [ExactSum(), ExactSum(), ExactSum(), ExactSum()]
    for value, weight in zip(values.tolist(), by, strict=True):
        sums[0].add(value, weight)
        sums[1].add_square(value, weight)
    sums[2].add_many(values, weights)
    sums[3].add_squares_many(values, weights)
    pairs = [(Fraction(v), Fraction(w)) for v, w in zip(values.tolist(), by, strict=True)]
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


def test_exact_sum_takes_terms_out_again() -> None:
    total = ExactSum()
    for x in (1e308, 5e-324, 0.1):
        total.add(x)
    total.add(1e308, -1)
    total.add(0.1, -1)
    assert total.as_integer_ratio() == (1, 2**1074)
    other = ExactSum()
    other.add(5e-324)
    before = total.to_state()
    left = total + -1 * other
    assert (total.to_state(), other.as_integer_ratio()) == (before, (1, 2**1074))
    assert left.to_state() == ExactSum().to_state() == {"numerator": 0, "shift": 0}


def test_exact_sum_beyond_floats_reads_as_infinite() -> None:
    total = ExactSum()
    total.add(-1.7e308, 2)
    assert total.value() == -math.inf
    total.add(1.7e308, 1)
    assert total.value() == -1.7e308


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"numerator": 1, "shift": -1}, r"s\.shift: expected an integer in 0 … 5370, got -1"),
        ({"numerator": 1, "shift": 6000}, r"s\.shift: expected an integer in 0 … 5370, got 6000"),
        ({"numerator": True, "shift": 0}, r"s\.numerator: expected an integer .*, got bool"),
        ({"numerator": 1 << 19999, "shift": 0}, r"s\.numerator: expected an integer of at most"),
        ({"numerator": 2, "shift": 1}, "lowest terms"),
    ],
)
def test_exact_sum_refuses_what_it_did_not_write(data: object, message: str) -> None:
    with pytest.raises(StateError, match=message):
        ExactSum.from_state(data, "s")
