"""Multi-class AUC and top-k accuracy against scikit-learn and pair-by-pair counts."""

from __future__ import annotations

import json
import math
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sk
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import label_binarize

import streameval as se
from streameval import metrics
from streameval.errors import MetricError
from streameval.metrics.multiclass import roc_auc_micro, roc_auc_ovo, roc_auc_ovr, roc_auc_pairs
from streameval.metrics.probability import top_k_accuracy
from streameval.states.class_probability import ClassProbabilitySums
from streameval.states.class_scores import ClassScores
from streameval.states.confusion import ConfusionCounts
from tests.support.class_batch import ClassEvents, class_batch, class_events

LABELS = ["ant", "bee", "cow"]


def scores_of(
    y_true: list[str], matrix: Any, weight: list[Any] | None = None, *, probabilities: bool = True
) -> ClassScores:
    scores = ClassScores(probabilities=probabilities)
    for n, (true, row) in enumerate(zip(y_true, matrix, strict=True)):
        proba = dict(zip(LABELS, row.tolist(), strict=True))
        scores.update(true, proba, 1 if weight is None else weight[n])
    return scores


DECLARED = ("ape", "bee", "cow", "dog", "elk")
"""Of which the events below never name the first, and give 0 to ``dog``."""


def declared_events(rng: Any, n: int) -> tuple[list[str], Any]:
    matrix = rng.dirichlet([1, 1, 1, 1, 1], n) * [0, 1, 1, 0, 1]
    matrix = np.round(matrix / matrix.sum(axis=1, keepdims=True) * 8) / 8
    matrix[:, 4] = 1 - matrix[:, 1] - matrix[:, 2]
    return rng.choice(["bee", "cow"], n).tolist(), matrix


def assert_micro(view: Any, true: list[str], matrix: Any, weight: Any = None) -> None:
    hits = np.array([[label == y for label in DECLARED] for y in true]).ravel()
    weights = None if weight is None else np.repeat(weight, len(DECLARED))
    auc = sk.roc_auc_score(hits, matrix.ravel(), sample_weight=weights)
    precision = sk.average_precision_score(hits, matrix.ravel(), sample_weight=weights)
    near = {"rel": 1e-9 if weight is not None else 1e-12}
    assert view["roc_auc_micro"] == pytest.approx(auc, **near)
    assert view["average_precision_micro"] == pytest.approx(precision, **near)
    roc = view.curve("roc_ovr", average="micro")
    assert np.trapezoid(roc.tpr, roc.fpr) == pytest.approx(auc, **near)
    found = view.interval("roc_auc_micro")
    assert found.low < found.value < found.high


@pytest.mark.parametrize("kind", ["whole", "fractions"])
def test_micro_averages_pool_declared_classes_whose_columns_are_empty(kind: str) -> None:
    rng = np.random.default_rng(23)
    true, matrix = declared_events(rng, 60)
    weight = rng.integers(1, 5, 60) if kind == "whole" else rng.random(60) + 0.1
    options: dict[str, Any] = {"labels": DECLARED, "intervals": True, "slices": ("side",)}
    whole, left, last, fading, bounded = (
        se.Evaluator("multiclass", **more, **options)
        for more in ({}, {}, {"window": se.Last(7)}, {"window": se.Fading(8)}, {"max_scores": 1024})
    )
    even = np.arange(60) % 2 == 0
    for n, (y, row) in enumerate(zip(true, matrix.tolist(), strict=True)):
        proba = {name: share for name, share in zip(DECLARED, row, strict=True) if share}
        side = {"side": bool(even[n])}
        for ev, by in ((last, 1), (fading, 1), (whole if n < 30 else left, weight[n])):
            ev.update(y, proba=proba, weight=by, slices=side)
    bounded.update_many(true, proba=matrix, weight=weight, slices={"side": even.tolist()})
    whole.merge(left)
    for ev in (whole, se.from_bytes(whole.to_bytes()), whole.copy(), bounded):
        assert_micro(ev, true, matrix, weight)
        some = np.array(true)[even].tolist()
        assert_micro(ev.slices()[(("side", True),)], some, matrix[even], weight[even])
    assert_micro(last, true[-7:], matrix[-7:])
    assert_micro(fading, true, matrix, 2.0 ** (np.arange(-59, 1) / 8))


def test_bounds_of_a_micro_average_pool_declared_classes() -> None:
    rng = np.random.default_rng(24)
    true, matrix = declared_events(rng, 3000)
    matrix[:, [1, 2, 4]] = rng.dirichlet([1, 1, 1], 3000)
    exact, coarse = (
        se.Evaluator("multiclass", labels=DECLARED, max_scores=limit).update_many(
            true, proba=matrix
        )
        for limit in (None, 1024)
    )
    bounds = coarse.bounds("roc_auc_micro")
    assert bounds.low <= exact["roc_auc_micro"] <= bounds.high
    assert bounds.width < 0.02


def test_a_label_named_with_0_only_is_a_class_where_it_is_declared() -> None:
    rows = {"a": [0.6, 0.7], "b": [0.4, 0.3], "c": [0.0, 0.0]}
    found, declared = se.Evaluator("multiclass"), se.Evaluator("multiclass", labels=list("abc"))
    for ev in (found, declared):
        ev.update_many(["a", "b"], proba=rows)
    assert (found["roc_auc_micro"], declared["roc_auc_micro"]) == (0.25, 0.625)
    assert list(declared.value("roc_auc_ovr", average=None)) == ["a", "b", "c"]
    assert declared.value("roc_auc_ovr", undefined=0.75) == 0.25


@pytest.mark.parametrize("weight", [1, 0.3])
def test_classes_without_auc_are_left_out_or_count_as_the_number_given(weight: float) -> None:
    # Nothing is truly a cow.
    matrix = np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.75, 0.25, 0]])
    scores = scores_of(["ant", "bee", "bee"], matrix, [weight] * 3)
    each = roc_auc_ovr(scores, average=None)
    assert (each["ant"], each["bee"]) == pytest.approx((0.5, 0.75))
    assert each["cow"].reason == "no event is truly 'cow'"
    assert roc_auc_ovr(scores, average=None, undefined=1)["cow"] == 1
    assert roc_auc_ovr(scores) == roc_auc_ovo(scores) == pytest.approx(0.625)
    assert roc_auc_ovr(scores, undefined=0.0) == pytest.approx(1.25 / 3, abs=1e-15)
    assert roc_auc_ovr(scores, average="weighted", undefined=0.0) == pytest.approx(2 / 3)
    assert roc_auc_ovo(scores, undefined=0.0) == pytest.approx(0.625 / 3, abs=1e-15)
    assert math.isnan(roc_auc_pairs(scores).auc[0, 2])
    assert scores.pair_wins("ant", "bee") == pytest.approx(2 * weight**2)


def test_the_table_of_pairs_is_json() -> None:
    record = roc_auc_pairs(scores_of(LABELS, np.eye(3))).to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["auc"][0] == [None, 1.0, 1.0]


def test_options_are_explained() -> None:
    scores: Any = ClassScores()
    for function, options, message in (
        (roc_auc_ovr, {"average": "micro"}, "average: expected 'macro', 'weighted' or None, got"),
        (roc_auc_ovo, {"average": None}, "average: expected 'macro' or 'weighted', got None"),
        (metrics.roc_curve_ovr, {"average": "samples"}, "average: expected 'macro', 'micro', 'wei"),
    ):
        with pytest.raises(MetricError, match=message):
            function(scores, **options)
    with pytest.raises(MetricError, match="k: expected a whole number above 0"):
        top_k_accuracy(ClassProbabilitySums(), 0)


@settings(max_examples=60)
@given(class_events(LABELS, every_class=False), st.integers(1, 3))
def test_top_k_equals_scikit_learn(events: ClassEvents, k: int) -> None:
    y_true, matrix, weight = events
    sums = ClassProbabilitySums()
    sums.update_many(class_batch(y_true, matrix, LABELS, weight))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # k = 3 is meaningless, it says
        expected = sk.top_k_accuracy_score(y_true, matrix, k=k, sample_weight=weight, labels=LABELS)
    assert top_k_accuracy(sums, k) == pytest.approx(expected, abs=1e-12)


def test_top_k_of_a_class_that_was_not_named() -> None:
    sums = ClassProbabilitySums()
    sums.update("cow", {"ant": 0.5, "bee": 0.5})
    assert top_k_accuracy(sums, k=100) == 0
    sums.update("ant", {"ant": 0.5, "bee": 0.5}, 0.5)
    assert top_k_accuracy(sums, k=1) == 0
    assert top_k_accuracy(sums, k=2) == pytest.approx(1 / 3)
    assert top_k_accuracy(ClassProbabilitySums(), 1).reason == "no event has been counted yet"
    assert top_k_accuracy(ClassProbabilitySums(), 1, undefined=0.0) == 0


def share_won(own: list[tuple[float, Fraction]], other: list[tuple[float, Fraction]]) -> Fraction:
    won = sum(w * v * (Fraction(s > t) + Fraction(s == t) / 2) for s, w in own for t, v in other)
    return won / (sum(w for _, w in own) * sum(v for _, v in other))


@pytest.mark.parametrize("spread", [0, 1, 9, 12, 15])
@pytest.mark.parametrize("heavy", [1, 2**50])
def test_areas_are_those_of_the_definition(spread: int, heavy: int) -> None:
    """Of whole weights, and of fractions of any spread, also beside a class that outweighs all."""
    rng = np.random.default_rng(spread)
    true = [0, 1, 2, *rng.integers(0, 3, 15).tolist()]
    matrix = np.array([rng.permutation([0.0, 0.25, 0.75]) for _ in true])
    matrix[rng.random(len(true)) < 0.3] = [0.5, 0.5, 0.0]
    weight = 10 ** rng.uniform(-spread, 0, len(true)) if spread else rng.integers(1, 5, len(true))
    weight = weight * np.array([heavy, 1, 1e-3 if spread else 1])[true]
    rows = list(zip(matrix.tolist(), true, map(Fraction, weight.tolist()), strict=True))

    def column(c: int, *classes: int) -> list[tuple[float, Fraction]]:
        return [(row[c], w) for row, y, w in rows if y in classes]

    rest = {0: (1, 2), 1: (0, 2), 2: (0, 1)}
    over_rest = [share_won(column(c, c), column(c, *rest[c])) for c in rest]
    pairs = {(c, j): share_won(column(c, c), column(c, j)) for c in rest for j in rest[c]}
    own = [part for c in rest for part in column(c, c)]
    others = [part for c in rest for part in column(c, *rest[c])]
    counts = [sum((w for _, w in column(c, c)), Fraction(0)) for c in rest]
    by_class = sum(w * a for w, a in zip(counts, over_rest, strict=True)) / sum(counts)
    by_pair = sum(a * (counts[c] + counts[j]) for (c, j), a in pairs.items()) / (4 * sum(counts))
    batch, single = ClassScores(), ClassScores()
    batch.update_many(class_batch(true, matrix, range(3), weight))
    for (row, y, _), w in zip(rows, weight.tolist(), strict=True):
        single.update(y, {c: p for c, p in enumerate(row) if p}, w)
    halves = ClassScores()
    for part in (slice(9), slice(9, None)):
        half = ClassScores()
        half.update_many(class_batch(true[part], matrix[part], range(3), weight[part]))
        halves.merge(half)
    for scores in (batch, single, halves, ClassScores.from_state(halves.to_state())):
        scores._check()
        table = roc_auc_pairs(scores).auc
        assert np.isnan(np.diag(table)).all()
        for cell, area in pairs.items():
            assert table[cell] == pytest.approx(float(area), abs=1e-13 if spread else 0)
        each = list(roc_auc_ovr(scores, average=None).values())
        for value, area in (
            (each, list(map(float, over_rest))),
            (roc_auc_ovr(scores, average="weighted"), float(by_class)),
            (roc_auc_ovo(scores), float(sum(pairs.values()) / 6)),
            (roc_auc_ovo(scores, average="weighted"), float(by_pair)),
            (roc_auc_micro(scores), float(share_won(own, others))),
        ):
            assert value == pytest.approx(area, abs=1e-13 if spread else 1e-15)


@settings(max_examples=40)
@given(st.lists(st.floats(1e-9, 1e9).filter(lambda w: w % 1), min_size=3, max_size=9))
def test_a_perfect_ranking_is_one_whatever_the_weights(weights: list[float]) -> None:
    true = [LABELS[n % 3] for n in range(len(weights))]
    scores = scores_of(true, np.eye(3)[[LABELS.index(y) for y in true]], weights)
    for metric in (roc_auc_ovr, roc_auc_ovo):
        assert metric(scores) == metric(scores, average="weighted") == 1
    assert roc_auc_micro(scores) == 1
    assert set(roc_auc_ovr(scores, average=None).values()) == {1.0}


def test_a_share_of_a_loss_says_what_is_missing() -> None:
    sums, counts = ClassProbabilitySums(), ConfusionCounts()
    sums.update("a", {"a": 0.5, "b": 0.5})
    counts.update("a", "a")
    for metric in (metrics.d2_brier_score, metrics.d2_log_loss_score, metrics.normalized_entropy):
        assert metric(sums, counts).reason == "every event is truly 'a'"
        assert metric(sums, counts, undefined=0.5) == 0.5
    counts.update("b", "a")
    assert metrics.d2_brier_score(sums, counts).reason == "some events have no probabilities"
    with pytest.raises(MetricError, match="compared with ConfusionCounts too"):
        metrics.d2_brier_score(sums)


CLASS = st.sampled_from(LABELS)
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
    rocs = metrics.roc_curve_ovr(scores, average=None)
    curves = metrics.precision_recall_curve_ovr(scores, average=None)
    precisions = metrics.average_precision_ovr(scores, average=None)
    assert list(rocs) == list(curves) == list(precisions) == LABELS
    pooled = metrics.roc_curve_ovr(scores, average="micro")
    pairs = [
        (pooled, sk.roc_curve(truth.ravel(), matrix.ravel(), sample_weight=np.repeat(weight, 3)))
    ]
    for k, label in enumerate(LABELS):
        one = truth[:, k], matrix[:, k]
        expected = sk.average_precision_score(*one, sample_weight=weight)
        assert precisions[label] == pytest.approx(expected, abs=1e-12)
        pairs += [
            (rocs[label], sk.roc_curve(*one, sample_weight=weight)),
            (curves[label], sk.precision_recall_curve(*one, sample_weight=weight)),
        ]
    for ours, theirs in pairs:
        for column, other in zip(ours, theirs, strict=True):
            assert column.tolist() == pytest.approx(other.tolist(), abs=1e-12)
    for average in ("macro", "weighted", "micro"):
        options: Any = {"average": average, "sample_weight": weight}
        mean: Any = {} if average == "micro" else {"average": average}
        names = ("average_precision_micro", "roc_auc_micro")
        if average != "micro":
            names = ("average_precision_ovr", "roc_auc_ovr")
        precision, area = (getattr(metrics, name)(scores, **mean) for name in names)
        expected = sk.average_precision_score(truth, matrix, **options)
        assert precision == pytest.approx(expected, abs=1e-12)
        assert area == pytest.approx(sk.roc_auc_score(truth, matrix, **options), abs=1e-12)
        # The area of the mean is the mean of the areas.
        roc = metrics.roc_curve_ovr(scores, average=average)  # type: ignore[call-overload]
        assert sk.auc(roc.fpr, roc.tpr) == pytest.approx(area, abs=1e-12)
        assert (roc.fpr[0], roc.tpr[0], roc.fpr[-1], roc.tpr[-1]) == (0, 0, 1, 1)
        curve = metrics.precision_recall_curve_ovr(scores, average=average)  # type: ignore[call-overload]
        steps = -np.sum(np.diff(curve.recall) * curve.precision[:-1])
        assert steps == pytest.approx(precision, abs=1e-12)


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


def test_scores_that_are_no_probabilities() -> None:
    rng = np.random.default_rng(8)
    y_true, matrix = rng.choice(LABELS, 60), rng.normal(size=(60, 3)).round(1)
    options: Any = {"task": "multiclass", "labels": LABELS, "probabilities": False}
    ev, one = se.Evaluator(**options), se.Evaluator(**options, intervals=True)
    ev.update_many(y_true, score=matrix)
    for true, row in zip(y_true, matrix.tolist(), strict=True):
        one.update(true, score=dict(zip(LABELS, row, strict=True)))
    for k in (1, 2):
        expected = sk.top_k_accuracy_score(y_true, matrix, k=k, labels=LABELS)
        assert ev.value("top_k_accuracy", k=k) == one.value("top_k_accuracy", k=k) == expected
    assert ev["accuracy"] == (np.array(LABELS)[matrix.argmax(axis=1)] == y_true).mean()
    reason = "the scores are no probabilities, as probabilities=False says, and log loss needs them"
    assert ev["log_loss"].reason == reason
    assert math.isnan(ev["expected_calibration_error"])
    assert one.interval("roc_auc_ovr").defined
    assert not one.interval("log_loss").defined
    for kept in (ev, one):
        again = se.from_bytes(kept.to_bytes())
        assert again.to_bytes() == kept.to_bytes()
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
        (
            lambda: se.Evaluator("multiclass", labels=LABELS).update("ant", score=score),
            "or probabilities=False to the Evaluator",
        ),
        *(
            (
                lambda kind=kind: kind().merge(kind(probabilities=False)),
                "with probabilities=True, got False",
            )
            for kind in (ClassScores, ClassProbabilitySums)
        ),
    ):
        with pytest.raises(se.StreamevalError, match=message):
            call()
    assert ev.confusion.total == 0
