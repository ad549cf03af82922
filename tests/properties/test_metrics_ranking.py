"""Ranking metrics and cut-points, by their definitions read literally and against scikit-learn."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sk
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve as sk_calibration_curve

from streameval import metrics
from streameval.errors import MetricError
from streameval.metrics.cut_points import (
    CUT_POINTS,
    closest_cut,
    cost_cut,
    f1_cut,
    fbeta_cut,
    fpr_cut,
    mcc_cut,
    precision_cut,
    youden_cut,
)
from streameval.metrics.undefined import Undefined
from streameval.states.score_index import ScoreIndex

Event = tuple[bool, float, int]
Counts = tuple[int, int, int, int]

TIED = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.5000000001, 0.9, 1.0])
ANY = st.floats(-1e6, 1e6)


def lists(scores: st.SearchStrategy[float]) -> st.SearchStrategy[list[Event]]:
    return st.lists(st.tuples(st.booleans(), scores, st.integers(1, 3)), max_size=30)


EVENTS = lists(TIED) | lists(ANY)
BOTH_CLASSES = EVENTS.filter(lambda events: len({positive for positive, *_ in events}) == 2)
SIXTEENTHS = st.integers(0, 16).map(lambda n: n / 16)
FOUR = [(False, 0.1, 1), (False, 0.4, 1), (True, 0.35, 1), (True, 0.8, 1)]


def index_of(events: list[tuple[bool, float, Any]]) -> ScoreIndex:
    index = ScoreIndex()
    for positive, score, weight in events:
        index.update(positive, score, weight)
    return index


def columns(events: list[tuple[bool, float, Any]]) -> tuple[Any, Any, Any]:
    y_true, score, weight = (np.array(column) for column in zip(*events, strict=True))
    return y_true, score, weight


def counts_at(threshold: float, events: list[Event]) -> Counts:
    """TP, FP, FN and TN, literally."""
    tp, fp, fn, tn = (
        sum(w for p, score, w in events if p is truly and (score >= threshold) is called)
        for truly, called in ((True, True), (False, True), (True, False), (False, False))
    )
    return tp, fp, fn, tn


def counts_falling(events: list[Event]) -> list[tuple[float, Counts]]:
    """The counts at +inf and at each distinct score, descending."""
    thresholds = [math.inf, *sorted({score for _, score, _ in events}, reverse=True)]
    return [(threshold, counts_at(threshold, events)) for threshold in thresholds]


@settings(max_examples=80)
@given(BOTH_CLASSES, SIXTEENTHS)
def test_metrics_are_those_of_the_literal_curve(events: list[Event], least: float) -> None:
    rows = [counts for _, counts in counts_falling(events)]
    points = [(Fraction(fp, fp + tn), Fraction(tp, tp + fn)) for tp, fp, fn, tn in rows]
    reached = [(Fraction(tp, tp + fp), Fraction(tp, tp + fn)) for tp, fp, fn, _ in rows[1:]]
    lines = list(pairwise(points))
    area = sum((x1 - x0) * (y0 + y1) for (x0, y0), (x1, y1) in lines) / 2
    # Between two thresholds: as many called positive as there are; an FPR of 1 - TPR.
    positives = rows[0][2]
    (tp0, fp0, *_), (tp1, fp1, *_) = next(
        two for two in pairwise(rows) if sum(two[0][:2]) <= positives <= sum(two[1][:2])
    )
    along = Fraction(positives - tp0 - fp0, tp1 + fp1 - tp0 - fp0)
    (x0, y0), (x1, y1) = next(two for two in lines if sum(two[0]) <= 1 <= sum(two[1]))
    index = index_of(events)
    for found, expected in (
        (metrics.roc_auc(index), area),
        (metrics.gini(index), 2 * area - 1),
        (metrics.ks(index), max(abs(tpr - fpr) for fpr, tpr in points)),
        (metrics.break_even(index), (tp0 + along * (tp1 - tp0)) / positives),
    ):
        assert found == float(expected)
    best = [max(p for p, r in reached if r >= Fraction(n, 10)) for n in range(11)]
    for found, expected in (
        (metrics.eleven_point_average_precision(index), sum(best) / 11),
        (
            metrics.equal_error_rate(index),
            x0 + (1 - y0 - x0) / (x1 - x0 + y1 - y0) * (x1 - x0),
        ),
        (metrics.precision_at_recall(index, least), max(p for p, r in reached if r >= least)),
        (
            metrics.recall_at_precision(index, least, undefined=-1),
            max((r for p, r in reached if p >= least), default=-1),
        ),
        (
            metrics.sensitivity_at_specificity(index, least),
            max(tpr for fpr, tpr in points if 1 - fpr >= least),
        ),
        (
            metrics.specificity_at_sensitivity(index, least),
            max(1 - fpr for fpr, tpr in points if tpr >= least),
        ),
    ):
        assert found == pytest.approx(float(expected), abs=1e-14)


@settings(max_examples=60)
@given(BOTH_CLASSES, st.integers(1, 15).map(lambda n: n / 16), st.booleans())
def test_areas_equal_scikit_learn_and_add_up(events: list[Event], cut: float, part: bool) -> None:
    if part:
        events = [(positive, score, w / 2 + 0.25) for positive, score, w in events]  # type: ignore[misc]
    y_true, score, weight = columns(events)
    index = index_of(events)
    area = sk.roc_auc_score(y_true, score, sample_weight=weight)
    for value, expected in (
        (metrics.roc_auc(index), area),
        (
            metrics.average_precision(index),
            sk.average_precision_score(y_true, score, sample_weight=weight),
        ),
        (
            metrics.partial_roc_auc(index, cut),
            sk.roc_auc_score(y_true, score, sample_weight=weight, max_fpr=cut),
        ),
        (metrics.partial_roc_auc(index), metrics.partial_roc_auc(index, 0.1)),
    ):
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-12)

    def plain(of: ScoreIndex = index, **ends: float) -> float:
        return metrics.partial_roc_auc(of, mcclish=False, **ends)

    # Sensitivity is the specificity of the other class.
    turned = index_of([(not positive, -score, w) for positive, score, w in events])
    for one, other in (
        (plain(max_fpr=cut) + plain(min_fpr=cut), area),
        (plain(max_tpr=cut) + plain(min_tpr=cut), area),
        (plain(min_tpr=cut), plain(turned, max_fpr=1 - cut)),
    ):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-12)
    constant = index_of([(positive, 0.5, w) for positive, _, w in events])
    for ends in ({"min_tpr": cut}, {"min_fpr": cut}, {"min_fpr": cut / 2, "max_fpr": cut}):
        assert metrics.partial_roc_auc(constant, **ends) == pytest.approx(0.5, abs=1e-12)


OF_BOTH: list[Any] = [
    *(metrics.roc_auc, metrics.gini, metrics.ks, metrics.partial_roc_auc, metrics.pr_gain_auc),
    *(youden_cut, closest_cut, mcc_cut, fpr_cut),
]
OF_POSITIVES: list[Any] = [
    *(metrics.average_precision, metrics.eleven_point_average_precision, metrics.break_even),
    *(f1_cut, fbeta_cut, precision_cut),
]
ONE_SIDED = [
    ([], "no event has been counted yet"),
    ([(True, 0.5, 1)], "no negative event has been seen"),
    ([(False, 0.5, 1)], "no positive event has been seen"),
]


@pytest.mark.parametrize("metric", OF_BOTH + OF_POSITIVES, ids=lambda metric: metric.__name__)
@pytest.mark.parametrize(("events", "reason"), ONE_SIDED)
def test_a_missing_class_is_a_reason(metric: Any, events: list[Event], reason: str) -> None:
    found = metric(index_of(events))
    if metric in OF_POSITIVES and "negative" in reason:
        assert (found if isinstance(found, float) else found.value) == 1
        return
    assert found.reason == reason
    if isinstance(found, float):
        assert metric(index_of(events), undefined=0.5) == 0.5
    else:
        assert all(isinstance(value, Undefined) for value in found)
        record = found.to_dict()
        assert json.loads(json.dumps(record, allow_nan=False)) == record
        assert set(record.values()) == {None, reason}


@pytest.mark.parametrize(
    ("metric", "options", "message"),
    [
        (metrics.partial_roc_auc, {"max_fpr": 0}, "max_fpr: expected a number above 0 and at most"),
        (metrics.partial_roc_auc, {"max_tpr": 1.1}, "max_tpr: expected a number above 0 and"),
        (
            metrics.partial_roc_auc,
            {"min_tpr": -1},
            "min_tpr: expected a number from 0 to 1, got -1",
        ),
        (
            metrics.partial_roc_auc,
            {"min_tpr": 0.5, "max_fpr": 0.5},
            "min_tpr and max_tpr conflict with min_fpr and max_fpr",
        ),
        (
            metrics.partial_roc_auc,
            {"min_fpr": 0.5, "max_fpr": 0.5},
            "min_fpr: expected a number below max_fpr=0.5, got 0.5",
        ),
        (metrics.quantile_calibration_error, {"bins": 0}, "bins: expected"),
        (metrics.quantile_calibration_error, {"norm": "l3"}, "norm: expected"),
        (fbeta_cut, {"beta": -1}, "beta: expected a number from 0 to 1e100, or infinity, got -1"),
        (cost_cut, {"c_fp": -1}, "c_fp: expected a number of at least 0, got -1"),
        (cost_cut, {"c_fn": math.nan}, "c_fn: expected a number of at least 0, got nan"),
        (precision_cut, {"precision": 1.5}, "precision: expected a number from 0 to 1, got 1.5"),
        (fpr_cut, {"fpr": "low"}, "fpr: expected a number from 0 to 1, got 'low'"),
    ],
)
def test_options_are_checked(metric: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(MetricError, match=message):
        metric(index_of(FOUR), **options)


# Cut-points ------------------------------------------------------------------


def youden(tp: int, fp: int, fn: int, tn: int) -> Fraction:
    return Fraction(tp, tp + fn) - Fraction(fp, fp + tn)


def f_score(tp: int, fp: int, fn: int, tn: int, beta: float = 1) -> Fraction | None:
    if beta == math.inf:
        return Fraction(tp, tp + fn)
    square = Fraction(beta) ** 2
    below = (1 + square) * tp + square * fn + fp
    return (1 + square) * tp / below if below else None


def saved(tp: int, fp: int, fn: int, tn: int, c_fp: int, c_fn: int) -> Fraction:
    """The mean cost, negative: of costs the least is best."""
    return -Fraction(c_fp * fp + c_fn * fn, tp + fp + fn + tn)


def recall_with_precision(tp: int, fp: int, fn: int, tn: int, precision: float) -> Fraction | None:
    return Fraction(tp, tp + fn) if tp + fp and tp / (tp + fp) >= precision else None


def recall_with_fpr(tp: int, fp: int, fn: int, tn: int, fpr: float) -> Fraction | None:
    return Fraction(tp, tp + fn) if fp / (fp + tn) <= fpr else None


def closeness(tp: int, fp: int, fn: int, tn: int) -> Fraction:
    """The square of the distance, negative."""
    return -(Fraction(fn, tp + fn) ** 2) - Fraction(fp, fp + tn) ** 2


def correlation(tp: int, fp: int, fn: int, tn: int) -> Fraction | None:
    """The square of MCC, with its sign: an order without roots."""
    below = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    lead = tp * tn - fp * fn
    return Fraction(lead * abs(lead), below) if below else None


def root(merit: Fraction) -> float:
    return math.copysign(math.sqrt(abs(merit)), merit)


MERITS: dict[Any, tuple[Callable[..., Fraction | None], Callable[..., float], dict[str, Any]]] = {
    youden_cut: (youden, float, {}),
    f1_cut: (f_score, float, {}),
    fbeta_cut: (f_score, float, {"beta": [1, 2, 0.5, 3, 0, math.inf]}),
    cost_cut: (saved, lambda merit: float(-merit), {"c_fp": [0, 1, 2, 5], "c_fn": [0, 1, 3]}),
    precision_cut: (
        recall_with_precision,
        float,
        {"precision": [0.0, 0.25, 0.5, 0.6, 0.75, 1.0]},
    ),
    fpr_cut: (recall_with_fpr, float, {"fpr": [0.0, 0.1, 0.25, 0.3, 0.5, 1.0]}),
    closest_cut: (closeness, lambda merit: -root(merit), {}),
    mcc_cut: (correlation, root, {}),
}


@pytest.mark.parametrize("rule", MERITS, ids=lambda rule: rule.__name__)
@settings(max_examples=60)
@given(events=BOTH_CLASSES, data=st.data())
def test_the_cut_is_the_highest_of_the_largest_merit(rule, events, data):
    merit, value, choices = MERITS[rule]
    options = {name: data.draw(st.sampled_from(values)) for name, values in choices.items()}
    cut = rule(index_of(events), **options)
    rows = [(merit(*counts, **options), at, counts) for at, counts in counts_falling(events)]
    candidates = [row for row in rows if row[0] is not None]
    if not candidates and rule is mcc_cut:
        assert cut.reason == "all scores are equal, so no threshold separates any events"
    elif not candidates:
        highest = max(tp / (tp + fp) for *_, (tp, fp, *_) in rows[1:])
        least = options["precision"]
        assert cut.reason == (
            f"no threshold has a precision of {least} or more; the highest is {highest}"
        )
    else:
        best = max(row[0] for row in candidates)  # type: ignore[type-var]
        equal = [(at, *counts) for found, at, counts in candidates if found == best]
        # Floats select among equal correlations.
        assert cut[:5] in (equal if rule is mcc_cut else equal[:1])
        assert cut.value == pytest.approx(
            value(best), abs=1e-14 if rule in (closest_cut, mcc_cut) else 0
        )
        assert [type(each) for each in cut] == [float, int, int, int, int, float]
        assert cut.to_dict()["threshold"] == (None if cut.threshold == math.inf else cut.threshold)


@settings(max_examples=25)
@given(BOTH_CLASSES)
def test_weights_and_options_of_any_size_find_the_same_cut(events: list[Event]) -> None:
    def times(factor: float) -> ScoreIndex:
        return index_of([(positive, score, w * factor) for positive, score, w in events])  # type: ignore[misc]

    index, large, huge, quarters = (times(factor) for factor in (1, 2**40, 2**51, 0.25))
    for name, rule in CUT_POINTS.items():
        cut, same = rule(huge), rule(index)
        if same.reason:
            assert cut.reason == same.reason
            continue
        assert (cut.threshold, cut.value) == (same.threshold, same.value), name
        assert cut[1:5] == tuple(count * 2**51 for count in same[1:5])
    for c_fp, c_fn in ((10**12, 1), (1, 10**12), (10**12, 10**12)):
        cut, same = (cost_cut(each, c_fp=c_fp, c_fn=c_fn) for each in (large, index))
        assert (cut.threshold, cut.value) == (same.threshold, same.value)
    assert fbeta_cut(large, 10**6).value == fbeta_cut(index, 10**6).value
    assert fbeta_cut(large, 10**20).value == pytest.approx(1)
    for rule in (youden_cut, f1_cut, mcc_cut, cost_cut):
        assert rule(quarters).value == pytest.approx(rule(index).value, abs=1e-9, nan_ok=True)


# Calibration in bins of equal mass --------------------------------------------


@settings(max_examples=40)
@given(lists(SIXTEENTHS).filter(bool), st.sampled_from([1, 2, 4, 8, 16]))
def test_bins_of_equal_mass(events: list[Event], bins: int) -> None:
    index = index_of(events)
    y_true, score = (np.repeat(c, [w for *_, w in events]) for c in columns(events)[:2])
    observed, predicted = sk_calibration_curve(y_true, score, n_bins=bins, strategy="quantile")
    curve = metrics.quantile_calibration_curve(index, bins=bins)
    assert curve.observed.tolist() == pytest.approx(observed.tolist(), abs=1e-12)
    assert curve.predicted.tolist() == pytest.approx(predicted.tolist(), abs=1e-12)
    assert curve.weight.sum() == len(y_true)
    gaps, shares = abs(observed - predicted), curve.weight / len(y_true)
    for norm, expected in (
        ("l1", (shares * gaps).sum()),
        ("l2", math.sqrt((shares * gaps**2).sum())),
        ("max", gaps.max()),
    ):
        value = metrics.quantile_calibration_error(index, bins=bins, norm=norm)
        assert value == pytest.approx(expected, abs=1e-12)


def test_bins_of_equal_mass_need_probabilities() -> None:
    index = index_of([(True, 1.5, 1), (False, 0.5, 1)])
    reason = "1 of 2 scores lies outside [0, 1]; the calibration error needs probabilities"
    assert metrics.quantile_calibration_error(index).reason == reason
    halves = index_of([(n != 1, score, 0.5) for n, score in enumerate((0.1, 0.2, 0.8, 0.9))])
    assert metrics.quantile_calibration_curve(halves, bins=2).weight.tolist() == [1.5, 0.5]
