"""Estimates against the values that came: counts, the binomial limit, what is left out."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.errors import InputError
from streameval.uncertainty.estimate_check import check_estimates
from streameval.uncertainty.interval import Interval


def estimate(value: float = 0.5, half: float = 0.125, level: float = 0.95) -> Interval:
    return Interval(value, value - half, value + half, level, "expected", 100)


NOTHING = Interval(math.nan, math.nan, math.nan, 0.95, "", 0, "no event")


@pytest.mark.parametrize(
    ("held", "failed", "flagged"),
    [(0, 1, False), (0, 2, True), (3, 3, True), (4, 3, True), (1, 2, True), (2, 2, False),
     (16, 4, False), (15, 5, True), (20, 0, False)],
)  # fmt: skip
def test_failures_are_flagged_by_their_chance(held: int, failed: int, flagged: bool) -> None:
    found = check_estimates([estimate()] * (held + failed), [0.375] * held + [0.25] * failed)
    assert (found.panes, found.held, found.flagged) == (held + failed, held, flagged)
    assert found.error == (0.125 * held + 0.25 * failed) / (held + failed)


@given(
    st.lists(st.tuples(st.sampled_from([0.25, 0.5, math.nan]), st.booleans()), max_size=40),
    st.sampled_from([0.5, 0.75, 0.875]),
)
def test_the_check_is_that_of_exact_binomial_sums(
    panes: list[tuple[float, bool]], level: float
) -> None:
    estimates = [estimate(level=level) if there else NOTHING._replace(level=level)
                 for _, there in panes]  # fmt: skip
    found = check_estimates(estimates, [value for value, _ in panes])
    compared = [value for value, there in panes if there and value == value]
    failed = compared.count(0.25)
    chance = 1 - Fraction(level)
    tail = sum(
        math.comb(len(compared), k) * chance**k * (1 - chance) ** (len(compared) - k)
        for k in range(failed, len(compared) + 1)
    )
    assert (found.panes, found.held) == (len(compared), len(compared) - failed)
    assert found.flagged == (bool(compared) and tail < Fraction(1, 100))
    assert ("no interval or no value" in found.reason) == (len(compared) < len(panes))


@pytest.mark.parametrize(
    ("estimates", "values", "reason"),
    [
        ([], [], "there is no pane"),
        ([NOTHING], [0.5], "1 pane has no interval or no value"),
        ([estimate(), NOTHING, estimate()], [0.5, 0.5, math.nan],
         "0 of 1 values are outside of their 95% intervals; 2 panes have no interval or no value"),
        ([estimate()] * 2, [0.0, 1.0],
         "2 of 2 values are outside of their 95% intervals, which has a chance of 0.0025 if labels "
         "go with scores as they did in the labelled events"),
    ],
)  # fmt: skip
def test_the_reason_is_one_sentence(
    estimates: list[Interval], values: list[float], reason: str
) -> None:
    found = check_estimates(estimates, values)
    assert found.reason == reason
    assert (found.to_dict()["error"] is None) == (not found.panes)


@pytest.mark.parametrize(
    ("estimates", "message"),
    [
        ([estimate()], "values: expected one of each of 1 estimates, got 2"),
        ([estimate(), estimate(level=0.9)],
         "estimates: expected intervals of one level, got 0.9 and 0.95"),
    ],
)  # fmt: skip
def test_refusals(estimates: list[Interval], message: str) -> None:
    with pytest.raises(InputError) as raised:
        check_estimates(estimates, [0.5, 0.5])
    assert str(raised.value) == message
