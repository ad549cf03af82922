"""Multi-class AUC and top-k accuracy against scikit-learn and pair-by-pair counts."""

from __future__ import annotations

import json
import math
import warnings
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sk
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.errors import MetricError
from streameval.metrics.multiclass import roc_auc_micro, roc_auc_ovo, roc_auc_ovr, roc_auc_pairs
from streameval.metrics.probability import top_k_accuracy
from streameval.metrics.registry import ROWS
from streameval.states.class_probability import ClassProbabilitySums
from streameval.states.class_scores import ClassScores
from tests.support.class_batch import class_batch

LABELS = ["ant", "bee", "cow"]
Events = tuple[list[str], Any, list[int]]


@st.composite
def class_events(draw: st.DrawFn, every_class: bool = True) -> Events:
    """(true labels, matrix whose rows add up to 1, weights) over three labels."""
    rest = st.lists(st.sampled_from(LABELS), min_size=1, max_size=15)
    y_true = (LABELS if every_class else []) + draw(rest)
    parts = st.tuples(*[st.integers(0, 4)] * 3).filter(any)
    matrix = np.array([draw(parts) for _ in y_true], dtype=np.float64)
    weight = draw(st.lists(st.integers(1, 4), min_size=len(y_true), max_size=len(y_true)))
    return y_true, matrix / matrix.sum(axis=1, keepdims=True), weight


def scores_of(y_true: list[str], matrix: Any, weight: list[Any] | None = None) -> ClassScores:
    scores = ClassScores()
    for n, (true, row) in enumerate(zip(y_true, matrix, strict=True)):
        proba = dict(zip(LABELS, row.tolist(), strict=True))
        scores.update(true, proba, 1 if weight is None else weight[n])
    return scores


def auc_of_pair(events: Events, c: str, j: str) -> Fraction:
    """A(c | j): pairs of an event of c and one of j, in column c."""
    y_true, matrix, weight = events
    column = matrix[:, LABELS.index(c)].tolist()
    rows = list(zip(y_true, column, weight, strict=True))
    wins, pairs = Fraction(0), 0
    for true, score, w in rows:
        for other, below, v in rows:
            if true == c and other == j:
                wins += w * v * (Fraction(score > below) + Fraction(score == below) / 2)
                pairs += w * v
    return wins / pairs


@settings(max_examples=30)
@given(class_events())
def test_one_vs_rest_equals_scikit_learn(events: Events) -> None:
    y_true, matrix, weight = events
    scores = scores_of(*events)
    options = {"multi_class": "ovr", "labels": LABELS, "sample_weight": weight}
    for ours, average in (
        (roc_auc_ovr(scores), "macro"),
        (roc_auc_ovr(scores, average="weighted"), "weighted"),
        (roc_auc_micro(scores), "micro"),
    ):
        expected = sk.roc_auc_score(y_true, matrix, average=average, **options)
        assert ours == pytest.approx(expected, abs=1e-12)
    each = sk.roc_auc_score(y_true, matrix, average=None, **options)
    assert list(roc_auc_ovr(scores, average=None)) == LABELS
    assert list(roc_auc_ovr(scores, average=None).values()) == pytest.approx(each, abs=1e-12)


@settings(max_examples=25)
@given(class_events())
def test_one_vs_one_equals_scikit_learn(events: Events) -> None:
    y_true, matrix, _ = events
    scores = scores_of(y_true, matrix)  # scikit-learn takes no weights here
    for average in ("macro", "weighted"):
        expected = sk.roc_auc_score(
            y_true, matrix, multi_class="ovo", average=average, labels=LABELS
        )
        assert roc_auc_ovo(scores, average=average) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=40)
@given(class_events())
def test_one_vs_one_is_the_mean_over_unordered_pairs(events: Events) -> None:
    y_true, _, weight = events
    scores = scores_of(*events)
    table = roc_auc_pairs(scores)
    assert table.labels == LABELS
    values, shares = [], []
    for c, j in combinations(LABELS, 2):
        both = auc_of_pair(events, c, j), auc_of_pair(events, j, c)
        cell = LABELS.index(c), LABELS.index(j)
        assert (table.auc[cell], table.auc[cell[::-1]]) == (float(both[0]), float(both[1]))
        values.append(sum(both, Fraction(0)) / 2)
        shares.append(sum(w for true, w in zip(y_true, weight, strict=True) if true in (c, j)))
    assert roc_auc_ovo(scores) == pytest.approx(float(sum(values) / 3), abs=1e-15)
    weighted = sum(v * s for v, s in zip(values, shares, strict=True)) / sum(shares)
    assert roc_auc_ovo(scores, average="weighted") == pytest.approx(float(weighted), abs=1e-15)
    assert np.isnan(np.diag(table.auc)).all()


def test_a_perfect_ranking_is_one() -> None:
    scores = scores_of(LABELS, np.eye(3))
    for value in (roc_auc_ovo(scores), roc_auc_ovr(scores), roc_auc_micro(scores)):
        assert value == 1
    assert roc_auc_ovo(scores, average="weighted") == 1


@settings(max_examples=25)
@given(class_events(every_class=False), st.randoms())
def test_neither_order_nor_merging_changes_a_bit(events: Events, random: Any) -> None:
    rows = list(zip(*events, strict=True))
    shuffled = random.sample(rows, len(rows))
    merged = ClassScores()
    for part in (shuffled[: len(rows) // 2], shuffled[len(rows) // 2 :]):
        if part:
            merged.merge(scores_of(*zip(*part, strict=True)))
    whole = scores_of(*events)
    for row in ROWS:
        if row.state == "class_scores":
            assert repr(row.function(merged)) == repr(row.function(whole))


@settings(max_examples=25)
@given(class_events())
def test_fractional_weights_only_scale(events: Events) -> None:
    y_true, matrix, weight = events
    whole = scores_of(*events)
    scaled = scores_of(y_true, matrix, [w * 0.3 for w in weight])
    for row in ROWS:
        if row.state == "class_scores":
            assert row.function(scaled) == pytest.approx(row.function(whole), rel=1e-9)
            assert row.function(scaled, undefined=0.0) == pytest.approx(
                row.function(whole, undefined=0.0), rel=1e-9
            )


def test_products_pass_int64_unharmed() -> None:
    matrix = np.array([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25], [0.25, 0.25, 0.5], [0, 1, 0]])
    y_true = ["ant", "bee", "cow", "bee"]
    small, huge = scores_of(y_true, matrix), scores_of(y_true, matrix, [2**42] * 4)
    for row in ROWS:
        if row.state == "class_scores":
            assert row.function(huge) == row.function(small)


@pytest.mark.parametrize("metric", [roc_auc_ovr, roc_auc_ovo, roc_auc_micro])
def test_undefined_says_why(metric: Any) -> None:
    assert metric(ClassScores()).reason == "no event has been counted yet"
    assert metric(ClassScores(), undefined=0.5) == 0.5
    one = ClassScores()
    one.update("ant", {"ant": 1.0})
    assert metric(one).reason == "every event is truly 'ant'"
    assert metric(one, undefined=0.25) == 0.25


def test_classes_without_auc_are_left_out_or_count_as_the_number_given() -> None:
    # Nothing is truly a cow.
    matrix = np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.75, 0.25, 0]])
    scores = scores_of(["ant", "bee", "bee"], matrix)
    each = roc_auc_ovr(scores, average=None)
    assert {k: v for k, v in each.items() if v == v} == {"ant": 0.5, "bee": 0.75}
    assert each["cow"].reason == "no event is truly 'cow'"
    assert roc_auc_ovr(scores, average=None, undefined=1)["cow"] == 1
    assert roc_auc_ovr(scores) == 0.625
    assert roc_auc_ovr(scores, undefined=0.0) == pytest.approx(1.25 / 3, abs=1e-15)
    assert roc_auc_ovr(scores, average="weighted", undefined=0.0) == pytest.approx(2 / 3)
    assert roc_auc_ovo(scores) == 0.625
    assert roc_auc_ovo(scores, undefined=0.0) == pytest.approx(0.625 / 3, abs=1e-15)
    assert math.isnan(roc_auc_pairs(scores).auc[0, 2])


def test_the_number_given_counts_with_fractional_weights_too() -> None:
    matrix = np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.75, 0.25, 0]])
    scores = scores_of(["ant", "bee", "bee"], matrix, [0.3, 0.3, 0.3])
    assert roc_auc_ovr(scores) == pytest.approx(0.625)
    assert roc_auc_ovr(scores, undefined=1.0) == pytest.approx(2.25 / 3)
    assert roc_auc_ovo(scores, undefined=1.0) == pytest.approx(2.625 / 3)


def test_the_table_of_pairs_is_json() -> None:
    record = roc_auc_pairs(scores_of(LABELS, np.eye(3))).to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["auc"][0] == [None, 1.0, 1.0]


def test_unknown_average() -> None:
    with pytest.raises(MetricError, match="average: expected 'macro', 'weighted' or None, got"):
        roc_auc_ovr(ClassScores(), average="micro")  # type: ignore[call-overload]
    with pytest.raises(MetricError, match="average: expected 'macro' or 'weighted', got None"):
        roc_auc_ovo(ClassScores(), average=None)  # type: ignore[arg-type]


@settings(max_examples=60)
@given(class_events(every_class=False), st.integers(1, 3))
def test_top_k_equals_scikit_learn(events: Events, k: int) -> None:
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


def test_top_k_without_events_or_with_a_bad_k() -> None:
    assert top_k_accuracy(ClassProbabilitySums(), 1).reason == "no event has been counted yet"
    assert top_k_accuracy(ClassProbabilitySums(), 1, undefined=0.0) == 0
    for k in (0, 1.0, True, "2", None):
        with pytest.raises(MetricError, match="k: expected a whole number above 0, got"):
            top_k_accuracy(ClassProbabilitySums(), k)  # type: ignore[arg-type]
