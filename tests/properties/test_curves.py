"""Curves against scikit-learn, point by point, and against literal readings."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sk
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streameval.errors import MetricError
from streameval.evaluator.evaluator import Evaluator
from streameval.metrics.binormal import BinormalModel, binormal_auc, binormal_model, binormal_roc
from streameval.metrics.curves import (
    CURVES,
    det_curve,
    pr_gain_auc,
    pr_gain_curve,
    precision_recall_curve,
    roc_curve,
)
from streameval.metrics.thresholds import threshold_table
from streameval.states.class_scores import ClassScores
from streameval.states.error_residuals import ResidualIndex
from streameval.states.moments import ScoreMoments
from streameval.states.prediction_histogram import LARGEST, PredictionHistogram
from streameval.states.probability import ProbabilitySums
from streameval.states.score_index import ScoreIndex
from tests.properties.test_metrics_ranking import (
    ANY,
    BOTH_CLASSES,
    TIED,
    Event,
    columns,
    index_of,
)

FOUR = [(False, 0.1, 1), (False, 0.4, 1), (True, 0.35, 1), (True, 0.8, 1)]


def assert_columns_equal(ours: Any, theirs: Any) -> None:
    got = list(ours)
    assert len(got) == len(theirs)
    for column, expected in zip(got, theirs, strict=True):
        np.testing.assert_allclose(column, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("curve", [roc_curve, precision_recall_curve, det_curve])
@settings(max_examples=80)
@given(BOTH_CLASSES, st.booleans(), st.booleans())
def test_curves_equal_scikit_learns(
    curve: Any, events: list[Event], drop: bool, whole: bool
) -> None:
    if not whole:
        events = [(positive, score, weight / 2 + 0.25) for positive, score, weight in events]  # type: ignore[misc]
    y_true, score, weight = columns(events)
    peer = getattr(sk, curve.__name__)
    expected = peer(y_true, score, sample_weight=weight, drop_intermediate=drop and whole)
    found = curve(index_of(events), drop_intermediate=drop and whole)
    assert_columns_equal(found, expected)
    assert found.reason == ""


@pytest.mark.parametrize(
    ("events", "reason", "missing"),
    [
        ([], "no event has been counted yet", ("fpr", "tpr")),
        ([(True, 0.5, 1)], "no negative event has been seen", ("fpr",)),
        ([(False, 0.5, 1)], "no positive event has been seen", ("tpr",)),
    ],
)
def test_roc_of_one_class_says_why(
    events: list[Event], reason: str, missing: tuple[str, ...]
) -> None:
    curve = roc_curve(index_of(events))
    assert curve.reason == reason
    for name, column in curve.columns().items():
        assert np.isnan(column).all() == (name in missing)
    assert det_curve(index_of(events)).reason == reason
    assert len(det_curve(index_of(events)).fpr) == 1
    assert pr_gain_curve(index_of(events)).reason == reason
    assert threshold_table(index_of(events)).reason == reason


def test_precision_recall_needs_a_positive() -> None:
    curve = precision_recall_curve(index_of([(False, 0.5, 1), (False, 0.6, 1)]))
    assert curve.reason == "no positive event has been seen"
    assert np.isnan(curve.recall).all()
    assert curve.precision.tolist() == [0, 0, 1]
    assert precision_recall_curve(index_of([(True, 0.5, 1)])).reason == ""
    empty = precision_recall_curve(ScoreIndex())
    assert (len(empty.precision), len(empty.threshold)) == (1, 0)
    assert empty.reason == "no event has been counted yet"


@settings(max_examples=60)
@given(BOTH_CLASSES, st.lists(st.one_of(TIED, ANY, st.just(math.inf), st.just(-math.inf))))
def test_threshold_table_counts_literally(events: list[Event], thresholds: list[float]) -> None:
    index = index_of(events)
    for wanted, table in (
        (thresholds, threshold_table(index, thresholds)),
        (sorted({score for _, score, _ in events}), threshold_table(index)),
    ):
        assert table.threshold.tolist() == wanted
        assert len(table) == len(wanted)
        for row, threshold in enumerate(wanted):
            counts = [
                sum(
                    w
                    for positive, score, w in events
                    if positive == truly and (score >= threshold) == called
                )
                for truly, called in ((True, True), (False, True), (True, False), (False, False))
            ]
            assert [column[row] for column in (table.tp, table.fp, table.fn, table.tn)] == counts
            assert table.tpr[row] == counts[0] / (counts[0] + counts[2])
            assert table.fpr[row] == counts[1] / (counts[1] + counts[3])


@pytest.mark.parametrize("bad", [math.nan, "0.5", None])
def test_what_is_no_threshold_is_refused(bad: Any) -> None:
    with pytest.raises(MetricError, match="thresholds: expected numbers, got"):
        threshold_table(index_of(FOUR), [0.5, bad])
    with pytest.raises(MetricError, match="thresholds: expected numbers, got"):
        binormal_roc(moments_of([1.0, 2.0], [0.0]), [bad])


def pr_gain_literally(events: list[Event]) -> tuple[list[tuple[Fraction, Fraction]], Fraction]:
    """Points with recall gain ≥ 0 after adding the crossing, and the area under them."""
    positives = sum(w for positive, _, w in events if positive)
    negatives = sum(w for positive, _, w in events if not positive)
    odds = Fraction(positives, negatives)
    share = Fraction(positives, positives + negatives)
    tp = fp = Fraction(0)
    points: list[tuple[Fraction, Fraction]] = []

    def gains(tp: Fraction, fp: Fraction) -> tuple[Fraction, Fraction]:
        return 1 - odds * (positives - tp) / tp, 1 - odds * fp / tp

    for threshold in sorted({score for _, score, _ in events}, reverse=True):
        more_tp = sum(w for positive, score, w in events if positive and score == threshold)
        more_fp = sum(w for positive, score, w in events if not positive and score == threshold)
        target = share * positives
        if tp < target < tp + more_tp:
            part = (target - tp) / more_tp
            points.append(gains(target, fp + part * more_fp))
        tp, fp = tp + more_tp, fp + more_fp
        if tp >= target:
            points.append(gains(tp, fp))
    area = sum(
        ((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(points)),
        Fraction(0),
    )
    return points, area


@settings(max_examples=80)
@given(BOTH_CLASSES)
def test_pr_gain_curve_and_area(events: list[Event]) -> None:
    points, area = pr_gain_literally(events)
    curve = pr_gain_curve(index_of(events))
    assert_columns_equal(
        (curve.recall_gain, curve.precision_gain),
        ([float(r) for r, _ in points], [float(p) for _, p in points]),
    )
    assert curve.recall_gain[0] == 0
    assert pr_gain_auc(index_of(events)) == pytest.approx(float(area), abs=1e-12)


def every_curve() -> list[Any]:
    index = index_of(FOUR)
    sums = ProbabilitySums()
    moments = ScoreMoments()
    for positive, score, _ in FOUR:
        sums.update(positive, score)
        moments.update(positive, score)
    several = ClassScores()
    for true, cat in (("cat", 0.75), ("dog", 0.5), ("dog", 1.0)):
        several.update(true, {"cat": cat, "dog": 1 - cat})
    residuals, histogram = ResidualIndex(), PredictionHistogram()
    for true, predicted in ((3.0, 2.5), (1.0, 2.5), (2.0, 2.0)):
        residuals.update(true, predicted)
        histogram.update(true, predicted)
    states = {
        "index": index,
        "probability": sums,
        "class_scores": several,
        "residuals": residuals,
        "prediction_histogram": histogram,
    }
    curves = [row.function(states[next(iter(row.states.values()))]) for row in CURVES.values()]
    return [*curves, threshold_table(index, [0.5, math.inf]), binormal_roc(moments)]


@pytest.mark.parametrize("curve", every_curve(), ids=lambda curve: type(curve).__name__)
def test_a_curve_is_json_and_unpacks(curve: Any) -> None:
    record = curve.to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["reason"] is None
    assert record["curve"] in {*CURVES, "thresholds", "binormal_roc"}
    assert list(record)[2:] == list(curve.columns())
    assert [len(column) for column in curve] == [len(v) for v in list(record.values())[2:]]
    with pytest.raises(AttributeError):
        curve.reason = "mine"


def test_infinity_and_nan_are_null_in_json() -> None:
    record = roc_curve(index_of([(True, 0.5, 1)])).to_dict()
    assert record == {
        "curve": "roc",
        "reason": "no negative event has been seen",
        "fpr": [None, None],
        "tpr": [0.0, 1.0],
        "threshold": [None, 0.5],
    }


@pytest.mark.parametrize(
    ("name", "task"), [(row.name, task) for row in CURVES.values() for task in row.states]
)
def test_what_a_curve_reads_is_kept_as_its_refusal_says(name: str, task: str) -> None:
    other = "mean_error" if task == "regression" else "accuracy"
    with pytest.raises(MetricError) as refused:
        Evaluator(task, metrics=[other]).curve(name)
    named = re.search(r"add '(\w+)' to metrics=", str(refused.value))
    assert named
    assert Evaluator(task, metrics=[named[1]]).curve(name) is not None


NUMBERS = st.one_of(st.floats(-9, 9), st.floats(-LARGEST / 2, LARGEST / 2), st.just(-LARGEST))


@example([(0.0, -(2.0**1023)), (0.0, -LARGEST), (-LARGEST, 2.0**1022)], 4)
@given(
    st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=40), st.sampled_from([4, 10, 1000])
)
def test_squares_have_their_events(events: list[tuple[float, float]], bins: int) -> None:
    histogram = PredictionHistogram()
    for event in events:
        histogram.update(*event)
    cells = CURVES["actual_vs_predicted"].function(histogram, bins=bins)
    left = list(events)
    for true, true_end, predicted, predicted_end, count in zip(*cells, strict=True):
        inside = [
            (y, p)
            for y, p in left
            if true <= y and predicted <= p
            if (y < true_end or y == LARGEST) and (p < predicted_end or p == LARGEST)
        ]
        assert len(inside) == count
        left = [one for one in left if one not in inside]
    assert left == []
    assert max(len(np.unique(low)) for low in (cells.true_low, cells.predicted_low)) <= bins
    few = CURVES["actual_vs_predicted"].function(histogram, bins=bins, limits=(-1.0, 1.0))
    assert sum(few.events) == len(few.events) == 0 or few.true_low.max() <= 1.0


def moments_of(positives: list[float], negatives: list[float]) -> ScoreMoments:
    moments = ScoreMoments()
    for positive, scores in ((True, positives), (False, negatives)):
        for score in scores:
            moments.update(positive, score)
    return moments


def test_binormal_model_is_that_of_the_moments() -> None:
    moments = moments_of([2.0, 9.0, 4.0], [-5.0, 3.0])
    model = binormal_model(moments)
    assert model == pytest.approx(BinormalModel(5, np.std([2, 9, 4]), -1, 4), abs=1e-12)
    auc = binormal_auc(moments)
    assert auc == model.auc()
    curve = binormal_roc(moments)
    assert sk.auc(curve.fpr, curve.tpr) == pytest.approx(auc, abs=1e-3)
    assert (np.diff(curve.threshold) < 0).all()
    assert (curve.fpr[0], curve.tpr[0], curve.fpr[-1], curve.tpr[-1]) == (0, 0, 1, 1)


@pytest.mark.parametrize("far", [0.0, 1e9, -1e15])
def test_binormal_auc_does_not_depend_on_how_far_the_scores_are_from_0(far: float) -> None:
    # Means that no float holds, of scores that are exact.
    near = moments_of([1.0, 2.0, 4.0], [0.0, 1.0, 1.0])
    moments = moments_of([far + 1, far + 2, far + 4], [far, far + 1, far + 1])
    assert binormal_auc(moments) == binormal_auc(near)
    distance = (Fraction(7, 3) - Fraction(2, 3)) / Fraction(
        math.hypot(np.std([1, 2, 4]), np.std([0, 1, 1]))
    )
    assert binormal_auc(moments) == pytest.approx(NormalDist().cdf(float(distance)), rel=1e-14)


def test_binormal_without_spread_or_class_says_why() -> None:
    flat = binormal_auc(moments_of([1.0, 1.0], [0.0]))
    assert flat.reason.startswith("the scores of both classes are constant")
    assert binormal_auc(moments_of([1.0, 1.0], [0.0]), undefined=0.5) == 0.5
    assert binormal_auc(moments_of([1.0], [])).reason == "no negative event has been seen"
    assert binormal_auc(moments_of([], [])).reason == "no event has been counted yet"
    assert binormal_roc(moments_of([1.0], [])).reason == "no negative event has been seen"
    assert len(binormal_roc(moments_of([1.0], [])).fpr) == 0
    # One class without spread is a step.
    step = binormal_roc(moments_of([1.0, 1.0], [0.0, 1.0]), [0.5, 1.0, 1.5])
    assert step.tpr.tolist() == [1, 1, 0]
    wide = moments_of([1e308, -1e308], [1e308, -1e308])
    assert "beyond the largest float" in binormal_auc(wide).reason
    assert "beyond the largest float" in binormal_roc(wide).reason
