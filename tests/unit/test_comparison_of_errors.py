"""Comparisons of models of numbers, and of sets of labels: against kept events, and their level."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from streameval.errors import InputError
from streameval.evaluator.comparison import Comparison
from streameval.windows.panes import Panes
from tests.unit.test_comparison import MODELS, TAGS, numbers, sets

OPTIONS: dict[str, dict[str, Any]] = {
    "regression": {"task": "regression"},
    "multilabel": {"task": "multilabel", "labels": TAGS},
}
DATA = {"regression": numbers, "multilabel": sets}


def counted(task: str, given: dict[str, Any], **options: Any) -> Comparison:
    return Comparison(MODELS, **OPTIONS[task], **options).update_many(**given)


LOSSES: dict[str, tuple[str, Any]] = {
    "mean_error": ("regression", lambda y, guess: guess - y),
    "mean_absolute_error": ("regression", lambda y, guess: abs(guess - y)),
    "mean_squared_error": ("regression", lambda y, guess: (guess - y) ** 2),
    "hamming_loss": ("multilabel", lambda y, guess: (guess ^ y).mean(axis=1)),
}
UNITS = [(metric, unit) for metric in LOSSES for unit in (1.0, 1e-150, 1e150)][:-2]


@pytest.mark.parametrize(("metric", "unit"), UNITS)
def test_a_mean_of_losses_has_the_paired_t_test_of_scipy(metric: str, unit: float) -> None:
    task, loss = LOSSES[metric]
    given = numbers(200, unit=unit) if task == "regression" else sets(200)
    found, exact = counted(task, given).difference(metric), DATA[task](200)
    test = stats.ttest_rel(*(loss(exact["y_true"], exact["y_pred"][n]) for n in MODELS[::-1]))
    square = unit * unit if metric == "mean_squared_error" else unit
    assert (found.method, found.n) == ("paired t", 200)
    assert found.p_value == pytest.approx(test.pvalue, rel=1e-9)
    ends = np.array([*test.confidence_interval(0.95)])
    assert [found.low, found.high] == pytest.approx(square * ends, rel=1e-4)


def test_sets_that_are_right_as_a_whole_have_mcnemars_test() -> None:
    given = sets(300)
    found = counted("multilabel", given).difference("accuracy")
    old, new = ((given["y_pred"][name] == given["y_true"]).all(axis=1).mean() for name in MODELS)
    assert found.value == pytest.approx(new - old)
    assert found.method == "McNemar, Bonett-Price"


@pytest.mark.parametrize(
    ("task", "metrics"),
    [
        ("regression", ["root_mean_squared_error", "r2"]),
        ("multilabel", ["f1_micro", "precision_micro", "jaccard_samples", "recall_samples",
         "fowlkes_mallows_micro"]),
    ],
)  # fmt: skip
def test_the_delta_method_has_the_error_of_resampled_events(task: str, metrics: list[str]) -> None:
    n = 400
    given = DATA[task](n)
    found = counted(task, given)
    rng = np.random.default_rng(1)
    values = []
    for _ in range(90):
        rows = rng.integers(0, n, n)
        part = {"y_true": given["y_true"][rows]}
        part["y_pred"] = {name: one[rows] for name, one in given["y_pred"].items()}
        old, new = (counted(task, part, metrics=metrics)[name] for name in MODELS)
        values.append([new[metric] - old[metric] for metric in metrics])
    for metric, error in zip(metrics, np.std(values, axis=0), strict=True):
        difference = found.difference(metric)
        assert difference.method == "paired t, delta method"
        assert (difference.high - difference.low) / 2 == pytest.approx(1.966 * error, rel=0.15)


def test_diebold_mariano_is_students_t_of_panes_of_equal_size() -> None:
    window = {"window": Panes("1h", pane="1m"), "time_unit": "s"}
    times = {"event_time": 10**9 // 60 * 60 + np.arange(600)}
    of_sets = {
        "accuracy": ("multilabel", lambda y, guess: (guess == y).all(axis=1) * 1.0),
        "error_rate": ("multilabel", lambda y, guess: (guess != y).any(axis=1) * 1.0),
    }
    for metric in ("mean_absolute_error", "hamming_loss", *of_sets):
        task, loss = (LOSSES | of_sets)[metric]
        given = DATA[task](600)
        found = counted(task, given | times, **window).difference(metric, method="diebold_mariano")
        old, new = (loss(given["y_true"], given["y_pred"][name]) for name in MODELS)
        means = (new - old).reshape(10, 60).mean(axis=1)
        test = stats.ttest_1samp(means, 0)
        assert found.p_value == pytest.approx(test.pvalue, rel=1e-6)
        assert [found.low, found.high] == pytest.approx([*test.confidence_interval(0.95)])
        assert found.method == "Diebold-Mariano, 10 panes"
    rng = np.random.default_rng(3)
    scores = {name: rng.random(600) for name in MODELS}
    c = Comparison(MODELS, **window).update_many(rng.random(600) < 0.5, score=scores, **times)
    assert c.difference("log_loss", method="diebold_mariano").p_value < 1
    none = counted("regression", numbers(60)).difference("r2", method="diebold_mariano")
    assert "at least 5 panes, got 0" in none.reason


def predicted(old: Any, new: Any) -> dict[str, Any]:
    return dict(zip(MODELS, (old, new), strict=True))


@pytest.mark.parametrize(
    ("task", "method", "given", "text"),
    [
        ("regression", "update", (1.0, {"champion": 1.0}), "predicted numbers of champion and ch"),
        ("regression", "update", (1.0, predicted(1.0, math.nan)), r"y_pred\['challenger'\]"),
        ("regression", "update_many", ([1.0], predicted([1.0], ["x"])), "y_pred"),
        ("regression", "revert", (5.0, predicted(1.0, 2.0)), "counted before"),
        ("multilabel", "update", ({"ad"}, predicted({"ad"}, "ad")), "y_pred"),
        ("multilabel", "update", ({"ad"}, predicted({"ad"}, {"bad"})), "y_pred"),
        ("multilabel", "revert", (set(TAGS), predicted({"ad"}, set())), "counted before"),
    ],
)
def test_refused_calls_leave_the_bytes(task: str, method: str, given: Any, text: str) -> None:
    c = counted(task, DATA[task](20))
    before = c.to_bytes()
    with pytest.raises(InputError, match=text):
        getattr(c, method)(*given)
    assert c.to_bytes() == before


def test_numbers_have_no_scores() -> None:
    with pytest.raises(InputError, match="score"):
        counted("regression", numbers(20)).update(1.0, score=predicted(1.0, 1.0))


OF_LABELS = {"ad": 0.2, "spam": 0.5, "toxic": 0.9}
SCORES = {"ad": 0.3, "spam": 0.3, "toxic": 0.8}


@pytest.mark.parametrize(
    ("task", "threshold", "score", "values"),
    [
        ("multilabel", OF_LABELS, SCORES, (1, 1)),
        ("multilabel", predicted(0.5, OF_LABELS), SCORES, (0, 1)),
        ("binary", predicted(0.9, 0.1), 0.5, (0, 1)),
    ],
)
def test_thresholds_of_labels_and_of_models(task, threshold, score, values):
    c = Comparison(MODELS, **OPTIONS.get(task, {}), threshold=threshold)
    c.update({"ad"} if task == "multilabel" else True, score=dict.fromkeys(MODELS, score))
    assert tuple(c[name]["accuracy"] for name in MODELS) == values
    note = c.report(["accuracy"]).notes["threshold"]
    listed = [[*item] for item in OF_LABELS.items()]
    if threshold is OF_LABELS:
        assert note == listed
    else:
        assert note == {n: listed if t is OF_LABELS else t for n, t in threshold.items()}
    again = Comparison.from_bytes(c.to_bytes())
    assert again == c
    assert again.merge(c, allow_overlap=True) is again
