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
from streameval.states.moments import ScoreMoments
from streameval.states.prediction_histogram import LARGEST, PredictionHistogram
from tests.properties.test_metrics_ranking import (
    ANY,
    BOTH_CLASSES,
    FOUR,
    ONE_SIDED,
    TIED,
    Event,
    columns,
    counts_at,
    counts_falling,
    index_of,
)


def assert_columns_equal(ours: Any, theirs: Any) -> None:
    got = list(ours)
    assert len(got) == len(theirs)
    for column, expected in zip(got, theirs, strict=True):
        np.testing.assert_allclose(column, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("curve", [roc_curve, precision_recall_curve, det_curve])
@settings(max_examples=80)
@given(BOTH_CLASSES, st.booleans(), st.booleans())
def test_curves_equal_scikit_learns(curve, events, drop, whole):
    if not whole:
        events = [(positive, score, weight / 2 + 0.25) for positive, score, weight in events]  # type: ignore[misc]
    y_true, score, weight = columns(events)
    peer = getattr(sk, curve.__name__)
    expected = peer(y_true, score, sample_weight=weight, drop_intermediate=drop and whole)
    found = curve(index_of(events), drop_intermediate=drop and whole)
    assert_columns_equal(found, expected)
    assert found.reason == ""


@pytest.mark.parametrize(("events", "reason"), ONE_SIDED)
def test_a_curve_of_one_class_says_why(events: list[Event], reason: str) -> None:
    index = index_of(events)
    curves = [roc_curve(index), det_curve(index), pr_gain_curve(index), threshold_table(index)]
    assert {curve.reason for curve in curves} == {reason}
    missing = ("fpr",) if "negative" in reason else ("tpr",) if events else ("fpr", "tpr")
    for name, column in curves[0].columns().items():
        assert np.isnan(column).all() == (name in missing)
    assert len(curves[1].fpr) == 1
    curve = precision_recall_curve(index)
    assert curve.reason == ("" if "negative" in reason else reason)
    assert np.isnan(curve.recall).all() == bool(curve.reason)
    assert curve.precision.tolist() == [[1], [1, 1], [0, 1]][ONE_SIDED.index((events, reason))]
    if "negative" in reason:
        assert curves[0].to_dict() == {
            "curve": "roc",
            "reason": reason,
            "fpr": [None, None],
            "tpr": [0.0, 1.0],
            "threshold": [None, 0.5],
        }


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
            counts = counts_at(threshold, events)
            found = tuple(column[row] for column in (table.tp, table.fp, table.fn, table.tn))
            assert found == counts
            assert table.tpr[row] == counts[0] / (counts[0] + counts[2])
            assert table.fpr[row] == counts[1] / (counts[1] + counts[3])


@pytest.mark.parametrize("bad", [math.nan, "0.5"])
def test_what_is_no_threshold_is_refused(bad: Any) -> None:
    with pytest.raises(MetricError, match="thresholds: expected numbers, got"):
        threshold_table(index_of(FOUR), [0.5, bad])
    with pytest.raises(MetricError, match="thresholds: expected numbers, got"):
        binormal_roc(moments_of([1.0, 2.0], [0.0]), [bad])


def pr_gain_literally(events: list[Event]) -> tuple[list[tuple[Fraction, Fraction]], Fraction]:
    """Points with recall gain ≥ 0 after adding the crossing, and the area under them."""
    rows = [counts for _, counts in counts_falling(events)]
    positives, negatives = rows[0][2:]
    odds, target = Fraction(positives, negatives), Fraction(positives**2, positives + negatives)
    kept: list[tuple[Any, Any]] = []
    for (tp0, fp0, *_), (tp, fp, *_) in pairwise(rows):
        if tp0 < target < tp:
            kept.append((target, fp0 + (target - tp0) / (tp - tp0) * (fp - fp0)))
        if tp >= target:
            kept.append((tp, fp))
    points = [(1 - odds * (positives - tp) / tp, 1 - odds * fp / tp) for tp, fp in kept]
    area = sum((x1 - x0) * (y0 + y1) for (x0, y0), (x1, y1) in pairwise(points)) / Fraction(2)
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


@pytest.mark.parametrize(
    ("name", "task"), [(row.name, task) for row in CURVES.values() for task in row.states]
)
def test_what_a_curve_reads_is_kept_as_its_refusal_says(name: str, task: str) -> None:
    other = "mean_error" if task == "regression" else "accuracy"
    with pytest.raises(MetricError) as refused:
        Evaluator(task, metrics=[other]).curve(name)
    named = re.search(r"add '(\w+)' to metrics=", str(refused.value))
    assert named
    curve = Evaluator(task, metrics=[named[1]]).curve(name)
    record = curve.to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["curve"] in CURVES
    assert record["reason"] == "no event has been counted yet"
    assert list(record)[2:] == list(curve.columns())
    assert [len(column) for column in curve] == [len(v) for v in list(record.values())[2:]]
    with pytest.raises(AttributeError):
        curve.reason = "mine"


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
    deviation = float(np.std([2, 9, 4]))
    assert model == pytest.approx(BinormalModel(5, deviation, -1, 4), abs=1e-12)
    assert model.tpr(1.0) == pytest.approx(1 - NormalDist(5, deviation).cdf(1.0), abs=1e-12)
    assert model.fpr(1.0) == pytest.approx(1 - NormalDist(-1, 4).cdf(1.0), abs=1e-12)
    auc = binormal_auc(moments)
    assert auc == model.auc()
    curve = binormal_roc(moments)
    assert sk.auc(curve.fpr, curve.tpr) == pytest.approx(auc, abs=1e-3)
    assert (np.diff(curve.threshold) < 0).all()
    assert (curve.fpr[0], curve.tpr[0], curve.fpr[-1], curve.tpr[-1]) == (0, 0, 1, 1)


@pytest.mark.parametrize("far", [0.0, 1e9, -1e15])
def test_binormal_auc_does_not_depend_on_how_far_the_scores_are_from_0(far: float) -> None:
    # Means that no float holds, of scores that are exact.
    moments = moments_of([far + 1, far + 2, far + 4], [far, far + 1, far + 1])
    distance = (7 / 3 - 2 / 3) / math.hypot(np.std([1, 2, 4]), np.std([0, 1, 1]))
    assert binormal_auc(moments) == pytest.approx(NormalDist().cdf(distance), rel=1e-14)


def test_binormal_without_spread_or_class_says_why() -> None:
    flat = moments_of([1.0, 1.0], [0.0])
    assert binormal_auc(flat).reason.startswith("the scores of both classes are constant")
    assert binormal_auc(flat, undefined=0.5) == 0.5
    assert binormal_auc(moments_of([], [])).reason == "no event has been counted yet"
    for read in (binormal_auc, binormal_roc):
        assert read(moments_of([1.0], [])).reason == "no negative event has been seen"
        wide = moments_of([1e308, -1e308], [1e308, -1e308])
        assert "beyond the largest float" in read(wide).reason
    assert len(binormal_roc(moments_of([1.0], [])).fpr) == 0
    # One class without spread is a step.
    step = binormal_roc(moments_of([1.0, 1.0], [0.0, 1.0]), [0.5, 1.0, 1.5])
    assert step.tpr.tolist() == [1, 1, 0]
