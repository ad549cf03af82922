"""Intervals of log loss and Brier score: their sums, their ends, how often they are right."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.states.loss_squares import LOG_LOSS_SCALE, LossSquares
from streameval.states.probability import ProbabilitySums
from streameval.states.sums.fixed_point import UNIT
from streameval.uncertainty.losses import mean_ends, student_quantile, variance

SUMS_ONLY = ["log_loss", "brier_score"]


def stream(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 3, n)
    return rng.random(n) < p, p


EVENTS = st.lists(
    st.tuples(st.booleans(), st.floats(0, 1), st.integers(1, 5)), min_size=1, max_size=20
)


@given(EVENTS)
def test_sums_of_squares_are_those_of_the_terms(events: list[tuple[bool, float, int]]) -> None:
    sums, squares = ProbabilitySums(), LossSquares(7)
    terms, gaps, edges = [], [Fraction(0)] * 7, np.linspace(0, 1, 8)[1:-1]
    for positive, p, weight in events:
        sums.update(positive, p, weight)
        squares.update(positive, p, weight)
        given_it = p if positive else 1 - p
        clipped = min(max(given_it, 2.0**-52), 1 - 2.0**-52)
        terms.append((Fraction(-math.log(clipped)), Fraction(1 - given_it) ** 2, weight))
        gaps[int(np.searchsorted(edges, p))] += weight * (Fraction(p) - positive) ** 2
    total = sum(weight for *_, weight in terms)
    for at, units, scaled, scale in (
        (0, sums.log_loss_units, squares.log_loss_squares, LOG_LOSS_SCALE),
        (1, sums.brier_units, squares.brier_squares, 1),
    ):
        mean = Fraction(sum(term[at] * term[2] for term in terms), total)
        direct = float(sum(term[2] * (term[at] - mean) ** 2 for term in terms) / total)
        found = variance(sums.weight, units, scaled, scale)
        assert found == pytest.approx(direct, rel=1e-12, abs=1e-12)
    found_gaps = [units / UNIT for units in squares.bin_gap_squares]
    assert found_gaps == pytest.approx([float(value) for value in gaps], abs=1e-12)


def test_several_classes() -> None:
    rng = np.random.default_rng(4)
    shares = rng.dirichlet([1, 1, 1], 300)
    true = [str(rng.choice(list("abc"), p=row)) for row in shares]
    ev = se.Evaluator(task="multiclass", intervals=True)
    ev.update_many(true, proba=dict(zip("abc", shares.T, strict=True)))
    hot = np.array([[label == one for label in "abc"] for one in true])
    squares = ev._windows.total.current().loss_squares
    brier, loss = ((shares - hot) ** 2).sum(axis=1), -np.log(shares[hot])
    gaps = (shares.max(axis=1) - hot[np.arange(300), shares.argmax(axis=1)]) ** 2
    for found, direct in (
        (squares.brier_squares, brier**2),
        (squares.log_loss_squares * LOG_LOSS_SCALE, loss**2),
        (sum(squares.bin_gap_squares), gaps),
    ):
        assert found / UNIT == pytest.approx(direct.sum(), rel=1e-12)
    found = ev.interval("brier_score")
    ends = mean_ends(brier.mean(), brier.var(), 300, 0.95)
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high), rel=1e-12)
    assert (found.method, found.n) == ("log_t", 300)
    # By hand: c² = 0.01 · (100 / 99) / 0.2², so 100 / (1 + c²) − 1 = 78.84 degrees of freedom.
    half = 1.990514 * math.sqrt(0.01 * (100 / 99) / 0.04 / 100)
    ends = mean_ends(0.2, 0.01, 100, 0.95)
    expected = 0.2 * math.exp(-half), 0.2 * math.exp(half)
    assert (ends.low, ends.high) == pytest.approx(expected, rel=1e-6)


def test_the_sums_are_derived_from_an_index_or_kept_to_the_same_bits() -> None:
    y_true, p = stream(400, 1)
    derived, kept = se.Evaluator(), se.Evaluator(metrics=SUMS_ONLY, intervals=True)
    for ev in (derived, kept):
        ev.update_many(y_true[:300], score=p[:300])
        for name in SUMS_ONLY:
            assert ev.interval(name).defined
        for n in range(300, 400):
            ev.update(bool(y_true[n]), score=float(p[n]))
        ev.revert(bool(y_true[7]), score=float(p[7]))
        ev._check()
    assert kept.plan.keeps == {"probability", "loss_squares", "score_weights"}
    for name in SUMS_ONLY:
        assert derived.interval(name) == kept.interval(name)
    assert se.from_bytes(kept.to_bytes()).interval("log_loss") == kept.interval("log_loss")
    unasked = se.Evaluator()
    unasked.update_many(y_true, score=p)
    before = unasked.to_bytes()
    unasked.interval("log_loss")
    assert unasked.to_bytes() == before


def test_weights_that_are_not_whole() -> None:
    y_true, p = stream(500, 2)
    weight = np.where(y_true, 0.5, 2.5)
    ev = se.Evaluator(intervals=True)
    ev.update_many(y_true, score=p, weight=weight)
    found = ev.interval("brier_score")
    assert found.method == "log_t (Kish)"
    assert found.n == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    loss = (y_true - p) ** 2
    mean = np.average(loss, weights=weight)
    spread = np.average((loss - mean) ** 2, weights=weight)
    ends = mean_ends(mean, spread, found.n, 0.95)
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high))
    default = se.Evaluator().update_many(y_true, score=p, weight=weight)
    assert default.interval("brier_score").reason == (
        "with weights that are not whole, it needs Evaluator(intervals=True)"
    )


def test_where_there_is_no_interval() -> None:
    y_true, p = stream(100, 5)
    ev = se.Evaluator(metrics=SUMS_ONLY)
    ev.update_many(y_true, score=p)
    assert ev.interval("log_loss").reason == (
        "the spread of the losses is not kept: pass intervals=True to the Evaluator"
    )
    even = se.Evaluator()
    even.update(True, score=0.5)
    assert even.interval("log_loss").reason == "a single event has no spread"
    even.update_many([True, False] * 20, score=[0.5] * 40)
    assert even.interval("brier_score").reason == (
        "the losses are all the same, to the resolution of their sums"
    )
    few = se.Evaluator()
    few.update_many([True] * 4, score=[0.9, 0.9, 0.9, 0.1])
    assert few.interval("brier_score").reason == "too few events for losses that differ as much"
    margins = se.Evaluator()
    margins.update_many([True, False], score=[2.0, -1.0])
    assert "outside [0, 1]" in margins.interval("log_loss").reason


@settings(max_examples=200)
@given(st.floats(0.5, 0.999), st.floats(3, 1e6))
@example(0.999, 3.0)  # far from the normal
def test_quantiles_of_student_are_those_of_scipy(level: float, freedom: float) -> None:
    stats = pytest.importorskip("scipy.stats")
    expected = stats.t.ppf(0.5 + level / 2, freedom)
    assert student_quantile(level, freedom) == pytest.approx(expected, rel=3e-5)


@pytest.mark.parametrize(
    ("wrong", "limit"), [(0.0, None), (1.0, 1024), (1e-300, None), (1e-300, 1024)]
)
def test_an_interval_of_clipped_log_losses_says_so(wrong: float, limit: int | None) -> None:
    binary = se.Evaluator(intervals=True, max_scores=limit)
    classes = se.Evaluator("multiclass", labels=list("abc"), intervals=True, max_scores=limit)
    positive, p = stream(1200, 3)
    binary.update_many(positive, score=p)
    rng = np.random.default_rng(7)
    classes.update_many(rng.choice(list("abc"), 1200), proba=rng.dirichlet([2, 2, 2], 1200))
    # Right, however sure.
    binary.update_many([True, False], score=[1.0, 0.0])
    classes.update("a", proba={"a": 1.0})
    assert {ev.interval("log_loss").method for ev in (binary, classes)} == {"log_t"}
    clipped = wrong in (0.0, 1.0)
    binary.update(wrong < 0.5, score=wrong)
    classes.update("c", proba={"a": 1.0} if clipped else {"a": 1.0, "c": wrong})
    told = "log_t (clipped)" if clipped else "log_t"
    for ev in (binary, classes):
        assert ev.interval("log_loss").method == told
        assert ev.interval("brier_score").method == "log_t"
    binary.update(True, score=0.5, weight=0.5)
    assert binary.interval("log_loss").method == f"{told} (Kish)"
