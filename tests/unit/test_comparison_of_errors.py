"""Comparisons of models of numbers, and of sets of labels: against kept events, and their level."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from streameval.errors import InputError
from streameval.evaluator.comparison import Comparison
from streameval.states.joint_errors import JointErrors
from streameval.windows.panes import Panes
from tests.unit.test_comparison import MODELS, TAGS, numbers, sets

OPTIONS: dict[str, dict[str, Any]] = {
    "regression": {"task": "regression"},
    "multilabel": {"task": "multilabel", "labels": TAGS},
}
DATA = {"regression": numbers, "multilabel": sets}


def counted(task: str, given: dict[str, Any], **options: Any) -> Comparison:
    return Comparison(MODELS, **OPTIONS[task], **options).update_many(**given)


LOSSES = {
    "mean_error": lambda e: e,
    "mean_absolute_error": np.abs,
    "mean_squared_error": np.square,
}


@pytest.mark.parametrize("unit", [1.0, 1e-150, 1e150])
@pytest.mark.parametrize("metric", LOSSES)
def test_a_mean_of_errors_has_the_paired_t_test_of_scipy(metric: str, unit: float) -> None:
    given = numbers(200, unit=unit)
    found = counted("regression", given).difference(metric)
    exact = numbers(200)
    of = [LOSSES[metric](exact["y_pred"][name] - exact["y_true"]) for name in MODELS[::-1]]
    test = stats.ttest_rel(*of)
    ends = test.confidence_interval(0.95)
    square = unit * unit if metric == "mean_squared_error" else unit
    assert found.method == "paired t"
    assert found.p_value == pytest.approx(test.pvalue, rel=1e-9)
    assert [found.low, found.high] == pytest.approx(square * np.array([*ends]), rel=1e-4)


def test_hamming_loss_has_the_paired_t_test_of_scipy() -> None:
    given = sets(300)
    found = counted("multilabel", given).difference("hamming_loss")
    wrong = [(given["y_pred"][name] ^ given["y_true"]).mean(axis=1) for name in MODELS[::-1]]
    test = stats.ttest_rel(*wrong)
    assert found.p_value == pytest.approx(test.pvalue, rel=1e-6)
    assert (found.method, found.n) == ("paired t", 300)
    shares = counted("multilabel", given).difference("accuracy")
    right = [(given["y_pred"][name] == given["y_true"]).all(axis=1) for name in MODELS]
    assert shares.value == pytest.approx(right[1].mean() - right[0].mean())
    assert shares.method == "McNemar, Bonett-Price"


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
        c = counted(task, part, metrics=metrics)
        values.append([c[MODELS[1]][metric] - c[MODELS[0]][metric] for metric in metrics])
    for metric, error in zip(metrics, np.std(values, axis=0), strict=True):
        difference = found.difference(metric)
        assert difference.method == "paired t, delta method"
        assert (difference.high - difference.low) / 2 == pytest.approx(1.966 * error, rel=0.15)


def test_diebold_mariano_is_students_t_of_panes_of_equal_size() -> None:
    times = 10**9 // 60 * 60 + np.arange(600)
    for task, metric, of_events in (
        ("regression", "mean_absolute_error",
         lambda given, name: abs(given["y_pred"][name] - given["y_true"])),
        ("multilabel", "hamming_loss",
         lambda given, name: (given["y_pred"][name] ^ given["y_true"]).mean(axis=1)),
    ):  # fmt: skip
        given = DATA[task](600)
        c = counted(
            task, given | {"event_time": times}, window=Panes("1h", pane="1m"), time_unit="s"
        )
        found = c.difference(metric, method="diebold_mariano")
        gaps = of_events(given, MODELS[1]) - of_events(given, MODELS[0])
        means = gaps.reshape(10, 60).mean(axis=1)
        assert found.p_value == pytest.approx(stats.ttest_1samp(means, 0).pvalue, rel=1e-6)
        assert found.method == "Diebold-Mariano, 10 panes"
    rng = np.random.default_rng(3)
    scores = {name: rng.random(600) for name in MODELS}
    c = Comparison(MODELS, window=Panes("1h", pane="1m"), time_unit="s")
    c.update_many(rng.random(600) < 0.5, score=scores, event_time=times)
    assert c.difference("log_loss", method="diebold_mariano").p_value < 1
    assert "at least 5 panes, got 0" in (
        counted("regression", numbers(60)).difference("r2", method="diebold_mariano").reason
    )


def test_refused_calls_leave_the_bytes() -> None:
    c = counted("regression", numbers(20), metrics=["r2", "median_absolute_error"])
    before = c.to_bytes()
    for call, text in (
        (lambda: c.update(1.0, {"champion": 1.0}), "predicted numbers of champion and challenger"),
        (
            lambda: c.update(1.0, {"champion": 1.0, "challenger": math.nan}),
            r"y_pred\['challenger'\]",
        ),
        (lambda: c.update_many([1.0], {"champion": [1.0], "challenger": ["x"]}), "y_pred"),
        (lambda: c.revert(5.0, {"champion": 1.0, "challenger": 2.0}), "counted before"),
        (lambda: c.update(1.0, score={"champion": 1.0, "challenger": 1.0}), "score"),
    ):
        with pytest.raises(InputError, match=text):
            call()
        assert c.to_bytes() == before
    c = counted("multilabel", sets(20))
    before = c.to_bytes()
    for call in (
        lambda: c.update({"ad"}, {"champion": {"ad"}, "challenger": "ad"}),
        lambda: c.update({"ad"}, {"champion": {"ad"}, "challenger": {"bad"}}),
        lambda: c.revert(set(TAGS), {"champion": {"ad"}, "challenger": set()}),
    ):
        with pytest.raises(InputError):
            call()
        assert c.to_bytes() == before


OF_LABELS = {"ad": 0.2, "spam": 0.5, "toxic": 0.9}
LISTED = [[label, threshold] for label, threshold in OF_LABELS.items()]
SCORES = {"ad": 0.3, "spam": 0.3, "toxic": 0.8}


@pytest.mark.parametrize(
    ("task", "threshold", "note", "score", "values"),
    [
        ("multilabel", OF_LABELS, LISTED, SCORES, (1, 1)),
        (
            "multilabel",
            {"champion": 0.5, "challenger": OF_LABELS},
            {"champion": 0.5, "challenger": LISTED},
            *(SCORES, (0, 1)),
        ),
        ("binary", {"champion": 0.9, "challenger": 0.1}, None, 0.5, (0, 1)),
    ],
)
def test_thresholds_of_labels_and_of_models(
    task: str, threshold: Any, note: Any, score: Any, values: tuple[int, int]
) -> None:
    c = Comparison(MODELS, **OPTIONS.get(task, {}), threshold=threshold)
    c.update({"ad"} if task == "multilabel" else True, score=dict.fromkeys(MODELS, score))
    assert tuple(c[name]["accuracy"] for name in MODELS) == values
    assert c.report(["accuracy"]).notes["threshold"] == (note or threshold)
    again = Comparison.from_bytes(c.to_bytes())
    assert again == c
    assert again.merge(c, allow_overlap=True) is again


def test_sums_of_any_size_are_taken_back_exactly() -> None:
    rest, all_of_them = JointErrors(), JointErrors()
    rng = np.random.default_rng(5)
    events = (10.0 ** rng.integers(-150, 150, (40, 3)) * rng.normal(size=(40, 3))).tolist()
    for n, (true, *predicted) in enumerate(events):
        all_of_them.update(true, (), 1, tuple(predicted))
        if n % 2:
            rest.update(true, (), 1, tuple(predicted))
    for true, *predicted in events[::2]:
        all_of_them.revert(true, (), 1, tuple(predicted))
    assert all_of_them.to_state() == rest.to_state()
