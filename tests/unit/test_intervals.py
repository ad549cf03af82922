"""Intervals of an evaluator: refusals, classification reports, log loss and Brier score."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.states.loss_squares import LOG_LOSS_SCALE, LossSquares
from streameval.states.probability import ProbabilitySums
from streameval.states.sums.fixed_point import UNIT
from streameval.uncertainty.losses import mean_ends, student_quantile, variance
from streameval.uncertainty.proportions import wilson


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"level": 1}, "level: expected a number between 0 and 1, got 1"),
        ({"level": math.nan}, "level: expected a number between 0 and 1, got nan"),
        ({"method": "wilsn"}, "no interval method is called 'wilsn'; did you mean 'wilson'?"),
        ({"name": "roc_auc", "method": "wilson"}, "roc_auc has no wilson interval; it has"),
        ({"name": "f1", "average": None}, r"classification_report\(intervals=0.95\)"),
    ],
)
def test_what_has_no_interval_says_so(given: dict[str, Any], message: str) -> None:
    ev = se.Evaluator() if "average" not in given else classes()
    with pytest.raises((se.MetricError, se.InputError), match=message):
        ev.interval(**{"name": "accuracy", **given})


def test_a_report_says_which_metrics_a_method_does_not_serve() -> None:
    ev = se.Evaluator().update_many([1, 0, 1], [1, 1, 1])
    report = ev.report(["accuracy", "f1", "support"], intervals=0.9, method="anytime")
    served, other, _ = (row.interval for row in report)
    assert (served.method, served.level) == ("anytime", 0.9)
    assert other.reason == "f1 has no anytime interval; it has delta, bootstrap"
    assert other.reason in str(report)
    assert ev.interval("support").reason == "there is no interval for support"
    with pytest.raises(se.MetricError, match="no interval method is called 'always'"):
        ev.report(["accuracy"], intervals=0.95, method="always")


def classes() -> se.Evaluator:
    ev = se.Evaluator(task="multiclass")
    ev.update_many(["a", "b", "a", "c"], ["a", "b", "b", "b"], weight=[40, 60, 20, 1])
    return ev


def test_the_classification_report_shows_the_ends() -> None:
    report = classes().classification_report(intervals=0.95)
    shown = str(report).splitlines()
    assert max(map(len, shown)) < 100
    assert shown[1].split() == ["a", "1.0000", "0.6667", "0.8000", "60"]
    assert shown[2].split("  ")[-3:-1] == ["[0.9124, 1.0000]", "[0.5406, 0.7727]"]
    assert "| 1.0000 [0.9124, 1.0000] | 0.6667 [0.5406, 0.7727] |" in report.to_markdown()
    assert "<td>1.0000 [0.9124, 1.0000]</td>" in report._repr_html_()
    table = report.to_dict()
    low, high = wilson(40, 60, 0.95)
    recall = {"low": low, "high": high, "method": "wilson", "n": 60}
    assert table["a"]["intervals"]["recall"] == recall
    # Never predicted: precision has no value, and its interval the reason.
    assert table["c"]["intervals"]["precision"]["reason"] == "no event was predicted 'c'"
    assert table["accuracy_interval"]["n"] == 121
    # The rest as the other class: F1 is that of a task of two.
    binary = se.Evaluator().update_many([1, 0, 1, 0], [1, 0, 0, 0], weight=[40, 60, 20, 1])
    assert report.row_intervals is not None
    assert report.row_intervals["a"][2] == binary.interval("f1", level=0.95)
    plain = classes().classification_report()
    assert "[" not in str(plain)
    assert "intervals" not in plain.to_dict()["a"]
    assert "accuracy_interval" not in plain.to_dict()


# Losses -------------------------------------------------------------------------

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
    gaps = (shares.max(axis=1) - hot[np.arange(300), shares.argmax(axis=1)]) ** 2
    squares = ev._windows.total.current().loss_squares
    assert sum(squares.bin_gap_squares) / UNIT == pytest.approx(gaps.sum(), rel=1e-12)
    for name, loss in (
        ("brier_score", ((shares - hot) ** 2).sum(axis=1)),
        ("log_loss", -np.log(shares[hot])),
    ):
        found, ends = ev.interval(name), mean_ends(loss.mean(), loss.var(), 300, 0.95)
        assert (found.low, found.high) == pytest.approx((ends.low, ends.high), rel=1e-12)
        assert (found.method, found.n) == ("log_t", 300)
    # By hand: c² = 0.01 · (100 / 99) / 0.2², so 100 / (1 + c²) − 1 = 78.84 degrees of freedom.
    half = 1.990514 * math.sqrt(0.01 * (100 / 99) / 0.04 / 100)
    ends = mean_ends(0.2, 0.01, 100, 0.95)
    expected = 0.2 * math.exp(-half), 0.2 * math.exp(half)
    assert (ends.low, ends.high) == pytest.approx(expected, rel=1e-6)


def test_where_there_is_no_interval() -> None:
    y_true, p = stream(100, 5)
    sums = se.Evaluator(metrics=SUMS_ONLY).update_many(y_true, score=p)
    halves = se.Evaluator().update_many(y_true, score=p, weight=[0.5, 2.5] * 50)
    even = se.Evaluator().update(True, score=0.5)
    same = se.Evaluator().update_many([True, False] * 20, score=[0.5] * 40)
    few = se.Evaluator().update_many([True] * 4, score=[0.9, 0.9, 0.9, 0.1])
    margins = se.Evaluator().update_many([True, False], score=[2.0, -1.0])
    for ev, reason in (
        (sums, "the spread of the losses is not kept: pass intervals=True to the Evaluator"),
        (halves, "with weights that are not whole, it needs Evaluator(intervals=True)"),
        (even, "a single event has no spread"),
        (same, "the losses are all the same, to the resolution of their sums"),
        (few, "too few events for losses that differ as much"),
    ):
        assert ev.interval("brier_score").reason == reason
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
