"""Intervals of proportions: against exact arithmetic, published numbers and simulation."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import beta

import streameval as se
from streameval.metrics.metric import BOTH
from streameval.metrics.registry import ROWS
from streameval.uncertainty.anytime import beta_binomial
from streameval.uncertainty.proportions import clopper_pearson, distribution_gap, wilson

LEVELS = st.sampled_from([0.5, 0.8, 0.95, 0.99, 0.9999])


def shares(most: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.integers(1, most).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(shares(100_000), LEVELS)
@example((0, 1), 0.95)
@example((10_000_000, 10_000_000), 0.95)
@example((3_000_000, 10_000_000), 0.95)
def test_clopper_and_pearson_have_beta_quantiles(share: tuple[int, int], level: float) -> None:
    k, n = share
    low, high = clopper_pearson(k, n, level)
    tail = (1 - level) / 2
    assert low == pytest.approx(beta.ppf(tail, k, n - k + 1) if k else 0, abs=1e-12)
    assert high == pytest.approx(beta.ppf(1 - tail, k + 1, n - k) if k < n else 1, abs=1e-12)


def test_published_intervals() -> None:
    # Newcombe (1998), table I.
    for k, n, score in (
        (81, 263, (0.2553, 0.3662)),
        (0, 20, (0, 0.1611)),
        (1, 29, (0.0061, 0.1718)),
    ):
        assert wilson(k, n, 0.95) == pytest.approx(score, abs=5e-5)
    assert clopper_pearson(81, 263, 0.95) == pytest.approx((0.2527, 0.3676), abs=5e-5)


def log_excess(k: int, n: int, p: Decimal, level: float) -> Decimal:
    """ln of the mixture's likelihood ratio at p over its limit: negative inside the interval."""

    def log_factorial(m: int) -> Decimal:
        if m < 2_000:
            return Decimal(math.factorial(m)).ln()
        x, pi = Decimal(m), Decimal("3.14159265358979323846264338327950288419716939937510582")
        series = 1 / (12 * x) - 1 / (360 * x**3) + 1 / (1260 * x**5) - 1 / (1680 * x**7)
        return x * x.ln() - x + (2 * pi * x).ln() / 2 + series + 1 / (1188 * x**9)

    m = n - k
    # B(k + ½, m + ½) / π = (2k)!·(2m)! / (4ⁿ·k!·m!·n!)
    ratio = log_factorial(2 * k) + log_factorial(2 * m) - n * Decimal(4).ln()
    ratio -= log_factorial(k) + log_factorial(m) + log_factorial(n)
    at_p = (k * p.ln() if k else 0) + (m * (1 - p).ln() if m else 0)
    return ratio - at_p + Decimal(1 - level).ln()


@given(st.one_of(shares(50), shares(5_000), shares(10**12)), LEVELS)
@example((10**12 // 3, 10**12), 0.95)
@example((0, 10**12), 0.95)
@example((1, 10**12), 0.95)
@example((10**12 - 1, 10**12), 0.95)
def test_the_anytime_interval_ends_at_the_roots(share: tuple[int, int], level: float) -> None:
    k, n = share
    low, high = beta_binomial(k, n, level)
    assert 0 <= low <= k / n <= high <= 1
    assert (low == 0) >= (k == 0)
    assert (high == 1) >= (k == n)
    with localcontext() as context:
        context.prec = 60
        step = Decimal("1e-12")
        for end, outwards in ((Decimal(low), -step), (Decimal(high), step)):
            outside, inside = end + outwards, end - outwards
            if 0 < outside < 1:
                assert log_excess(k, n, outside, level) > 0
            if 0 < inside < 1 and low < inside < high:
                assert log_excess(k, n, inside, level) < 0


# What each metric is a share of ------------------------------------------------

TP, FP, FN, TN = 30, 5, 10, 155
SHARES = {
    "accuracy": (TP + TN, 200),
    "error_rate": (FP + FN, 200),
    "precision": (TP, TP + FP),
    "recall": (TP, TP + FN),
    "specificity": (TN, TN + FP),
    "fpr": (FP, TN + FP),
    "fnr": (FN, TP + FN),
    "npv": (TN, TN + FN),
    "jaccard": (TP, TP + FP + FN),
    "positive_rate": (TP + FP, 200),
}


def binary(**options: object) -> se.Evaluator:
    ev = se.Evaluator(**options)  # type: ignore[arg-type]
    ev.update_many([1, 0, 1, 0], [1, 1, 0, 0], weight=[TP, FP, FN, TN])
    return ev


def test_every_share_of_labels_is_here() -> None:
    shares = [row for row in ROWS if row.family == "proportion" and row.tasks & BOTH]
    names = {row.name for row in shares if row.average != "micro"}
    assert names - {"top_k_accuracy"} == set(SHARES) - {"accuracy", "error_rate"}


@pytest.mark.parametrize("name", SHARES)
def test_the_denominator_is_the_metrics_own(name: str) -> None:
    k, n = SHARES[name]
    methods = {"wilson": wilson, "clopper_pearson": clopper_pearson, "anytime": beta_binomial}
    for method, bounds in methods.items():
        found = binary().interval(name, method=method)
        assert (found.value, found.n, found.method) == (k / n, n, method)
        assert (found.low, found.high) == pytest.approx(bounds(k, n, 0.95), 1e-12)


def test_micro_averages_are_functions_of_the_accuracy() -> None:
    ev = se.Evaluator(task="multiclass")
    ev.update_many([0, 0, 1, 1, 2, 2], [0, 1, 1, 2, 2, 0], weight=[40, 5, 30, 5, 15, 5])
    for name, function in (
        ("f1_micro", lambda a: a),
        ("fnr_weighted", lambda a: 1 - a),
        ("jaccard_micro", lambda a: a / (2 - a)),
        # Of the two classes that an event is not of, an error takes one.
        ("specificity_micro", lambda a: (1 + a) / 2),
    ):
        found = ev.interval(name)
        ends = sorted(map(function, wilson(85, 100, 0.95)))
        assert (found.method, found.n) == ("wilson", 100)
        assert [found.low, found.high] == pytest.approx(ends, abs=1e-15)
    ev = se.Evaluator(task="multiclass")
    ev.update_many(list("abc") * 10, proba=[{"a": 0.5, "b": 0.3, "c": 0.2}] * 30)
    found = ev.interval("top_k_accuracy", k=2)
    assert (found.low, found.high, found.n) == (*wilson(20, 30, 0.95), 30)


def test_anytime_is_for_all_events_since_a_start() -> None:
    found = binary(window=se.Last(1_000)).interval("recall", method="anytime")
    assert not found.defined
    assert "covers all events since a start" in found.reason
    with pytest.raises(se.MetricError, match="f1 has no anytime interval; it has delta"):
        binary().interval("f1", method="anytime")


def test_weights_that_are_not_whole_have_kishs_size() -> None:
    ev = se.Evaluator(intervals=True)
    ev.update_many([1, 0, 1, 0], [1, 1, 0, 0], weight=[0.5] * 4)
    found = ev.interval("recall")
    assert (found.method, found.n) == ("wilson (Kish)", 2)
    assert (found.low, found.high) == pytest.approx(wilson(1, 2, 0.95), abs=1e-15)
    assert ev.interval("accuracy").n == 4
    assert "weights that are counts" in ev.interval("recall", method="anytime").reason
    without = se.Evaluator().update(1, 1, weight=0.5)
    assert "it needs Evaluator(intervals=True)" in without.interval("accuracy").reason


def test_the_gap_of_a_distribution_function_is_that_of_dvoretzky_kiefer_and_wolfowitz() -> None:
    assert distribution_gap(200, 0.95) == pytest.approx(math.sqrt(math.log(2 / 0.05) / 400))
