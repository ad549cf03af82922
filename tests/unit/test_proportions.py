"""Intervals of proportions, and differences of independent ones: against exact arithmetic."""

from __future__ import annotations

import cProfile
import math
from collections import Counter
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import beta

import streameval as se
from streameval.errors import InputError
from streameval.evaluator.changes import changes
from streameval.evaluator.evaluator import Evaluator
from streameval.metrics.metric import BOTH
from streameval.metrics.registry import ROWS
from streameval.uncertainty.anytime import beta_binomial
from streameval.uncertainty.differences import bound_p_value, difference, part_p_value, sides
from streameval.uncertainty.interval import Interval
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


# Differences of independent intervals ------------------------------------------------------


def share(right: int, events: int, level: float = 0.95) -> Interval:
    return Interval(right / events, *wilson(right, events, level), level, "wilson", events)


@pytest.mark.parametrize(
    ("counts", "ends"),
    [
        # Newcombe (1998), Statistics in Medicine 17:873, table II, method 10.
        ((56, 70, 48, 80), (0.0524, 0.3339)),
        ((9, 10, 3, 10), (0.1705, 0.8090)),
        ((5, 56, 0, 29), (-0.0381, 0.1926)),
        ((0, 10, 0, 20), (-0.1611, 0.2775)),
        ((10, 10, 0, 20), (0.6791, 1.0000)),
    ],
)
def test_newcombes_published_differences(counts, ends):
    first, second = share(*counts[:2]), share(*counts[2:])
    found, back = difference(first, second), difference(second, first)
    assert found.low <= found.value <= found.high
    assert (found.low, found.high) == pytest.approx((-back.high, -back.low))
    assert (round(found.low, 4), round(found.high, 4)) == ends
    assert (found.method, found.n) == ("mover", counts[1] + counts[3])


def test_a_difference_without_an_interval_says_why() -> None:
    nothing = Interval(math.nan, math.nan, math.nan, 0.95, "", 0, "no events")
    for pair in ((nothing, share(3, 4)), (share(3, 4), nothing)):
        found = difference(*pair)
        assert not found.defined
        assert found.reason == "no events"
    with pytest.raises(InputError, match=r"intervals of one level, 0\.95, got 0\.9"):
        difference(share(3, 4), share(3, 4, 0.9))


COUNTS = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(COUNTS, st.floats(0.5, 0.999), st.booleans())
def test_at_the_intervals_end_the_p_value_is_that_of_its_side(counts, level, low):
    found = share(*counts, level)
    bound = found.low if low else found.high
    if bound == found.value:
        return
    p = bound_p_value(found, below=None if low else bound, above=bound if low else None)
    assert p == pytest.approx((1 - level) / 2, abs=1e-9)


def test_a_part_against_the_rest_is_near_pearsons_test() -> None:
    for right, n, others, m in (
        *((60, 100, 690, 900), (900, 1000, 1700, 2000), (30, 60, 50, 60)),
        *((40, 40, 800, 960), (300, 600, 330, 600)),
    ):
        whole = share(right + others, n + m)
        pooled = whole.value * (1 - whole.value) * (1 / n + 1 / m)
        wanted = math.erfc(abs(right / n - others / m) / math.sqrt(2 * pooled))
        found = part_p_value(share(right, n), whole)
        assert 0.85 < math.log(found) / math.log(wanted) < 1.11


def test_nothing_is_tested_without_an_interval_or_against_nothing() -> None:
    whole = share(30, 40)
    assert math.isnan(part_p_value(whole, whole))
    nothing = Interval(0.5, math.nan, math.nan, 0.95, "", 3, "too few")
    assert math.isnan(part_p_value(nothing, whole))
    assert math.isnan(bound_p_value(nothing, below=0.5, above=None))
    assert sides([nothing, whole], whole) == [None, None]
    assert sides([], whole) == []


def test_slices_that_differ_are_found_on_their_side() -> None:
    rng = np.random.default_rng(1)
    truth = np.repeat([0.8, 0.6, 0.95], [180, 10, 10])
    right = rng.binomial(300, truth)
    whole = share(int(right.sum()), 300 * 200)
    found = sides([share(int(k), 300) for k in right], whole)
    assert found[180:190].count("below") >= 9
    assert found[190:].count("above") >= 9
    assert sum(side is not None for side in found[:180]) <= 3


def test_a_slice_report_marks_them() -> None:
    ev = Evaluator(slices=("country",))
    for country, right in (("C3", 150), *((f"C{n}", 240) for n in range(3))):
        guesses = np.arange(300) < right
        ev.update_many(np.ones(300, bool), guesses, slices={"country": [country] * 300})
    report = ev.slice_report("accuracy", intervals=0.95)
    # The others are above all that is not theirs, C3 included.
    assert [row.differs for row in report.rows] == ["below", "above", "above", "above"]
    assert report.to_dict()["slices"][0]["differs"] == "below"
    assert "below" in str(report)
    assert not any(row.differs for row in ev.slice_report("accuracy").rows)


def test_the_cost_of_changed_labels_grows_with_their_number() -> None:
    calls = []
    for classes in (50, 200):
        names = [f"c{n:03}" for n in range(classes)]
        before, after = (Evaluator("multiclass").update_many(*[n] * 2) for n in (names, names[1:]))
        before.report(), after.report()  # derive what both read
        profile = cProfile.Profile()
        found = profile.runcall(changes, before, after, ["accuracy"])
        assert [one.name for one in found.labels] == names
        assert (found.labels[0].before, found.labels[0].after) == (1 / classes, 0.0)
        calls.append(Counter[str]())
        for row in profile.getstats():
            calls[-1][getattr(row.code, "co_name", "built in")] += row.callcount
    few, many = calls
    # Each of these calls sorts all labels.
    assert many["labels"] == few["labels"] > 0
    assert many.total() < 5 * few.total()
