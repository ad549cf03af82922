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

import streameval as se
from streameval.errors import MetricError
from streameval.metrics.multiclass import roc_auc_micro, roc_auc_ovo, roc_auc_ovr, roc_auc_pairs
from streameval.metrics.probability import top_k_accuracy
from streameval.states.class_probability import ClassProbabilitySums
from streameval.states.class_scores import ClassScores
from streameval.uncertainty.multiclass_auc import CLASS_AUCS
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


def auc_of_pair(events: ClassEvents, c: str, j: str) -> Fraction:
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


@settings(max_examples=40)
@given(class_events(LABELS))
def test_one_vs_one_is_the_mean_over_unordered_pairs(events: ClassEvents) -> None:
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
    whole, last, left, bounded = (
        se.Evaluator("multiclass", **more, **options)
        for more in ({}, {"window": se.Last(7)}, {}, {"max_scores": 1024})
    )
    sides = [{"side": ("even", "odd")[n % 2]} for n in range(60)]
    for n, (y, row) in enumerate(zip(true, matrix.tolist(), strict=True)):
        proba = {name: share for name, share in zip(DECLARED, row, strict=True) if share}
        last.update(y, proba=proba, slices=sides[n])
        (whole if n < 30 else left).update(y, proba=proba, weight=weight[n], slices=sides[n])
    bounded.update_many(
        true, proba=matrix, weight=weight, slices={"side": [one["side"] for one in sides]}
    )
    whole.merge(left)
    even = np.arange(60) % 2 == 0
    for ev in (whole, se.from_bytes(whole.to_bytes()), whole.copy(), bounded):
        assert_micro(ev, true, matrix, weight)
        assert_micro(
            ev.slices()[(("side", "even"),)],
            [y for y, kept in zip(true, even, strict=True) if kept],
            matrix[even],
            weight[even],
        )
    assert_micro(last, true[-7:], matrix[-7:])


def test_micro_averages_of_a_fading_window_and_of_cells_pool_declared_classes() -> None:
    rng = np.random.default_rng(24)
    true, matrix = declared_events(rng, 3000)
    fading = se.Evaluator("multiclass", labels=DECLARED, window=se.Fading(8), intervals=True)
    fading.update_many(true[:60], proba=matrix[:60])
    assert_micro(fading, true[:60], matrix[:60], 2.0 ** (np.arange(-59, 1) / 8))
    fine = rng.dirichlet([1, 1, 1], 3000)
    matrix[:, [1, 2, 4]] = fine
    exact, coarse = (
        se.Evaluator("multiclass", labels=DECLARED, max_scores=limit) for limit in (None, 1024)
    )
    for ev in (exact, coarse):
        ev.update_many(true, proba=matrix)
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
    state = ClassScores(declared=("a", "b", "c"))
    state.update("a", {"a": 0.6, "b": 0.4})
    state.update("b", {"a": 0.7, "b": 0.3})
    (pooled,) = CLASS_AUCS["roc_auc_micro"](state).aucs
    assert pooled.value == 0.625


@pytest.mark.parametrize("metric", [roc_auc_ovr, roc_auc_ovo, roc_auc_micro])
def test_undefined_says_why(metric: Any) -> None:
    one = ClassScores()
    one.update("ant", {"ant": 1.0})
    assert metric(one).reason == "every event is truly 'ant'"
    assert metric(one, undefined=0.25) == 0.25


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


def test_top_k_without_events_or_with_a_bad_k() -> None:
    assert top_k_accuracy(ClassProbabilitySums(), 1).reason == "no event has been counted yet"
    assert top_k_accuracy(ClassProbabilitySums(), 1, undefined=0.0) == 0
    for k in (0, 1.0, True, "2", None):
        with pytest.raises(MetricError, match="k: expected a whole number above 0, got"):
            top_k_accuracy(ClassProbabilitySums(), k)  # type: ignore[arg-type]


def share_won(own: list[tuple[float, Fraction]], other: list[tuple[float, Fraction]]) -> Fraction:
    won = sum(w * v * (Fraction(s > t) + Fraction(s == t) / 2) for s, w in own for t, v in other)
    return won / (sum(w for _, w in own) * sum(v for _, v in other))


@pytest.mark.parametrize("seed", range(4))
def test_areas_of_fractional_weights_of_any_spread_are_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spread = (1, 9, 12, 15)[seed % 4]
    true = [0, 1, 2, *rng.integers(0, 3, 15).tolist()]
    matrix = np.array([rng.permutation([0.0, 0.25, 0.75]) for _ in true])
    matrix[rng.random(len(true)) < 0.3] = [0.5, 0.5, 0.0]
    weight = 10 ** rng.uniform(-spread, 0, len(true))
    if seed % 3:
        # One class that outweighs all others.
        weight *= np.array([2.0**50, 1.0, 1e-3])[true]
    exact = [Fraction(w) for w in weight.tolist()]
    rows = list(zip(matrix.tolist(), true, exact, strict=True))

    def column(c: int, *classes: int) -> list[tuple[float, Fraction]]:
        return [(row[c], w) for row, y, w in rows if y in classes]

    rest = {0: (1, 2), 1: (0, 2), 2: (0, 1)}
    over_rest = [share_won(column(c, c), column(c, *rest[c])) for c in rest]
    pairs = [share_won(column(c, c), column(c, j)) for c in rest for j in rest[c]]
    own = [part for c in rest for part in column(c, c)]
    others = [part for c in rest for part in column(c, *rest[c])]
    counts = [sum((w for _, w in column(c, c)), Fraction(0)) for c in rest]
    weighted = sum(w * a for w, a in zip(counts, over_rest, strict=True)) / sum(counts)
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
        each = list(roc_auc_ovr(scores, average=None).values())
        assert each == pytest.approx(list(map(float, over_rest)), abs=1e-13)
        assert roc_auc_ovr(scores, average="weighted") == pytest.approx(float(weighted), abs=1e-13)
        assert roc_auc_ovo(scores) == pytest.approx(float(sum(pairs) / 6), abs=1e-13)
        assert roc_auc_micro(scores) == pytest.approx(float(share_won(own, others)), abs=1e-13)


@settings(max_examples=40)
@given(st.lists(st.floats(1e-9, 1e9).filter(lambda w: w % 1), min_size=3, max_size=9))
def test_a_perfect_ranking_is_one_whatever_the_weights(weights: list[float]) -> None:
    true = [LABELS[n % 3] for n in range(len(weights))]
    scores = scores_of(true, np.eye(3)[[LABELS.index(y) for y in true]], weights)
    for metric in (roc_auc_ovr, roc_auc_ovo):
        assert metric(scores) == metric(scores, average="weighted") == 1
    assert roc_auc_micro(scores) == 1
    assert set(roc_auc_ovr(scores, average=None).values()) == {1.0}
