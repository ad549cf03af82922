"""One event at a time with a read after each: against River."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from river import metrics as river_metrics
from sklearn.metrics import roc_auc_score

import streameval as se
from benchmarks.timing import Row, faster

SIX = (
    "accuracy",
    "precision_macro",
    "recall_macro",
    "f1_macro",
    "matthews_corrcoef",
    "cohen_kappa",
)


def running_auc(distinct: int, events: int, repeats: int) -> Row:
    """AUC of an evaluator after every event, which has seen so many distinct scores."""
    labels, scores, fresh = _scored(distinct, events)
    ev = se.Evaluator()
    ev.update_many(labels, score=scores)

    def ours() -> None:
        update = ev.update
        for label, score in fresh:
            update(label, score=score)
            ev["roc_auc"]

    return faster(
        f"AUC after every event, {distinct:,} distinct scores ({se.backend()})",
        ours,
        river_auc(fresh),
        target=35,
        repeats=repeats,
        peer_name="River ROCAUC()",
        events=events,
        peer_exact=river_error(),
    )


def river_auc(events: list[tuple[bool, float]]) -> Callable[[], None]:
    """River's running AUC, updated with each of these events and read."""
    binned = river_metrics.ROCAUC()

    def run() -> None:
        for label, score in events:
            binned.update(label, score)
            binned.get()

    return run


def _scored(distinct: int, events: int) -> tuple[Any, Any, list[tuple[bool, float]]]:
    rng = np.random.default_rng(5)
    labels, scores = rng.random(distinct) < 0.5, rng.random(distinct)
    fresh = zip(rng.random(events) < 0.5, rng.random(events), strict=True)
    return labels, scores, [(bool(label), float(score)) for label, score in fresh]


def index_auc(
    distinct: int, events: int, repeats: int, index_class: type, name: str, target: float | None
) -> Row:
    """The same of the index alone, without an evaluator."""
    labels, scores, fresh = _scored(distinct, events)
    index = index_class()
    index.update_many(labels, scores)
    read = se.metrics.roc_auc
    read(index)

    def ours() -> None:
        for label, score in fresh:
            index.update(label, score)
            read(index)

    return faster(
        f"AUC after every event, {distinct:,} distinct scores: ScoreIndex ({name})",
        ours,
        river_auc(fresh),
        target=target,
        repeats=repeats,
        peer_name="River ROCAUC()",
        events=events,
        peer_exact=river_error(),
    )


def river_error() -> str:
    """How far River's running AUC is from the truth on a rare class, in words."""
    draw = random.Random(0)
    binned, labels, scores = river_metrics.ROCAUC(), [], []
    for _ in range(20_000):
        label = draw.random() < 0.01
        score = min(1.0, max(0.0, draw.gauss(0.03 if label else 0.02, 0.005)))
        labels.append(label)
        scores.append(score)
        binned.update(label, score)
    return f"ten thresholds: {binned.get():.3f} where {roc_auc_score(labels, scores):.3f} is true"


def six_metrics(classes: int, events: int, repeats: int, target: float) -> Row:
    """Six label metrics read after every event."""
    rng = np.random.default_rng(6)
    true = rng.integers(0, classes, events)
    predicted = np.where(rng.random(events) < 0.7, true, rng.integers(0, classes, events))
    pairs = list(zip(true.tolist(), predicted.tolist(), strict=True))

    def ours() -> None:
        ev = se.Evaluator(task="multiclass")
        ev.update_many(list(range(classes)), list(range(classes)))
        update = ev.update
        for y_true, y_pred in pairs:
            update(y_true, y_pred)
            for name in SIX:
                ev[name]

    def peer() -> None:
        shared = river_metrics.ConfusionMatrix()
        kinds: list[Callable[..., river_metrics.base.ClassificationMetric]] = [
            river_metrics.Accuracy,
            river_metrics.MacroPrecision,
            river_metrics.MacroRecall,
            river_metrics.MacroF1,
            river_metrics.MCC,
            river_metrics.CohenKappa,
        ]
        if classes > 3:
            kinds.remove(river_metrics.MCC)  # River's is for two classes
        six = [kind(cm=shared) for kind in kinds]
        for label in range(classes):
            shared.update(label, label)
        for y_true, y_pred in pairs:
            shared.update(y_true, y_pred)
            for metric in six:
                metric.get()

    return faster(
        f"six label metrics read after every event, {classes:,} classes",
        ours,
        peer,
        target=target,
        repeats=repeats,
        peer_name="River, sharing one confusion matrix",
        events=events,
    )


def evaluator_set(events: int, repeats: int) -> Row:
    """A binary evaluator fed with scores; five metrics read after every event."""
    names = ("accuracy", "f1_macro", "matthews_corrcoef", "cohen_kappa", "roc_auc")
    rng = np.random.default_rng(7)
    truth = rng.random(events) < 0.3
    scores = np.where(truth, rng.beta(3, 2, events), rng.beta(2, 3, events))
    stream = list(zip(truth.tolist(), scores.tolist(), strict=True))

    def ours() -> None:
        ev = se.Evaluator()
        update = ev.update
        for label, score in stream:
            update(label, score=score)
            for name in names:
                ev[name]

    def peer() -> None:
        shared, ranking = river_metrics.ConfusionMatrix(), river_metrics.ROCAUC()
        kinds: list[Callable[..., river_metrics.base.ClassificationMetric]] = [
            river_metrics.Accuracy,
            river_metrics.MacroF1,
            river_metrics.MCC,
            river_metrics.CohenKappa,
        ]
        of_labels = [kind(cm=shared) for kind in kinds]
        for label, score in stream:
            shared.update(label, score >= 0.5)
            ranking.update(label, score)
            for metric in of_labels:
                metric.get()
            ranking.get()

    return faster(
        f"evaluator with scores, five metrics read after every event ({se.backend()})",
        ours,
        peer,
        target=12,
        repeats=repeats,
        peer_name="River, sharing one confusion matrix, and ROCAUC()",
        events=events,
        peer_exact=f"all but AUC, which has {river_error()}",
    )


def numbers(events: int, repeats: int) -> Row:
    """A regression; MAE, RMSE and R² read after every event."""
    names = ("mean_absolute_error", "root_mean_squared_error", "r2")
    rng = np.random.default_rng(7)
    true = rng.normal(100, 10, events)
    stream = list(zip(true.tolist(), (true + rng.normal(size=events)).tolist(), strict=True))

    def ours() -> None:
        ev = se.Evaluator(task="regression", metrics=names)
        update = ev.update
        for pair in stream:
            update(*pair)
            for name in names:
                ev[name]

    def peer() -> None:
        found = [river_metrics.MAE(), river_metrics.RMSE(), river_metrics.R2()]
        for pair in stream:
            for metric in found:
                metric.update(*pair)
                metric.get()

    return faster(
        f"regression, MAE, RMSE and R² read after every event ({se.backend()})",
        ours,
        peer,
        target=5,
        repeats=repeats,
        peer_name="River",
        events=events,
    )
