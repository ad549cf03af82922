"""A regression: what it refuses, its windows and files, and the intervals of its metrics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import streameval as se
from streameval.errors import InputError, MetricError, StateError
from streameval.metrics.registry import task_metrics
from streameval.uncertainty.losses import student_quantile

ALL = [row.name for row in task_metrics("regression")]
NEED = "the predicted number as y_pred in a regression evaluator"
BAD: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    ((1.0, "a"), {}, "y_pred: expected a finite number, got 'a'"),
    ((1.0, math.inf), {}, "y_pred: expected a finite number, got inf"),
    ((None, 1.0), {}, "y_true: expected a finite number, got None"),
    ((True, 1.0), {}, "y_true: expected a finite number, got True"),
    ((1.0,), {}, "y_pred: expected the predicted number, got None; pass the predicted number"),
    ((1.0,), {"score": 0.5}, f"score: expected {NEED}, got score=; pass y_pred=..., or use task="),
    ((1.0, [1.0, 2.0]), {}, "y_pred: expected a finite number, got [1.0, 2.0]; for many events"),
    ((1e308, -1e308), {}, "y_pred: expected a number whose difference from the true one, 1e+308"),
]
BAD_COLUMNS: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    (([1.0, 2.0], [1.0]), {}, "y_pred: expected 2 values, one for each event, got 1; give columns"),
    (([1.0, 2.0], [1.0, "a"]), {}, "y_pred[1]: expected a finite number, got 'a'"),
    (([1.0, None], [1.0, 2.0]), {}, "y_true[1]: expected a finite number, got None"),
    (([1.0],), {"proba": [[0.5, 0.5]]}, f"proba: expected {NEED}"),
    (([1.0, 2.0], [[1.0, 2.0], [1.0, 2.0]]), {}, "y_pred"),
]


@pytest.mark.parametrize(
    ("args", "more", "text"), [*BAD, *BAD_COLUMNS], ids=lambda value: str(value)[:40]
)
def test_nothing_of_a_refused_call_is_counted(args: Any, more: Any, text: str) -> None:
    ev = se.Evaluator(task="regression").update(1.0, 2.0)
    before = ev.to_bytes()
    count = ev.update if (args, more, text) in BAD else ev.update_many
    with pytest.raises(InputError) as refused:
        count(*args, **more)
    assert str(refused.value).startswith(text)
    assert ev.to_bytes() == before


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"labels": [1, 2]}, 'labels= conflicts with task="regression"'),
        ({"probabilities": False}, 'probabilities= conflicts with task="regression"'),
        ({"metrics": ["max_error"], "max_scores": 2048}, "conflicts with median_absolute_error"),
        ({"metrics": ["mse"]}, "did you mean mean_squared_error?"),
    ],
)
def test_options_of_other_tasks(options: dict[str, Any], text: str) -> None:
    with pytest.raises((InputError, MetricError)) as refused:
        se.Evaluator(task="regression", **options)
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("bad", "place"), [(math.nan, 0), (math.inf, 2**16), (-math.inf, 2**17 - 1), (1.7e308, 2**16)]
)
def test_a_bad_number_anywhere_in_a_long_column_is_named(bad: float, place: int) -> None:
    ev = se.Evaluator(task="regression").update(1.0, 2.0)
    before, column = ev.to_bytes(), np.zeros(2**17)
    column[place] = bad
    for columns in ((column, -column), (-column, column)):
        with pytest.raises(se.InputError, match=rf"\[{place}\]: expected a (finite )?number"):
            ev.update_many(*columns)
    assert ev.to_bytes() == before


def test_what_was_not_kept_says_so() -> None:
    ev = se.Evaluator(task="regression").update(1.0, 2.0)
    with pytest.raises(MetricError, match="add 'median_absolute_error' to metrics="):
        ev["median_absolute_error"]
    with pytest.raises(MetricError, match="classification_report is not for regression tasks"):
        ev.classification_report()
    with pytest.raises(MetricError, match="alpha: expected a number from 0 to 1, got 2"):
        ev.value("mean_pinball_loss", alpha=2)
    assert ev.value("r2", undefined=0.0) == 0.0
    assert ev["r2"].reason.startswith("all true numbers are equal")  # type: ignore[attr-defined]
    ev.update(-1.5, 2.0)
    assert "1 of 2 event has" in ev["mean_squared_log_error"].reason  # type: ignore[attr-defined]
    assert ev["mean_absolute_percentage_error"] > 0
    ev.revert(-1.5, 2.0)
    assert ev["mean_squared_log_error"] > 0


def test_a_damaged_window_is_refused() -> None:
    data = se.Evaluator(task="regression", window=se.Last(3)).update(1.0, 2.0).to_state()
    for key, column in (("true", [math.nan]), ("predicted", [1.0, 2.0]), ("weight", [0])):
        damaged = {**data, "window": {**data["window"], key: np.array(column)}}
        with pytest.raises(StateError, match=f"window.{key}: expected"):
            se.Evaluator.from_state(damaged)


# Intervals --------------------------------------------------------------------

RNG = np.random.default_rng(8)
TRUE = RNG.gamma(2.0, 2.0, 300)
PREDICTED = TRUE + RNG.normal(0.2, 1.0, 300)


def sure(shift: float = 0.0, **more: Any) -> se.Evaluator:
    ev = se.Evaluator(task="regression", intervals=True)
    return ev.update_many(TRUE + shift, PREDICTED + shift, **more)


def literal_half(name: str) -> float:
    """t·√(v / n) on the scale of the interval, from the influence of each event."""
    y, p, n = TRUE, PREDICTED, len(TRUE)
    u, v, e = y - y.mean(), p - p.mean(), y - p
    if name == "explained_variance":
        e = e - e.mean()
    r = np.corrcoef(y, p)[0, 1]
    if name in ("r2", "explained_variance"):
        influence = e**2 / (e**2).mean() - u**2 / (u**2).mean()
    elif name == "pearson_r":
        sy, sp = u.std(), v.std()
        influence = (u * v / (sy * sp) - r / 2 * (u**2 / sy**2 + v**2 / sp**2)) / (1 - r * r)
    else:
        gap = y.mean() - p.mean()
        apart = y.var() + p.var() + gap**2
        c = 2 * (u * v).mean() / apart
        influence = 2 * u * v / apart - c / apart * (u**2 + v**2 + 2 * gap * (u - v))
        influence /= 1 - c * c
    squares = (u - v) ** 2
    freedom = n / (1 + squares.var() / squares.mean() ** 2) - 1
    return float(student_quantile(0.95, freedom) * influence.std(ddof=1) / math.sqrt(n))


@pytest.mark.parametrize("shift", [0.0, 2.0**20], ids=str)
@pytest.mark.parametrize(
    "name", ["r2", "explained_variance", "pearson_r", "concordance_correlation"]
)
def test_delta_intervals_are_of_the_influence_of_each_event(name: str, shift: float) -> None:
    ev, half = sure(shift), literal_half(name)
    found = ev.interval(name)
    if name in ("r2", "explained_variance"):
        ends = [1 - (1 - found.value) * math.exp(sign * half) for sign in (1, -1)]
    else:
        ends = [math.tanh(math.atanh(found.value) + sign * half) for sign in (-1, 1)]
    assert found.method == "fit_delta"
    # The numbers plus a million are rounded at 1e-10 before they are counted.
    assert [found.low, found.high] == pytest.approx(ends, rel=1e-9 if not shift else 1e-7)


LOSSES = {
    "mean_absolute_error": lambda y, p: abs(y - p),
    "mean_squared_error": lambda y, p: (y - p) ** 2,
    "mean_pinball_loss": lambda y, p: np.where(y > p, 0.9 * (y - p), 0.1 * (p - y)),
    "mean_absolute_percentage_error": lambda y, p: abs(y - p) / y,
    "symmetric_mean_absolute_percentage_error": lambda y, p: 2 * abs(y - p) / (y + abs(p)),
    "mean_squared_log_error": lambda y, p: (np.log1p(y) - np.log1p(p)) ** 2,
}


@pytest.mark.parametrize("name", LOSSES)
def test_intervals_of_means_are_of_the_losses(name: str) -> None:
    predicted = np.maximum(PREDICTED, -0.5)
    ev = se.Evaluator(task="regression", intervals=True).update_many(TRUE, predicted)
    more = {"alpha": 0.9} if name == "mean_pinball_loss" else {}
    found, n = ev.interval(name, **more), len(TRUE)
    losses = LOSSES[name](TRUE, predicted)
    square = losses.var(ddof=1) / losses.mean() ** 2
    half = student_quantile(0.95, n / (1 + square) - 1) * math.sqrt(square / n)
    ends = [losses.mean() * math.exp(sign * half) for sign in (-1, 1)]
    assert [found.low, found.high] == pytest.approx(ends, rel=1e-9)
    if name == "mean_squared_error":
        of_root = ev.interval("root_mean_squared_error")
        assert [of_root.low**2, of_root.high**2] == pytest.approx(ends, rel=1e-9)


def test_the_interval_of_the_bias_is_students() -> None:
    found, errors = sure().interval("mean_error"), PREDICTED - TRUE
    half = student_quantile(0.95, 299) * errors.std(ddof=1) / math.sqrt(300)
    assert (found.low, found.high) == pytest.approx((errors.mean() - half, errors.mean() + half))
    assert found.method == "student_t"


def test_what_intervals_need() -> None:
    ev = se.Evaluator(task="regression").update_many(TRUE, PREDICTED)
    assert ev.interval("mean_absolute_error").defined
    for name in ("r2", "mean_squared_error", "mean_absolute_percentage_error"):
        assert "pass intervals=True" in ev.interval(name).reason
    fisher = ev.interval("pearson_r")
    half = 1.959963984540054 / math.sqrt(297)
    assert fisher.low == pytest.approx(math.tanh(math.atanh(fisher.value) - half))
    assert fisher.method == "fisher_z"
    perfect = se.Evaluator(task="regression", intervals=True).update_many(TRUE, TRUE)
    for name in ALL:
        if name not in ("median_absolute_error", "max_error", "residual_quantile"):
            assert not perfect.interval(name).defined or name == "mean_error"
    single = se.Evaluator(task="regression", intervals=True).update(1.0, 2.0)
    assert single.interval("mean_absolute_error").reason == "a single event has no spread"
    fractions = sure(weight=RNG.random(300) + 0.5).interval("r2")
    assert fractions.method.endswith("(Kish)")
    assert 200 < fractions.n < 299


def test_anytime_needs_the_largest_loss() -> None:
    ev = sure()
    found = ev.interval("mean_absolute_error", method="anytime", bound=8)
    assert found.low < ev.interval("mean_absolute_error").low < found.high < 8
    assert found.method == "anytime"
    for bound, reason in ((None, "pass bound= to interval()"), (0.5, "a larger loss than bound")):
        none = ev.interval("mean_absolute_error", method="anytime", bound=bound)
        assert reason in none.reason
    # The largest of these, 2, shows in the mean of the squares, 1, which is above 1.5 of the mean.
    rare = se.Evaluator(task="regression", intervals=True).update_many([0] * 4, [0, 0, 0, 2])
    none = rare.interval("mean_absolute_error", method="anytime", bound=1.5)
    assert "a larger loss than bound" in none.reason
    assert ev.interval("symmetric_mean_absolute_percentage_error", method="anytime").high <= 2
    assert "a mean of losses" in ev.interval("mean_error", method="anytime").reason
    with pytest.raises(InputError, match="bound: expected a number above 0, got -1"):
        ev.interval("mean_absolute_error", method="anytime", bound=-1)
