"""Intervals of the AUC: DeLong's sums in integers, published numbers, definitions in fractions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streameval as se
from streameval.states.ranking.reference_index import ReferenceScoreIndex
from streameval.uncertainty.delong import logit_interval, newcombe_interval, sequence_factor
from tests.support.aneurysms import aneurysms

Event = tuple[bool, float, int]
KINDS = list(dict.fromkeys((ReferenceScoreIndex, se.ScoreIndex)))
SCORES = st.integers(0, 12).map(float)
SHARES = st.one_of(st.sampled_from([0.0, 1.0, 0.5, 1e-9, 1 - 1e-9]), st.floats(0, 1))
SIZES = st.integers(1, 10_000)


def counted(kind: type, positives: list[float], negatives: list[float]) -> se.ScoreIndex:
    truth = np.arange(len(positives) + len(negatives)) < len(positives)
    index: se.ScoreIndex = kind()
    index.update_many(truth, np.array([*positives, *negatives]))
    return index


def variance_by_placements(positives: list[float], negatives: list[float]) -> Fraction:
    """The definition, nothing rounded."""

    def placements(own: list[float], other: list[float]) -> list[Fraction]:
        twice = [sum(2 * (x > y) + (x == y) for y in other) for x in own]
        return [Fraction(each, 2 * len(other)) for each in twice]

    def spread(values: list[Fraction]) -> Fraction:
        mean = sum(values) / Fraction(len(values))
        return sum((value - mean) ** 2 for value in values) / Fraction(len(values) - 1)

    s10 = spread(placements(positives, negatives))
    s01 = spread(placements(negatives, positives))
    return s10 / len(positives) + s01 / len(negatives)


def fed(positives: list[float], negatives: list[float]) -> se.Evaluator:
    ev = se.Evaluator()
    ev.update_many([1] * len(positives) + [0] * len(negatives), score=[*positives, *negatives])
    return ev


# Sums of placements, squared -------------------------------------------------


def by_pairs(events: Iterable[Event]) -> tuple[int, int]:
    """Each placement twice over, squared: the loops of the definition."""
    events = list(events)
    sums = [0, 0]
    for positive, score, weight in events:
        placement = 0
        for other, theirs, much in events:
            if other != positive:
                won = theirs < score if positive else theirs > score
                placement += much * (2 * won + (theirs == score))
        sums[not positive] += weight * placement**2
    return sums[0], sums[1]


@pytest.mark.parametrize("kind", KINDS)
def test_weights_up_to_the_limit_of_a_class(kind: type) -> None:
    def of(events: list[Event]) -> Any:
        groups = sorted({score for _, score, _ in events})
        counts = [
            [sum(w for p, s, w in events if p is side and s == at) for at in groups]
            for side in (True, False)
        ]
        scores, positives, negatives = map(np.array, (groups, *counts))
        form = {"scores": scores, "positives": positives, "negatives": negatives}
        return kind.from_state({"exact": True, **form})  # type: ignore[attr-defined]

    shares = [(True, 0.2, 2**61), (False, 0.2, 2**61 + 5), (True, 0.7, 2**60), (False, 0.9, 7)]
    index = of(shares)
    assert index.delong_sums() == by_pairs(shares)
    # Kept from here on, at the full width of the integers.
    more = [(True, 0.5, 2**53), (False, 0.1, 2**53), (True, 0.9, 3), (False, 0.7, 1)]
    for event in more:
        index.update(*event)
    assert index.delong_sums() == by_pairs(shares + more)
    room = 2**62 - 1 - index.positives
    full = [(True, 0.4, room), (False, 0.1, 2**61 - 2**53 - 20)]
    index.merge(of(full))
    assert index.positives == 2**62 - 1
    assert index.delong_sums() == by_pairs(shares + full + more)
    for event in more:
        index.revert(*event)
    assert index.delong_sums() == by_pairs(shares + full)
    index._check()


@pytest.mark.parametrize("kind", KINDS)
def test_sums_of_fractions_are_floats_and_do_not_depend_on_order(kind: type) -> None:
    events = [(True, 0.3, 0.1), (False, 0.3, 0.7), (False, 0.1, 1.3), (True, 0.9, 0.2)]
    first, second = kind(), kind()
    for one, other in zip(events, events[::-1], strict=True):
        first.update(*one)
        second.update(*other)
    assert first.delong_sums() == second.delong_sums()
    assert [type(each) for each in first.delong_sums()] == [float, float]
    assert first.delong_sums() == pytest.approx(by_pairs(events), rel=1e-12)  # type: ignore[arg-type]


# The variance ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "auc", "variance"),
    [
        # The tests of pROC, tests/testthat/test-var.R.
        ("wfns", 2431.5 / (41 * 72), 0.00146991470882363),
        ("ndka", 0.611957994579946, 0.0031908105493913),
        ("s100b", 2159 / (41 * 72), 0.00266868245717244),
    ],
)
def test_the_variances_that_proc_prints(name: str, auc: float, variance: float) -> None:
    poor, scores = aneurysms()
    for kind in KINDS:
        index = kind()
        index.update_many(poor, scores[name])
        assert index.auc == pytest.approx(auc, abs=5e-8)
        assert index.auc_variance() == pytest.approx(variance, rel=1e-13)
    # The error, carried over to the logit scale.
    auc = index.auc
    slope = NormalDist().inv_cdf(0.975) * math.sqrt(index.auc_variance()) / (auc * (1 - auc))
    middle = math.log(auc / (1 - auc))
    interval = se.Evaluator().update_many(poor, score=scores[name]).interval("roc_auc")
    assert interval.method == "delong"
    assert [interval.low, interval.high] == pytest.approx(
        [1 / (1 + math.exp(-middle - shift)) for shift in (-slope, slope)], abs=1e-14
    )


@pytest.mark.parametrize("kind", KINDS)
@given(
    positives=st.lists(SCORES, min_size=2, max_size=12),
    negatives=st.lists(SCORES, min_size=2, max_size=12),
)
def test_the_variance_is_the_definition_rounded_once(kind, positives, negatives):
    expected = variance_by_placements(positives, negatives)
    assert counted(kind, positives, negatives).auc_variance() == float(expected)


CELLS = st.tuples(st.integers(0, 2**22), st.integers(0, 2**22)).filter(any)


@given(st.lists(CELLS, min_size=1, max_size=6))
def test_both_indices_have_the_same_bits_on_either_side_of_128(cells):
    columns = dict(zip(("positives", "negatives"), np.array(cells).T.copy(), strict=True))
    state = {"exact": True, "scores": np.arange(len(cells), dtype=np.float64), **columns}
    indices = [kind.from_state(state) for kind in KINDS]  # type: ignore[attr-defined]
    for index in indices:
        index.delong_sums()
    assert len({index.auc_variance().hex() for index in indices}) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_variance_needs_two_events_of_each_class(kind: type) -> None:
    assert math.isnan(counted(kind, [0.5], [0.1, 0.2]).auc_variance())
    assert math.isnan(counted(kind, [0.5, 0.6], []).auc_variance())
    assert counted(kind, [0.5, 0.6], [0.1, 0.2]).auc_variance() == 0


# The intervals --------------------------------------------------------------------------


@given(auc=SHARES, positives=SIZES, negatives=SIZES, level=st.floats(0.01, 0.999))
def test_newcombe_ends_solve_his_equation(auc, positives, negatives, level):
    low, high = newcombe_interval(auc, positives, negatives, level)
    assert 0 <= low <= auc <= high <= 1
    square = Fraction(NormalDist().inv_cdf(0.5 + level / 2)) ** 2

    def inside(theta: Fraction) -> bool:
        spread = (1 - theta) / (2 - theta) + theta / (1 + theta)
        bracket = 1 + (Fraction(positives + negatives, 2) - 1) * spread
        variance = theta * (1 - theta) * bracket / (positives * negatives)
        return (Fraction(auc) - theta) ** 2 <= square * variance

    step = Fraction(1, 10**12)
    for theta, outwards in ((Fraction(low), -step), (Fraction(high), step)):
        if 0 < theta + outwards < 1:
            assert not inside(theta + outwards)
        if low + step < auc < high - step:
            assert inside(theta - outwards)
    mirrored = newcombe_interval(1 - auc, negatives, positives, level)
    assert (1 - mirrored[1], 1 - mirrored[0]) == pytest.approx((low, high), abs=1e-9)


@given(won=st.floats(1e-16, 1 - 1e-16), margin=st.floats(0, 1e6))
def test_logit_ends_stay_inside(won: float, margin: float) -> None:
    low, high = logit_interval(won, 1 - won, margin)
    assert 0 <= low <= won * (1 + 1e-12)
    assert won * (1 - 1e-12) <= high <= 1


def normal_scores(positives: int, negatives: int, seed: int = 1) -> tuple[list[float], list[float]]:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(positives) + 1).tolist(), rng.standard_normal(negatives).tolist()


def test_the_method_is_chosen_by_the_sample() -> None:
    assert fed(*normal_scores(30, 30)).interval("roc_auc").method == "delong"
    assert fed(*normal_scores(29, 500)).interval("roc_auc").method == "newcombe"
    # A rare class with few lost events, at an AUC of .92; less rare, DeLong's error is enough.
    rare, many = normal_scores(31, 400)
    assert fed([score + 1 for score in rare], many).interval("roc_auc").method == "newcombe"
    assert fed([score + 1 for score in rare], many[:90]).interval("roc_auc").method == "delong"
    perfect = fed([2.0] * 50, [1.0] * 50)
    assert perfect.interval("roc_auc").method == "newcombe"
    assert perfect.interval("roc_auc").high == 1.0
    equal = fed([1.0] * 50, [1.0] * 50)
    assert equal.interval("roc_auc").method == "newcombe"
    for ev in (perfect, equal):
        asked = ev.interval("roc_auc", method="delong")
        assert not asked.defined
        assert "newcombe" in asked.reason
    assert fed(*normal_scores(10, 10)).interval("roc_auc", method="delong").method == "delong"


def test_gini_is_the_same_interval_on_its_own_scale() -> None:
    for sizes in ((20, 20), (200, 100)):
        ev = fed(*normal_scores(*sizes))
        auc, gini = ev.interval("roc_auc"), ev.interval("gini")
        assert (gini.low, gini.high) == pytest.approx((2 * auc.low - 1, 2 * auc.high - 1))
        assert gini.method == auc.method
        assert gini.low < ev["gini"] < gini.high


def test_a_class_is_missing() -> None:
    interval = fed([0.5], []).interval("roc_auc")
    assert not interval.defined
    assert interval.reason == "no negative event has been seen"
    one = fed([0.5], [0.5]).interval("roc_auc", method="delong")
    assert one.reason == "DeLong's error needs two events of each class"


# The confidence sequence ----------------------------------------------------------------


@given(size=st.floats(1, 1e9), level=st.floats(0.5, 0.999))
def test_the_factor_is_that_of_the_mixture(size: float, level: float) -> None:
    alpha = 1 - level
    rho2 = (-2 * math.log(alpha) + math.log(1 - 2 * math.log(alpha))) / 2000
    # As published: the half width of a running mean of standard deviation 1.
    half = math.sqrt(
        2 * (size * rho2 + 1) / (size**2 * rho2) * math.log(math.sqrt(size * rho2 + 1) / alpha)
    )
    assert sequence_factor(size, level) == pytest.approx(half * math.sqrt(size), rel=1e-12)
    assert sequence_factor(size, level) > NormalDist().inv_cdf(0.5 + level / 2)


def test_the_sequence_says_what_it_is_and_when_it_begins() -> None:
    ev = fed(*normal_scores(30, 400))
    interval, usual = ev.interval("roc_auc", method="anytime"), ev.interval("roc_auc")
    assert interval.method == "anytime (asymptotic)"
    assert interval.low < usual.low < usual.high < interval.high
    early = fed(*normal_scores(29, 400)).interval("roc_auc", method="anytime")
    assert early.reason == "the sequence begins with 30 events of each class"
    window = se.Evaluator(window=se.Last(500))
    window.update_many([0, 1] * 100, score=normal_scores(200, 0)[0])
    assert "window" in window.interval("roc_auc", method="anytime").reason
