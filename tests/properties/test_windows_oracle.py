"""After each of 10,000 events, every window equals the literal list of its events."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sk

import streameval as se
from tests.support.window_model import (
    Item,
    Model,
    binary_stream,
    class_stream,
    names_for,
    plain,
    same,
)

pytestmark = pytest.mark.slow

PANES = se.Panes("1h", "10m", "20m")
CASES: list[tuple[str, str, Any, int, float]] = [
    ("last, two classes", "binary", se.Last(150), 2700, 1e-12),
    ("last, three classes", "multiclass", se.Last(97), 1800, 1e-12),
    ("panes, two classes", "binary", PANES, 2000, 1e-12),
    ("panes, three classes", "multiclass", se.Panes("40m", lateness="15m"), 1500, 1e-12),
    ("fading by time", "binary", se.Fading("30m"), 500, 1e-9),
    ("fading by time, three classes", "multiclass", se.Fading("1h"), 500, 1e-9),
    ("fading by count", "binary", se.Fading(40), 500, 1e-9),
    ("fading by count, three classes", "multiclass", se.Fading(25), 500, 1e-9),
]
STRIDE = 499
"""Every so many events all the metrics that there are."""

FROM_COUNTS = ("accuracy", "f1_macro", "matthews_corrcoef", "cohen_kappa")


def test_it_is_10_000_events() -> None:
    assert sum(case[3] for case in CASES) == 10_000


def by_hand(
    task: str, columns: tuple[list[Any], list[Any], list[float]]
) -> tuple[dict[str, float], dict[Any, int]]:
    """Metrics of labels out of weighted lists, in numpy."""
    true, predicted, weight = columns
    place = {label: n for n, label in enumerate(sorted({*true, *predicted}))}
    size = len(place)
    codes = [place[t] * size + place[p] for t, p in zip(true, predicted, strict=True)]
    matrix = np.bincount(codes, weight, size * size).reshape(size, size)
    total, rows, cols, diagonal = matrix.sum(), matrix.sum(1), matrix.sum(0), matrix.diagonal()
    expected = float((rows * cols).sum())
    spread = (total**2 - (rows**2).sum()) * (total**2 - (cols**2).sum())
    covariance = float(diagonal.sum() * total - expected)
    chance = total**2 - expected
    f1 = float(np.mean(2 * diagonal / (rows + cols)))
    values = {
        "accuracy": float(diagonal.sum() / total),
        "matthews_corrcoef": covariance / math.sqrt(spread) if spread > 1e-9 else math.nan,
        "cohen_kappa": covariance / chance if chance > 1e-9 else math.nan,
    }
    if task == "multiclass":
        values["f1_macro"] = f1
    return values, place


def auc(true: list[Any], score: list[float], weight: list[float]) -> float:
    """All pairs, one by one."""
    positive, scores, weights = np.array(true, bool), np.array(score), np.array(weight)
    a, b = scores[positive][:, None], scores[~positive][None, :]
    pairs = weights[positive][:, None] * weights[~positive][None, :]
    whole = float(pairs.sum())
    return float((pairs * ((a > b) + 0.5 * (a == b))).sum() / whole) if whole else math.nan


def by_sklearn(
    task: str, true: list[Any], predicted: list[Any], scores: Any, weight: list[float]
) -> dict[str, float]:
    """What scikit-learn says, where it says something."""
    given: dict[str, Any] = {"sample_weight": weight}
    values: dict[str, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        values["accuracy"] = sk.accuracy_score(true, predicted, **given)
        if task == "binary":
            values["f1"] = sk.f1_score(true, predicted, zero_division=np.nan, **given)
            values["precision"] = sk.precision_score(true, predicted, zero_division=np.nan, **given)
            values["recall"] = sk.recall_score(true, predicted, zero_division=np.nan, **given)
            values["brier_score"] = sk.brier_score_loss(true, scores, **given)
            values["log_loss"] = sk.log_loss(true, scores, labels=[False, True], **given)
            if len(set(true)) == 2:
                values["roc_auc"] = sk.roc_auc_score(true, scores, **given)
                values["average_precision"] = sk.average_precision_score(true, scores, **given)
        else:
            values["f1_weighted"] = sk.f1_score(true, predicted, average="weighted", **given)
            values["log_loss"] = sk.log_loss(true, scores, labels=["a", "b", "rare"], **given)
        if len(set(true)) > 1 and len(set(predicted)) > 1:
            values["matthews_corrcoef"] = sk.matthews_corrcoef(true, predicted, **given)
            values["cohen_kappa"] = sk.cohen_kappa_score(true, predicted, **given)
    return values


def prediction(item: Item) -> Any:
    if item.proba is None:
        return item.score >= 0.5
    best = max(item.proba.values())
    return min(label for label, share in item.proba.items() if share == best)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_every_answer_is_that_of_the_list(case: tuple[str, str, Any, int, float]) -> None:
    name, task, spec, n, tolerance = case
    stream = (binary_stream if task == "binary" else class_stream)(n, seed=len(name))
    ev = se.Evaluator(task=task, window=spec, time_unit="s")
    model = Model(spec)
    timed = spec.needs_time
    everything = names_for(task)
    for count, item in enumerate(stream):
        ev.update(**item.arguments(timed=timed))
        model.add(item)
        inside = model.inside()
        if not inside:
            assert math.isnan(ev["accuracy"])
            continue
        true = [item.y_true for item, _ in inside]
        predicted = [prediction(item) for item, _ in inside]
        weight = [w for _, w in inside]
        values, _ = by_hand(task, (true, predicted, weight))
        if task == "binary":
            scores: Any = [item.score for item, _ in inside]
            values["roc_auc"] = auc(true, scores, weight)
        else:
            scores = [[item.proba[c] for c in ("a", "b", "rare")] for item, _ in inside]
        wrong = {
            metric: (float(ev[metric]), value)
            for metric, value in values.items()
            if not same(float(ev[metric]), value, tolerance)
        }
        assert not wrong, (count, wrong)
        if count % STRIDE == 0:
            for metric, value in by_sklearn(task, true, predicted, scores, weight).items():
                assert same(float(ev[metric]), value, tolerance), (count, metric)
        if count % STRIDE == 1:
            fresh = plain(task, inside)
            for metric in everything:
                mine, theirs = float(ev[metric]), float(fresh[metric])
                if tolerance < 1e-9:
                    assert repr(mine) == repr(theirs), (count, metric)
                elif fresh_is_steady(metric):
                    assert same(mine, theirs, tolerance), (count, metric)
    if isinstance(spec, se.Panes):
        assert ev.arrivals == model.arrived
        assert min(model.arrived.values()) > 0
    ev._check()


def fresh_is_steady(metric: str) -> bool:
    """Counts and extremes follow the scale or jump; all else is smooth in the weights."""
    return metric not in {"support", "partial_auc"}
