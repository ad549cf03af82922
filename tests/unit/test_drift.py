"""Measures of drift: definitions, refusals, reasons, weights, and false alarms by simulation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import streameval as se
from streameval.errors import MetricError
from streameval.uncertainty.anytime import beta_binomial, disjoint_error
from streameval.uncertainty.drift import Drift, drift, drifted, label_shares, score_shares


def index_of(scores: object, weight: object = None, **options: Any) -> se.ScoreIndex:
    """Predictions, all counted as of one class."""
    scores = np.asarray(scores, dtype=np.float64)
    index = se.ScoreIndex(**options)
    index.update_many(np.zeros(len(scores), dtype=bool), scores, weight)
    return index


NOW, REFERENCE = index_of([0.1, 0.2, 0.8, 0.9]), index_of([0.1, 0.2, 0.3, 0.4, 0.5])
EMPTY = index_of([])
NO_P_VALUE = "(a Wasserstein distance has no p-value)"
ONE_BIN = "(all scores of the reference are the same, which makes no bins)"
TOO_FAR = "(the range of the scores is beyond the largest float)"


@pytest.mark.parametrize(
    ("name", "now", "reference", "shown"),
    [
        # Half of the four are above all of the five.
        ("ks", NOW, REFERENCE, "0.5 p = 0.634989"),
        # .05, .1, .1 and .3 over a tenth each, .5 over .3, and .25 over a tenth.
        ("wasserstein", NOW, REFERENCE, f"0.23 {NO_P_VALUE}"),
        ("psi", NOW, index_of([3.0] * 9), f"nan {ONE_BIN}"),
        ("ks", EMPTY, REFERENCE, "nan (no event has been counted yet)"),
        ("psi", NOW, EMPTY, "nan (the reference has no events)"),
        ("cramers_v", {}, {"a": 1}, "nan (no event has been counted yet)"),
        ("wasserstein", index_of([1.5e308]), index_of([-1.5e308]), f"nan {TOO_FAR}"),
        ("cramers_v", {"a": 5}, {"b": 5}, "1 p = 0.0015654"),
        ("chi_squared", {"a": 5}, {"a": 9}, "0 p = 1"),
    ],
)  # fmt: skip
def test_values_and_reasons(name: str, now: Any, reference: Any, shown: str) -> None:
    found = drift(name, now, reference)
    assert str(found) == shown
    plain = found.to_dict()
    # JSON has no nan.
    assert [plain[key] is None for key in ("value", "p_value")] == [
        math.isnan(found.value), math.isnan(found.p_value)
    ]  # fmt: skip
    assert (plain["reason"], plain["method"]) == (found.reason, found.method)


def test_bins_are_of_equal_mass_of_the_reference_and_named() -> None:
    reference = index_of(np.arange(100) / 128)
    found = drift("psi", index_of(np.arange(50) / 128), reference)
    assert found.edges == tuple(np.arange(10, 100, 10) / 128)
    # Five bins have twice their share, five none: half of an event of 50.
    expected = 5 * (0.1 * math.log(2) - 0.09 * math.log(0.1))
    assert found.value == pytest.approx(expected, rel=1e-12)
    # Half of the reference is one score, whose events no edge divides.
    tied = index_of([0.0] * 50 + list(range(1, 51)))
    assert drift("psi", reference, tied).edges == (1.0, 11.0, 21.0, 31.0, 41.0)


NAN = [math.nan] * 2
LONG = 2**52 + 2


@pytest.mark.parametrize(
    ("now", "reference", "edges", "shares"),
    [
        (EMPTY, REFERENCE, [0, 0.5, 1], (NAN, [1, 0])),
        (EMPTY, EMPTY, [0, 0.5, 1], (NAN, NAN)),
        (index_of([7.0]), index_of([7.0] * 3), [5.25, 7, 8.75], ([1, 0], [1, 0])),
        # From the least of either side to the largest of either.
        (index_of([-3.0, 0.5]), index_of([0.5, 5.0]), [-3, 1, 5], ([1, 0], [0.5, 0.5])),
        (index_of([1e308]), index_of([-1e308]), [-1e308, 0, 1e308], ([0, 1], [1, 0])),
        # Shares of whole numbers that are no floats; and of fractions.
        (index_of([0, 0, 0, 1], [2**53] * 3 + [LONG]), index_of([1, 1, 1]), [0, 0.5, 1],
         ([3 * 2**53 / (3 * 2**53 + LONG), LONG / (3 * 2**53 + LONG)], [0, 1])),
        (index_of([0.1, 0.9], [0.5, 1.5]), REFERENCE, [0, 0.5, 1], ([0.25, 0.75], [1, 0])),
    ],
)  # fmt: skip
def test_shares_on_common_bins(
    now: se.ScoreIndex, reference: se.ScoreIndex, edges: list[float], shares: Any
) -> None:
    found = score_shares(now, reference, bins=2)
    assert list(found.places) == edges
    np.testing.assert_array_equal([found.now, found.reference], shares)


def test_shares_are_those_of_all_scores_whatever_index_holds_them() -> None:
    rng = np.random.default_rng(6)
    columns = rng.beta(2, 5, 4_000), rng.beta(3, 4, 3_000)
    found = score_shares(index_of(columns[0]), index_of(columns[1]))
    for side, scores in zip(found[1:], columns, strict=True):
        np.testing.assert_array_equal(side, np.histogram(scores, found.places)[0] / len(scores))
    coarse = score_shares(index_of(columns[0], max_scores=1024), index_of(columns[1]))
    np.testing.assert_allclose(coarse.now, found.now, atol=0.01)
    np.testing.assert_allclose(coarse.reference, found.reference, atol=0.01)


def test_shares_of_labels() -> None:
    labels, now, reference = label_shares({"b": 1, "c": 2}, {"a": 3, "b": 1})
    assert labels == ("a", "b", "c")
    assert (now.tolist(), reference.tolist()) == ([0, 1 / 3, 2 / 3], [0.75, 0.25, 0])
    assert np.isnan(label_shares({}, {"a": 1}).now).all()


@pytest.mark.parametrize(
    ("name", "other", "method", "message"),
    [
        ("kss", NOW, "auto", "no drift measure is called 'kss'; did you mean 'ks'?"),
        ("psi", NOW, "anytime", "psi has no method 'anytime'; it has auto"),
        ("ks", NOW, "exact", "ks has no method 'exact'; it has auto and anytime"),
        ("ks", {"a": 1}, "auto", "ks compares the scores of two ScoreIndex, got ScoreIndex and d"),
        ("cramers_v", {"a": 1}, "auto", "cramers_v compares the labels of two mappings from label"),
    ],
)
def test_refusals(name: str, other: Any, method: str, message: str) -> None:
    with pytest.raises(MetricError) as raised:
        drift(name, NOW, other, method=method)
    assert str(raised.value).startswith(message)


def test_whole_weights_are_counts_and_others_need_sizes() -> None:
    scores = np.arange(40) / 40
    twice = drift("ks", index_of(scores, [2] * 40), REFERENCE)
    assert twice == drift("ks", index_of([*scores, *scores]), REFERENCE)
    halves = index_of(scores, [0.5] * 40)
    unknown = drift("ks", halves, REFERENCE)
    needed = "with weights that are not whole, a p-value needs sizes"
    assert str(unknown) == f"{twice.value:.6g} ({needed})"
    known = drift("ks", halves, REFERENCE, sizes=(40, 5))
    once = drift("ks", index_of(scores), REFERENCE)
    assert known.p_value == pytest.approx(once.p_value)
    assert known.method == "kolmogorov (Kish)"
    looked = drift("ks", halves, REFERENCE, method="anytime", sizes=(40, 5))
    assert looked.reason == "anytime needs weights that are counts"
    labels = [{"a": 0.5 * a, "b": 0.5 * b} for a, b in ((30, 70), (50, 50))]
    whole = drift("chi_squared", {"a": 30, "b": 70}, {"a": 50, "b": 50})
    assert drift("chi_squared", *labels, sizes=(100, 100)).p_value == pytest.approx(whole.p_value)
    # An empty bin has less than half an event, of however many fractions.
    small = index_of(scores, [1e-3] * 40)
    assert 0 < drift("psi", small, index_of(scores[:20], [1e-3] * 20)).value < 10


def test_slices_that_have_drifted_are_found_among_many() -> None:
    p_values = {"a": 0.001, "b": 0.012, "c": 0.04, "d": math.nan, "e": 0.9}
    drifts = {key: Drift(0.5, p, math.nan, math.nan, "") for key, p in p_values.items()}
    # Of four p-values .04 would be the third of .0375; that of "d" is none.
    assert list(drifted(drifts)) == ["a", "b"]
    assert drifted({}) == {}


@pytest.mark.parametrize(
    ("low", "high"),
    [((300, 1000), (500, 1000)), ((0, 80), (19, 100)), ((5, 17), (100, 100))],
)
def test_two_sequences_are_disjoint_from_their_least_error_on(
    low: tuple[int, int], high: tuple[int, int]
) -> None:
    error = disjoint_error(low, high)
    assert error == disjoint_error(high, low)
    for factor, disjoint in ((1.001, True), (0.999, False)):
        below, above = (beta_binomial(*one, 1 - error * factor) for one in (low, high))
        assert (below[1] < above[0]) == disjoint
    assert disjoint_error((3, 10), (30, 100)) == 1.0


def test_a_shift_is_found_by_the_anytime_test() -> None:
    rng = np.random.default_rng(0)
    reference, now = index_of(rng.normal(size=2_500)), index_of(rng.normal(0.6, 1, 1_000))
    found = drift("ks", now, reference, method="anytime")
    assert found.p_value < 1e-3
    assert 0.01 < found.low < found.value < found.high
    # The band of each side as published, at half of the error.
    reach = sum(
        0.85 * math.sqrt((math.log(math.log(math.e * t)) + 0.8 * math.log(1612 / 0.025)) / t)
        for t in (1_000, 2_500)
    )
    assert found.low == pytest.approx(found.value - reach)
    # At the level that its p-value is the error of, the lower end is 0; with sides exchanged too.
    for pair in ((now, reference), (reference, now)):
        edge = drift("ks", *pair, method="anytime", level=1 - found.p_value)
        assert edge.value == found.value
        assert edge.p_value == pytest.approx(found.p_value)
        assert edge.low == pytest.approx(0.0, abs=1e-4)


def test_the_sequences_of_labels_divide_the_error() -> None:
    sides = {"a": 300, "b": 700}, {"a": 500, "b": 500}
    found = drift("cramers_v", *sides, method="anytime")
    error = disjoint_error((300, 1_000), (500, 1_000))
    # One share of two labels, on two sides; of three labels each has a twelfth.
    assert found.p_value == pytest.approx(2 * error)
    third = [{**side, "c": 0} for side in sides]
    assert drift("cramers_v", *third, method="anytime").p_value == pytest.approx(24 * error)
    (_, p), (r, _) = (beta_binomial(k, 1_000, 0.975) for k in (300, 500))
    # χ²/(n + m) of two shares at the near ends of both, and of what is left of them.
    terms = [(p - r) ** 2 / (p + r), (p - r) ** 2 / (2 - p - r)]
    assert found.low == pytest.approx(math.sqrt(sum(terms) / 2))
    assert drift("chi_squared", {"a": 1, "c": 1}, {"b": 2}, method="anytime").high == 4.0
