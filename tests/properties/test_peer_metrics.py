"""Metrics that other libraries have: against scikit-learn, or their literal definitions."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sk
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve as sk_calibration_curve
from sklearn.preprocessing import label_binarize

import streameval as se
from streameval import metrics
from streameval.metrics import METRICS, find
from streameval.states.class_probability import ClassProbabilitySums
from streameval.states.class_scores import ClassScores
from streameval.states.confusion import ConfusionCounts
from streameval.states.score_index import ScoreIndex
from tests.properties.test_metrics_multiclass import scores_of
from tests.properties.test_metrics_ranking import counts_falling, index_of
from tests.support.class_batch import class_events

LABELS = ["ant", "bee", "cow"]
CLASS = st.sampled_from(LABELS)
PAIRS = st.lists(st.tuples(CLASS, CLASS, st.integers(1, 4)), min_size=1, max_size=25)
SUBSETS = st.permutations(LABELS).flatmap(lambda all_: st.integers(1, 3).map(lambda n: all_[:n]))
CLOSE = {"abs": 1e-12, "nan_ok": True}


def confusion_of(events: list[Any]) -> ConfusionCounts:
    counts = ConfusionCounts()
    for event in events:
        counts.update(*event)
    return counts


def silent(function: Any, *args: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return function(*args, **options)


@pytest.mark.parametrize("name", ["precision", "recall", "jaccard", "fbeta"])
@settings(max_examples=10)
@given(PAIRS, SUBSETS, st.sampled_from([0, 0.5, 1, 3, math.inf]), st.data())
def test_averages_over_some_labels(
    name: str, events: Any, labels: list[str], beta: float, data: st.DataObject
) -> None:
    y_true, y_pred, weight = zip(*events, strict=True)
    more = {"beta": beta} if name == "fbeta" else {}
    average = data.draw(st.sampled_from(["macro", "micro", "weighted", None]))
    theirs = silent(
        getattr(sk, f"{name}_score"),
        *(y_true, y_pred),
        **{"labels": labels, "sample_weight": weight, "zero_division": 0.0, **more},
        average=average,
    )
    row = find(f"{name}_{average}") if average else find(name, None, None)
    ours = row.bind(labels=labels, undefined=0.0, **more)(confusion_of(events))
    if average is None:
        assert list(ours) == labels
        ours, theirs = list(ours.values()), theirs.tolist()
    assert ours == pytest.approx(theirs, **CLOSE)


@settings(max_examples=30)
@given(PAIRS)
def test_all_labels_in_another_order_are_all_labels(events: Any) -> None:
    counts = confusion_of(events)
    labels = counts.labels[::-1]
    for row in metrics.ROWS:
        of_classes = row.state == "confusion" and "kappa" not in row.name
        if of_classes and "labels" in row.params and not row.needs_positive:
            # A mean is rounded alike; a micro average is of the same sums.
            assert row.bind(labels=labels)(counts) == pytest.approx(row.function(counts), **CLOSE)


@settings(max_examples=30)
@given(PAIRS, SUBSETS, st.sampled_from([None, "linear", "quadratic"]))
def test_kappa_of_some_labels_in_an_order(events: Any, labels: list[str], weights: Any) -> None:
    kept = [event for event in events if event[0] in labels and event[1] in labels]
    ours = metrics.cohen_kappa(confusion_of(events), weights=weights, labels=labels)
    if not kept:
        assert math.isnan(ours)
        return
    y_true, y_pred, weight = zip(*events, strict=True)
    expected = silent(
        sk.cohen_kappa_score, y_true, y_pred, labels=labels, weights=weights, sample_weight=weight
    )
    # scikit-learn has another value than nan where chance alone agrees always.
    if not math.isnan(ours):
        assert ours == pytest.approx(expected, abs=1e-12)
    if weights is not None:
        row = find(f"cohen_kappa_{weights}")
        assert row.bind(labels=labels)(confusion_of(events)) == pytest.approx(ours, **CLOSE)


@settings(max_examples=30)
@given(PAIRS, SUBSETS, st.sampled_from([None, "true", "pred", "all"]))
def test_a_normalised_confusion(events: Any, labels: list[str], normalize: Any) -> None:
    y_true, y_pred, weight = zip(*events, strict=True)
    if not set(labels) & set(y_true):
        return  # refused by scikit-learn
    found = metrics.confusion_matrix(confusion_of(events), labels=labels, normalize=normalize)
    expected = silent(
        sk.confusion_matrix,
        y_true,
        y_pred,
        labels=labels,
        normalize=normalize,
        sample_weight=weight,
    )
    assert found.labels == labels
    # nan here is 0 there.
    assert np.nan_to_num(found.matrix) == pytest.approx(expected, abs=1e-12)


def test_a_share_of_nothing_is_nan_and_null() -> None:
    counts = ConfusionCounts.from_matrix([[1, 0], [2, 0]], ["cat", "dog"])
    found = metrics.confusion_matrix(counts, normalize="pred")
    assert found.to_dict() == {
        "labels": ["cat", "dog"],
        "matrix": [[1 / 3, None], [2 / 3, None]],
    }


@settings(max_examples=30)
@given(PAIRS, SUBSETS)
def test_the_report_of_some_labels(events: Any, labels: list[str]) -> None:
    y_true, y_pred, weight = zip(*events, strict=True)
    ev = se.Evaluator("multiclass", undefined=0.0)
    ev.update_many(y_true, y_pred, weight=weight)
    names = [label.upper() for label in labels]
    report = ev.classification_report(labels=labels, target_names=names, digits=3)
    expected = silent(
        sk.classification_report,
        y_true,
        y_pred,
        labels=labels,
        target_names=names,
        sample_weight=weight,
        output_dict=True,
        zero_division=0.0,
    )
    ours = report.to_dict()
    assert ours.keys() == expected.keys()
    for name, row in expected.items():
        assert ours[name] == pytest.approx(row, abs=1e-12)


def test_the_digits_of_a_report() -> None:
    ev = se.Evaluator(positive="spam")
    ev.update_many(["spam", "ham", "ham"], ["spam", "spam", "ham"])
    assert "0.67" in str(ev.classification_report(digits=2))
    assert "0.6667" not in str(ev.classification_report(digits=2))
    # Binary evaluators count 0 and 1.
    report = ev.classification_report(labels=["spam"], intervals=0.95)
    assert list(report.rows) == ["spam"]
    assert list(report.averages) == ["micro avg", "macro avg", "weighted avg"]
    assert report.average_intervals is not None
    assert report.accuracy is None


BINARY = st.lists(
    st.tuples(st.booleans(), st.integers(0, 8).map(lambda n: n / 8), st.integers(1, 4)),
    min_size=2,
    max_size=25,
).filter(lambda events: len({positive for positive, _, _ in events}) == 2)


@settings(max_examples=30)
@given(class_events(LABELS))
def test_shares_of_the_losses_of_several_classes(drawn: Any) -> None:
    y_true, matrix, weight = drawn
    ev = se.Evaluator("multiclass", labels=LABELS)
    ev.update_many(y_true, proba=matrix, weight=weight)
    for name in ("d2_log_loss_score", "d2_brier_score"):
        expected = getattr(sk, name)(y_true, matrix, sample_weight=weight, labels=LABELS)
        assert ev[name] == pytest.approx(expected, rel=1e-12)


def test_a_share_of_a_loss_says_what_is_missing() -> None:
    sums, counts = ClassProbabilitySums(), ConfusionCounts()
    sums.update("a", {"a": 0.5, "b": 0.5})
    counts.update("a", "a")
    for metric in (metrics.d2_brier_score, metrics.d2_log_loss_score, metrics.normalized_entropy):
        assert metric(sums, counts).reason == "every event is truly 'a'"
        assert metric(sums, counts, undefined=0.5) == 0.5
    counts.update("b", "a")
    assert metrics.d2_brier_score(sums, counts).reason == "some events have no probabilities"
    with pytest.raises(se.MetricError, match="compared with ConfusionCounts too"):
        metrics.d2_brier_score(sums)


@settings(max_examples=30)
@given(PAIRS, st.lists(st.integers(0, 5), min_size=9, max_size=9))
def test_expected_cost(events: Any, numbers: list[int]) -> None:
    costs = {
        true: {pred: numbers[3 * i + j] for j, pred in enumerate(LABELS)}
        for i, true in enumerate(LABELS)
    }
    total = sum(weight for _, _, weight in events)
    paid = sum(weight * costs[true][pred] for true, pred, weight in events)
    assert metrics.expected_cost(confusion_of(events), costs=costs) == paid / total


def test_costs_are_by_the_users_labels() -> None:
    ev = se.Evaluator(positive="spam")
    ev.update_many(["spam", "ham", "ham", "ham"], ["ham", "spam", "ham", "ham"])
    costs = {"spam": {"ham": 1}, "ham": {"spam": 5, "ham": 0.5}}
    assert ev.value("expected_cost", costs=costs) == 7 / 4
    missing = ev.value("expected_cost", costs={"spam": {"ham": 1}}, undefined=0)
    assert missing.reason == "costs= has no cost of 'ham' predicted 'spam'"
    for bad, message in (
        ({"eggs": {"ham": 1}}, "costs: expected 'ham' or 'spam', got 'eggs'"),
        ({"spam": {"ham": -1}}, "expected numbers of at least 0, got -1"),
        ([[0, 1], [1, 0]], "expected a mapping from the true class"),
    ):
        with pytest.raises(se.MetricError, match=message):
            ev.value("expected_cost", costs=bad)


def roc_points(events: Any) -> list[tuple[Fraction, Fraction]]:
    """(FPR, TPR) at every threshold, from (0, 0)."""
    rows = counts_falling(events)
    _, positives, negatives = rows[-1]
    return [(Fraction(fp, negatives), Fraction(tp, positives)) for _, tp, fp in rows]


@settings(max_examples=40)
@given(BINARY, st.integers(0, 16).map(lambda n: n / 16))
def test_values_at_a_rate(events: Any, least: float) -> None:
    index, points = index_of(events), roc_points(events)
    weights = [sum(w for p, _, w in events if p is side) for side in (False, True)]
    precision = [
        (tpr * weights[1] / (tpr * weights[1] + fpr * weights[0]), tpr) for fpr, tpr in points[1:]
    ]
    for ours, expected in (
        (metrics.precision_at_recall(index, least), max(p for p, r in precision if r >= least)),
        (
            metrics.recall_at_precision(index, least, undefined=-1),
            max((r for p, r in precision if p >= least), default=-1),
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
        assert ours == pytest.approx(float(expected), abs=1e-15)


@settings(max_examples=40)
@given(BINARY)
def test_the_equal_error_rate_is_where_the_curve_crosses(events: Any) -> None:
    rate = Fraction(metrics.equal_error_rate(index_of(events))).limit_denominator(10**9)
    points = roc_points(events)
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 - (1 - y0) <= 0 <= x1 - (1 - y1):
            along = (1 - y0 - x0) / ((x1 - x0) + (y1 - y0))
            assert float(x0 + along * (x1 - x0)) == pytest.approx(float(rate), abs=1e-12)
            return
    pytest.fail("no crossing")


@settings(max_examples=40)
@given(BINARY, st.integers(1, 15).map(lambda n: n / 16))
def test_partial_areas_add_up(events: Any, cut: float) -> None:
    index = index_of(events)
    turned = index_of([(not positive, 1 - score, weight) for positive, score, weight in events])
    area = metrics.roc_auc(index)

    def plain(of: ScoreIndex = index, **ends: float) -> float:
        return metrics.partial_roc_auc(of, mcclish=False, **ends)

    assert plain(max_fpr=cut) + plain(min_fpr=cut) == pytest.approx(area, abs=1e-12)
    assert plain(max_tpr=cut) + plain(min_tpr=cut) == pytest.approx(area, abs=1e-12)
    # Sensitivity is the specificity of the other class.
    assert plain(min_tpr=cut) == pytest.approx(plain(turned, max_fpr=1 - cut), abs=1e-12)
    for ends in ({"min_tpr": cut}, {"min_fpr": cut}, {"min_fpr": cut / 2, "max_fpr": cut}):
        constant = index_of([(positive, 0.5, weight) for positive, _, weight in events])
        assert metrics.partial_roc_auc(constant, **ends) == pytest.approx(0.5, abs=1e-12)
    y_true, score, weight = zip(*events, strict=True)
    expected = sk.roc_auc_score(y_true, score, sample_weight=weight, max_fpr=cut)
    assert metrics.partial_roc_auc(index, cut) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        ({"min_tpr": 0.5, "max_fpr": 0.5}, "min_tpr and max_tpr conflict with min_fpr and max_fpr"),
        ({"min_fpr": 0.5, "max_fpr": 0.5}, "min_fpr: expected a number below max_fpr=0.5, got 0.5"),
        ({"min_tpr": -1}, "min_tpr: expected a number from 0 to 1, got -1"),
        ({"max_tpr": 0}, "max_tpr: expected a number above 0 and at most 1, got 0"),
    ],
)
def test_ends_of_a_partial_area(ends: dict[str, float], message: str) -> None:
    with pytest.raises(se.MetricError, match=message):
        metrics.partial_roc_auc(ScoreIndex(), **ends)


@settings(max_examples=40)
@given(BINARY)
def test_the_closest_point_of_the_curve(events: Any) -> None:
    cut = metrics.closest_cut(index_of(events))
    least = min((1 - tpr) ** 2 + fpr**2 for fpr, tpr in roc_points(events))
    assert cut.value == pytest.approx(math.sqrt(least), abs=1e-15)


@settings(max_examples=40)
@given(BINARY)
def test_limits_of_beta_in_a_cut_point(events: Any) -> None:
    index = index_of(events)
    precision = metrics.fbeta_cut(index, 0)
    assert precision.value == pytest.approx(metrics.precision_at_recall(index, 0.0), abs=1e-15)
    recall = metrics.fbeta_cut(index, math.inf)
    assert (recall.value, recall.fn) == (1.0, 0)
    assert recall.tn == max(
        sum(w for p, s, w in events if not p and s < threshold)
        for _, threshold, _ in events
        if all(s >= threshold for p, s, _ in events if p)
    )


@settings(max_examples=40)
@given(BINARY, st.sampled_from([1, 2, 4, 8, 16]))
def test_bins_of_equal_mass(events: Any, bins: int) -> None:
    index = index_of(events)
    y_true, score, weight = (
        np.repeat(c, [e[2] for e in events]) for c in zip(*events, strict=True)
    )
    observed, predicted = sk_calibration_curve(y_true, score, n_bins=bins, strategy="quantile")
    curve = metrics.quantile_calibration_curve(index, bins=bins)
    assert curve.observed.tolist() == pytest.approx(observed.tolist(), abs=1e-12)
    assert curve.predicted.tolist() == pytest.approx(predicted.tolist(), abs=1e-12)
    assert curve.weight.sum() == len(weight)
    gaps, shares = abs(observed - predicted), curve.weight / len(weight)
    for norm, expected in (
        ("l1", (shares * gaps).sum()),
        ("l2", math.sqrt((shares * gaps**2).sum())),
        ("max", gaps.max()),
    ):
        value = metrics.quantile_calibration_error(index, bins=bins, norm=norm)
        assert value == pytest.approx(expected, abs=1e-12)


def test_bins_of_equal_mass_need_probabilities() -> None:
    assert metrics.quantile_calibration_error(ScoreIndex()).reason.startswith("no event has been")
    index = ScoreIndex([(True, 1.5), (False, 0.5)])
    reason = "1 of 2 scores lies outside [0, 1]; the calibration error needs probabilities"
    assert metrics.quantile_calibration_error(index).reason == reason
    halves = ScoreIndex()
    for positive, score in ((True, 0.1), (False, 0.2), (True, 0.8), (True, 0.9)):
        halves.update(positive, score, 0.5)
    assert metrics.quantile_calibration_curve(halves, bins=2).weight.tolist() == [1.5, 0.5]
    for options, message in (({"bins": 0}, "bins: expected"), ({"norm": "l3"}, "norm: expected")):
        with pytest.raises(se.MetricError, match=message):
            metrics.quantile_calibration_error(index, **options)


# Rows of decision functions: some below 0, many equal.
DECISIONS = st.lists(
    st.tuples(CLASS, st.tuples(*[st.integers(-3, 3).map(lambda n: n / 2)] * 3), st.integers(1, 4)),
    max_size=15,
)


@settings(max_examples=30)
@given(class_events(LABELS), DECISIONS, st.booleans())
def test_curves_of_several_classes(drawn: Any, decisions: Any, probabilities: bool) -> None:
    y_true, matrix, weight = drawn
    if not probabilities:
        events = [(label, (0.0, -1.0, 1.0), 1) for label in LABELS] + decisions
        y_true, rows, weight = map(list, zip(*events, strict=True))
        matrix = np.array(rows)
    scores = scores_of(y_true, matrix, weight, probabilities=probabilities)
    truth = label_binarize(y_true, classes=LABELS)
    options = {"sample_weight": weight}
    precisions = metrics.average_precision_ovr(scores, average=None)
    rocs = metrics.roc_curve_ovr(scores, average=None)
    curves = metrics.precision_recall_curve_ovr(scores, average=None)
    assert list(rocs) == list(curves) == list(precisions) == LABELS
    for k, label in enumerate(LABELS):
        one = truth[:, k], matrix[:, k]
        expected = sk.average_precision_score(*one, **options)
        assert precisions[label] == pytest.approx(expected, abs=1e-12)
        for ours, theirs in (
            (rocs[label], sk.roc_curve(*one, **options)),
            (curves[label], sk.precision_recall_curve(*one, **options)),
        ):
            for column, other in zip(ours, theirs, strict=True):
                assert column.tolist() == pytest.approx(other.tolist(), abs=1e-12)
    pooled = truth.ravel(), matrix.ravel()
    for column, other in zip(
        metrics.roc_curve_ovr(scores, average="micro"),
        sk.roc_curve(*pooled, sample_weight=np.repeat(weight, 3)),
        strict=True,
    ):
        assert column.tolist() == pytest.approx(other.tolist(), abs=1e-12)
    values = {
        "macro": metrics.average_precision_ovr(scores),
        "weighted": metrics.average_precision_ovr(scores, average="weighted"),
        "micro": metrics.average_precision_micro(scores),
    }
    areas = {
        "macro": metrics.roc_auc_ovr(scores),
        "weighted": metrics.roc_auc_ovr(scores, average="weighted"),
        "micro": metrics.roc_auc_micro(scores),
    }
    for average in values:
        expected = sk.average_precision_score(truth, matrix, average=average, **options)
        assert values[average] == pytest.approx(expected, abs=1e-12)
        expected = sk.roc_auc_score(truth, matrix, average=average, **options)
        assert areas[average] == pytest.approx(expected, abs=1e-12)
        # The area of the mean is the mean of the areas.
        roc = metrics.roc_curve_ovr(scores, average=average)
        assert sk.auc(roc.fpr, roc.tpr) == pytest.approx(areas[average], abs=1e-12)
        assert (roc.fpr[0], roc.tpr[0], roc.fpr[-1], roc.tpr[-1]) == (0, 0, 1, 1)
        curve = metrics.precision_recall_curve_ovr(scores, average=average)
        steps = -np.sum(np.diff(curve.recall) * curve.precision[:-1])
        assert steps == pytest.approx(values[average], abs=1e-12)


def test_curves_leave_out_classes_without_events() -> None:
    scores = ClassScores()
    assert metrics.roc_curve_ovr(scores).reason == "no event has been counted yet"
    scores.update("a", {"a": 0.5, "b": 0.25, "c": 0.25})
    assert metrics.roc_curve_ovr(scores).reason == "no negative event has been seen"
    scores.update("b", {"a": 0.5, "b": 0.25, "c": 0.25})
    assert metrics.average_precision_ovr(scores) == 0.5
    assert metrics.average_precision_ovr(scores, undefined=0.0) == pytest.approx(1 / 3)
    each = metrics.average_precision_ovr(scores, average=None)
    assert each["c"].reason == "no event is truly 'c'"
    assert metrics.roc_curve_ovr(scores).tpr.tolist() == [0.0, 1.0]
    with pytest.raises(se.MetricError, match="average: expected 'macro', 'micro', 'weighted'"):
        metrics.roc_curve_ovr(scores, average="samples")  # type: ignore[call-overload]


def decisions_of(n: int = 60) -> tuple[Any, Any]:
    rng = np.random.default_rng(8)
    return rng.choice(LABELS, n), rng.normal(size=(n, 3)).round(1)


def test_scores_that_are_no_probabilities() -> None:
    y_true, matrix = decisions_of()
    options: Any = {"task": "multiclass", "labels": LABELS, "probabilities": False}
    ev, one = se.Evaluator(**options), se.Evaluator(**options, intervals=True)
    ev.update_many(y_true, score=matrix)
    for true, row in zip(y_true, matrix.tolist(), strict=True):
        one.update(true, score=dict(zip(LABELS, row, strict=True)))
        assert 0 <= one.value("roc_auc_ovo", undefined=0) <= 1
    assert one["roc_auc_ovo"] == ev["roc_auc_ovo"]
    for k in (1, 2):
        expected = sk.top_k_accuracy_score(y_true, matrix, k=k, labels=LABELS)
        assert ev.value("top_k_accuracy", k=k) == one.value("top_k_accuracy", k=k) == expected
    predicted = np.array(LABELS)[matrix.argmax(axis=1)]
    assert ev["accuracy"] == (predicted == y_true).mean()
    reason = "the scores are no probabilities, as probabilities=False says, and log loss needs them"
    assert ev["log_loss"].reason == reason
    for name in METRICS:
        if "multiclass" in METRICS[name].tasks and "calibration" in name:
            assert math.isnan(ev[name])
    assert one.interval("roc_auc_ovr").defined
    assert not one.interval("log_loss").defined
    again = se.from_bytes(ev.to_bytes())
    assert again.to_bytes() == ev.to_bytes()
    assert again["roc_auc_ovr"] == ev["roc_auc_ovr"]


def test_wrong_scores_are_refused() -> None:
    ev = se.Evaluator("multiclass", labels=LABELS, probabilities=False)
    score = {"ant": -1.0, "bee": 0.0, "cow": 3.0}
    for call, message in (
        (lambda: ev.update("ant", score={**score, "ant": math.nan}), "score: expected a finite"),
        (lambda: ev.update("ant", score=2.0), "score: expected a mapping label -> number"),
        (lambda: ev.update_many(["ant"], score={"ant": [1.0]}), "score of every label"),
        (lambda: ev.update_many(["ant"] * 2, score=[score, {"ant": 1}]), r"score\[1\]: expected a"),
        (lambda: ev.update_many(["ant"], score=[[1.0, 2.0]]), "a column for each of labels="),
        (lambda: ev.merge(se.Evaluator("multiclass", labels=LABELS)), "probabilities"),
    ):
        with pytest.raises(se.StreamevalError, match=message):
            call()
    assert ev.confusion.total == 0
    usual = se.Evaluator("multiclass", labels=LABELS)
    with pytest.raises(se.InputError, match="or probabilities=False to the Evaluator"):
        usual.update("ant", score=score)
    for left, right in ((ClassScores, ClassScores), (ClassProbabilitySums, ClassProbabilitySums)):
        with pytest.raises(se.StateError, match="with probabilities=True, got False"):
            left().merge(right(probabilities=False))
