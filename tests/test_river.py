"""RiverMetric inside River: its numbers are scikit-learn's, prefix by prefix."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from river import datasets, evaluate, linear_model, metrics, naive_bayes, preprocessing, utils
from sklearn import metrics as reference

from streameval.integrations.river import RiverMetric


def events(seed: int, count: int = 150) -> list[tuple[bool, float]]:
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        label = draw.random() < 0.3
        rows.append((label, round(min(1.0, max(0.0, draw.gauss(0.6 if label else 0.4, 0.2))), 2)))
    return rows


def assert_close(got: float, want: float) -> None:
    if math.isnan(want):
        assert math.isnan(got)
    else:
        assert got == pytest.approx(want, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_scores_prefix_by_prefix(seed: int) -> None:
    auc, loss, precision = (
        RiverMetric("roc_auc"),
        RiverMetric("log_loss"),
        RiverMetric("average_precision"),
    )
    labels: list[bool] = []
    scores: list[float] = []
    for label, score in events(seed):
        for metric in (auc, loss, precision):
            metric.update(label, {True: score, False: 1 - score})
        labels.append(label)
        scores.append(score)
        assert_close(loss.get(), reference.log_loss(labels, scores, labels=[False, True]))
        if len(set(labels)) == 2:
            assert_close(auc.get(), reference.roc_auc_score(labels, scores))
            assert_close(precision.get(), reference.average_precision_score(labels, scores))
        else:
            assert math.isnan(auc.get())


def test_string_labels_prefix_by_prefix() -> None:
    draw = random.Random(7)
    f1, kappa = RiverMetric("f1_macro"), RiverMetric("cohen_kappa")
    spam = RiverMetric("f1", positive="spam")
    true: list[str] = []
    predicted: list[str] = []
    for _ in range(200):
        true.append(draw.choice(["spam", "ham"]))
        predicted.append(draw.choice(["spam", "ham"]))
        for metric in (f1, kappa, spam):
            metric.update(true[-1], predicted[-1])
        want = reference.f1_score(true, predicted, average="macro", zero_division=math.nan)
        assert_close(f1.get(), want)
        assert_close(
            spam.get(),
            reference.f1_score(true, predicted, pos_label="spam", zero_division=math.nan),
        )
        if len(set(true) | set(predicted)) > 1:
            assert_close(kappa.get(), reference.cohen_kappa_score(true, predicted))


def test_progressive_validation_beside_river() -> None:
    model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    both = RiverMetric("roc_auc") + RiverMetric("accuracy") + metrics.Accuracy()
    result = evaluate.progressive_val_score(datasets.Phishing().take(300), model, both)
    auc, ours, theirs = result.get()
    assert 0.5 < auc <= 1.0
    assert ours == theirs
    assert "roc_auc: " in repr(result)


def test_multi_class_probabilities_in_progressive_validation() -> None:
    model = preprocessing.StandardScaler() | naive_bayes.GaussianNB()
    result = evaluate.progressive_val_score(
        datasets.ImageSegments().take(200), model, RiverMetric("log_loss", task="multiclass")
    )
    assert result.get() > 0
    assert not result.bigger_is_better


def test_rolling_equals_scikit_learn_on_the_window() -> None:
    rows = events(11, 300)
    rolling = utils.Rolling(RiverMetric, window_size=50, name="roc_auc")
    for n, (label, score) in enumerate(rows, 1):
        rolling.update(label, score)
        labels, scores = zip(*rows[max(0, n - 50) : n], strict=True)
        if len(set(labels)) == 2:
            assert_close(rolling.get(), reference.roc_auc_score(labels, scores))


def test_revert_is_exact() -> None:
    metric = RiverMetric("roc_auc")
    rows = events(3, 60)
    for label, score in rows:
        metric.update(label, score, w=2)
    before = metric.get()
    metric.update(True, 0.123)
    metric.revert(True, 0.123)
    assert metric.get() == before


def test_clone_starts_afresh_with_the_same_options() -> None:
    metric = RiverMetric("f1", positive="spam")
    metric.update("spam", "spam")
    twin = metric.clone()
    assert twin.name == "f1"
    assert twin.evaluator_options == {"positive": "spam"}
    assert math.isnan(twin.get())


def test_exact_where_river_approximates() -> None:
    draw = random.Random(0)
    exact, binned = RiverMetric("roc_auc"), metrics.ROCAUC()
    labels, scores = [], []
    for _ in range(3000):
        label = draw.random() < 0.01
        score = min(1.0, max(0.0, draw.gauss(0.03 if label else 0.02, 0.005)))
        labels.append(label)
        scores.append(score)
        exact.update(label, score)
        binned.update(label, score)
    truth = reference.roc_auc_score(labels, scores)
    assert_close(exact.get(), truth)
    assert abs(binned.get() - truth) > 0.1


@pytest.mark.parametrize(
    ("name", "labels", "better"),
    [("roc_auc", False, True), ("f1_macro", True, True), ("log_loss", False, False)],
)
def test_what_river_asks(name: str, labels: bool, better: bool) -> None:
    metric = RiverMetric(name)
    assert metric.requires_labels is labels
    assert metric.bigger_is_better is better
    model: Any = linear_model.LogisticRegression()
    assert metric.works_with(model)
