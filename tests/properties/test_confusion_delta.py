"""The delta method on the confusion: derivatives, a published example, exactness."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.metrics.metric import Metric
from streameval.metrics.registry import ROWS, find
from streameval.states.confusion import ConfusionCounts
from streameval.uncertainty.confusion_delta import GRADIENTS, Gradient, gradient_of
from streameval.uncertainty.interval import IntervalRequest
from streameval.uncertainty.proportions import wilson

DELTA = [row for row in ROWS if row.family == "confusion"]


def request(row: Metric, counts: ConfusionCounts, **params: Any) -> IntervalRequest:
    positive = 1 if row.needs_positive else None
    value = row.bind(positive=positive, **params)(counts)
    return IntervalRequest(
        metric=row,
        value=value,
        states=(counts,),
        level=0.95,
        n=counts.total,
        whole=True,
        positive=positive,
        params=params,
        cumulative=True,
    )


def test_every_function_of_the_confusion_has_a_gradient() -> None:
    assert {row.name for row in DELTA if row.rule is None} == set(GRADIENTS)


def without_pseudo_event(row: Metric, cells: np.ndarray, **params: Any) -> tuple[Any, Gradient]:
    """The gradient at the cells themselves: the pseudo-event's weight is next to nothing."""
    counts = ConfusionCounts.from_matrix((cells * 10**15).tolist(), list(range(len(cells))))
    return gradient_of(request(row, counts, **params)._replace(n=counts.total))


SQUARES = st.integers(2, 4).flatmap(
    lambda k: st.lists(st.integers(1, 60), min_size=k * k, max_size=k * k).map(
        lambda cells: np.array(cells, dtype=object).reshape(k, k)
    )
)


@pytest.mark.parametrize("row", DELTA, ids=lambda row: row.name)
@settings(max_examples=4)
@given(cells=SQUARES, beta=st.sampled_from([0.5, 1, 2]))
def test_derivatives_are_those_of_the_metric(row: Metric, cells: np.ndarray, beta: float) -> None:
    if row.needs_positive:
        cells = cells[:2, :2]
    size = len(cells)
    true = np.sort(cells.sum(axis=1))
    if row.name == "kappa_m" and true[-1] == true[-2]:
        return  # The largest of equal classes has no derivative.
    params = {"beta": beta} if "beta" in row.params else {}
    metric = row.bind(positive=1 if row.needs_positive else None, **params)
    scale, step = 10**8, 10**4

    def value(i: int, j: int, change: int) -> float:
        moved = cells * scale
        moved[i, j] += change
        return metric(ConfusionCounts.from_matrix(moved.tolist(), list(range(size))))

    _, gradient = without_pseudo_event(row, cells, **params)
    assert gradient.value == pytest.approx(value(0, 0, 0), abs=1e-9)
    if row.needs_positive:
        # The table of one class has that class first.
        found = gradient.rows(slice(0, 2))[::-1, ::-1]
    else:
        found = gradient.rows(slice(0, size))
    shares = (cells / cells.sum()).astype(float)
    centred = found - (shares * found).sum()
    total = int(cells.sum()) * scale
    for i in range(size):
        for j in range(size):
            slope = (value(i, j, step) - value(i, j, -step)) / (2 * step) * total
            assert centred[i, j] == pytest.approx(slope, rel=1e-4, abs=1e-4)


def test_published_error_of_kappa() -> None:
    """Fleiss, Cohen & Everitt (1969), two raters of 200 patients: kappa .429, variance .002885."""
    cells = np.array([[106, 10, 4], [22, 28, 10], [2, 12, 6]], dtype=object)
    table, gradient = without_pseudo_event(find("cohen_kappa"), cells)
    assert gradient.value == pytest.approx(0.429, abs=5e-4)
    assert gradient.moments(table)[0] / 200 == pytest.approx(0.002885, abs=5e-7)


def test_the_table_with_the_pseudo_event_adds_up() -> None:
    """Margins in integers and means over rows are of the same table, dense here."""
    counts = ConfusionCounts.from_matrix([[8, 1, 0], [2, 5, 0], [0, 0, 0]], [0, 1, 2])
    counts.update(3, 0)
    table, _ = gradient_of(request(find("f1_macro"), counts))
    # Class 2 has no event.
    dense = np.array([[8, 1, 0], [2, 5, 0], [1, 0, 0]], dtype=float)
    dense += 0.5 * np.outer(dense.sum(1), dense.sum(0)) / 17**2 + 0.5 / 9
    *columns, total = table.margins()
    for column, expected in zip(columns, (np.diag(dense), *map(dense.sum, (1, 0))), strict=True):
        assert [n / total for n in column] == pytest.approx(expected / 18)
    values = np.arange(9.0).reshape(3, 3)
    for power, mean in enumerate(table.means(lambda rows: (values[rows], values[rows] ** 2)), 1):
        assert mean == pytest.approx((values**power * dense).sum() / 18)


# Intervals ---------------------------------------------------------------------


def evaluator_of(cells: np.ndarray) -> se.Evaluator:
    ev = se.Evaluator(task="binary" if len(cells) == 2 else "multiclass")
    true, predicted = np.nonzero(cells)
    ev.update_many(true, predicted, weight=cells[true, predicted])
    return ev


@pytest.mark.parametrize("row", DELTA, ids=lambda row: row.name)
@settings(max_examples=5)
@given(cells=st.lists(st.integers(0, 6), min_size=9, max_size=9))
def test_an_interval_contains_its_value_within_the_range(row: Metric, cells: list[int]) -> None:
    size = 2 if row.needs_positive else 3
    matrix = np.array(cells)[: size * size].reshape(size, size)
    if not matrix.any():
        return
    found = evaluator_of(matrix).interval(row.name)
    if not found.defined:
        assert math.isnan(found.value) or "one class" in found.reason
        return
    slack = 1e-12 * max(1.0, abs(found.value))
    assert row.low <= found.low <= found.value + slack
    assert found.value - slack <= found.high <= row.high
    assert found.low < found.high


def test_perfect_predictions_have_a_width() -> None:
    ev = evaluator_of(np.array([[10, 0], [0, 10]]))
    for name in ("f1", "f1_macro", "matthews_corrcoef", "cohen_kappa", "balanced_accuracy"):
        found = ev.interval(name)
        assert found.value == found.high == 1
        assert 0.3 < found.low < 0.95
    # F1 of ten positives is 2J/(1 + J) of the share J of 10 in 10.
    share = wilson(10, 10, 0.95)[0]
    assert ev.interval("f1").low == pytest.approx(2 * share / (1 + share), abs=0.01)


def test_one_class_alone_has_no_interval_of_a_mean() -> None:
    ev = se.Evaluator(task="multiclass")
    ev.update("a", "a", weight=9)
    found = ev.interval("f1_macro")
    assert found.value == 1
    assert not found.defined
    assert found.reason == "all events are of one class and were predicted so"
    only = evaluator_of(np.array([[0, 0], [0, 9]])).interval("f1")
    assert only.value == only.high == 1
    assert 0.6 < only.low < 0.95


@settings(max_examples=30)
@given(st.lists(st.tuples(*[st.sampled_from("abcd")] * 2), min_size=4, max_size=40))
def test_order_and_shards_have_the_same_bits(events: list[tuple[str, str]]) -> None:
    def counted(part: list[tuple[str, str]]) -> se.Evaluator:
        ev = se.Evaluator(task="multiclass")
        ev.consume(part)
        return ev

    one = counted(events)
    others = [counted(events[::-1]), se.merge([counted(events[::2]), counted(events[1::2])])]
    for row in DELTA:
        if "multiclass" in row.tasks:
            found = one.interval(row.name)
            for other in others:
                assert repr(other.interval(row.name)) == repr(found)
