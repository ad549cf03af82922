"""Arrays at once, and merging: against scikit-learn and numpy."""

from __future__ import annotations

import numpy as np
from sklearn import metrics as sklearn_metrics

import streameval as se
from benchmarks.timing import NO_TARGET, Row, faster, interleaved


def five_metrics(events: int, repeats: int) -> Row:
    """``update_many`` and five metrics, against scikit-learn computing the same five."""
    rng = np.random.default_rng(1)
    labels = rng.random(events) < 0.3
    scores = np.clip(rng.normal(np.where(labels, 0.6, 0.4), 0.2), 0.0, 1.0)
    found: dict[str, list[float]] = {}

    def ours() -> None:
        ev = se.Evaluator()
        ev.update_many(labels, score=scores)
        names = ("accuracy", "f1", "matthews_corrcoef", "cohen_kappa", "roc_auc")
        found["ours"] = [ev[name] for name in names]

    def peer() -> None:
        predicted = scores >= 0.5
        found["peer"] = [
            sklearn_metrics.accuracy_score(labels, predicted),
            sklearn_metrics.f1_score(labels, predicted),
            sklearn_metrics.matthews_corrcoef(labels, predicted),
            sklearn_metrics.cohen_kappa_score(labels, predicted),
            sklearn_metrics.roc_auc_score(labels, scores),
        ]

    row = faster(
        f"update_many of {events:,} (label, score), then accuracy, F1, MCC, kappa, AUC",
        ours,
        peer,
        target=8,
        repeats=repeats,
        peer_name="scikit-learn",
    )
    np.testing.assert_allclose(found["ours"], found["peer"], rtol=0, atol=1e-12)
    return row


def five_of_numbers(events: int, repeats: int) -> Row:
    """``update_many`` of numbers and five metrics, against scikit-learn computing the same five."""
    rng = np.random.default_rng(1)
    true = rng.normal(100, 10, events)
    predicted = true + rng.normal(size=events)
    names = ("mean_absolute_error", "mean_squared_error", "root_mean_squared_error", "r2")
    names += ("explained_variance",)
    found: dict[str, list[float]] = {}

    def ours() -> None:
        ev = se.Evaluator(task="regression", metrics=names)
        ev.update_many(true, predicted)
        found["ours"] = [ev[name] for name in names]

    def peer() -> None:
        found["peer"] = [
            sklearn_metrics.mean_absolute_error(true, predicted),
            sklearn_metrics.mean_squared_error(true, predicted),
            sklearn_metrics.root_mean_squared_error(true, predicted),
            sklearn_metrics.r2_score(true, predicted),
            sklearn_metrics.explained_variance_score(true, predicted),
        ]

    row = faster(
        f"{events:,} numbers: update_many, then MAE, MSE, RMSE, R², explained variance",
        ours,
        peer,
        target=5,
        repeats=repeats,
        peer_name="scikit-learn",
    )
    np.testing.assert_allclose(found["ours"], found["peer"], rtol=1e-12)
    return row


def merge_of_two(distinct: int, repeats: int, index_class: type, name: str) -> list[Row]:
    """Merge of two indices and the AUC after it, against sorting the same scores."""
    rng = np.random.default_rng(2)

    def filled(seed: int) -> tuple[object, np.ndarray]:
        draw = np.random.default_rng(seed)
        scores = draw.random(distinct)
        index = index_class()
        index.update_many(rng.random(distinct) < 0.5, scores)
        assert index.twice_u >= 0
        return index, index.groups().scores

    (left, left_scores), (right, right_scores) = filled(3), filled(4)
    shuffled = [rng.permutation(left_scores), rng.permutation(right_scores)]
    copies = [left.copy() for _ in range(2 * repeats)]  # type: ignore[attr-defined]

    def ours() -> None:
        merged = copies.pop()
        merged.merge(right)
        assert merged.twice_u > 0

    is_portable = name == "portable"
    rows = []
    for label, arrays in (("sorted", (left_scores, right_scores)), ("in arrival order", shuffled)):
        mine, theirs, ratio = interleaved(
            ours,
            lambda arrays=arrays: np.sort(np.concatenate(arrays), kind="stable"),
            repeats,
        )
        rows.append(
            Row(
                f"merge of two indices of {distinct:,} distinct scores, then AUC ({name})",
                mine,
                theirs,
                1 / ratio,
                NO_TARGET if is_portable else "< 2× the time",
                is_portable or 1 / ratio < 2,
                f"np.concatenate + stable np.sort, {label}",
            )
        )
    return rows
