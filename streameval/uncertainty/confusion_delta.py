"""Intervals of functions of the confusion's cells, by the delta method.

The cells are multinomial: of n events, the share π_ij is of true class i and predicted class j.
With its partial derivatives g_ij, a smooth function of the shares has the variance

    (Σ π_ij·g_ij² − (Σ π_ij·g_ij)²) / n

Every metric here is a function of the classes' correct, true and predicted shares, so that
g_ij = [i = j]·a_i + b_i + c_j; weighted kappa adds a multiple of the distance of i and j.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streameval.events.values import Label
from streameval.metrics.averages import Counts, Rule, one_class_counts, whole_cells, whole_counts
from streameval.metrics.class_metrics import RECALL
from streameval.metrics.metric import Metric
from streameval.states.confusion import ConfusionCounts
from streameval.uncertainty.interval import Ends, IntervalRequest, no_ends, normal_quantile
from streameval.uncertainty.losses import student_quantile
from streameval.uncertainty.proportions import score_ends

Floats = npt.NDArray[np.float64]

_BLOCK = 30_000
"""Cells that are computed at once: few enough for the processor's cache."""


class Table(NamedTuple):
    """A confusion in integers of the classes that have events, and what is added to it."""

    correct: list[int]
    true: list[int]
    predicted: list[int]
    total: int
    cells: list[tuple[int, int, int]]
    """``(row, column, weight)`` of those that have events."""
    pseudo: int
    """The weight of the pseudo-event: of one event."""
    positions: Floats
    """Of the classes among all labels, for distances."""

    def margins(self) -> tuple[list[int], list[int], list[int], int]:
        """Correct, true, predicted and total with the pseudo-event, up to a common factor."""
        # Half of it as if truth and prediction were independent, half evenly: cells that are 0 by
        # chance have no variance, and ten right predictions an interval of width 0.
        classes, total = len(self.true), self.total
        scale = 2 * (classes * total) ** 2
        factor = self.pseudo * classes * total

        def margin(counts: list[int]) -> list[int]:
            return [scale * n + factor * (classes * n + total) for n in counts]

        correct = [
            scale * c + self.pseudo * (classes * classes * t * p + total * total)
            for c, t, p in zip(self.correct, self.true, self.predicted, strict=True)
        ]
        total_with = scale * (total + self.pseudo)
        return correct, margin(self.true), margin(self.predicted), total_with

    def means(self, functions: Callable[[slice], tuple[Floats, ...]]) -> list[float]:
        """The means over the shares, with the pseudo-event, of functions of rows of cells."""
        classes = len(self.true)
        true, predicted = (
            np.array([n / self.total for n in counts]) for counts in (self.true, self.predicted)
        )
        rows = np.array([row for row, _, _ in self.cells])
        columns = np.array([column for _, column, _ in self.cells])
        whole = self.total + self.pseudo
        weights = np.array([weight / whole for _, _, weight in self.cells])
        half = self.pseudo / whole / 2
        parts = []
        step = max(1, _BLOCK // classes)
        for start in range(0, classes, step):
            block = slice(start, start + step)
            shares = half * (true[block, None] * predicted + 1 / classes**2)
            inside = (rows >= start) & (rows < start + step)
            shares[rows[inside] - start, columns[inside]] += weights[inside]
            parts.append([float((shares * values).sum()) for values in functions(block)])
        return [math.fsum(column) for column in zip(*parts, strict=True)]


class Gradient(NamedTuple):
    """A function's value, and its derivatives by shares of all events."""

    value: float
    correct: Floats
    """By the share of each class's correct events."""
    true: Floats
    predicted: Floats
    distances: Callable[[slice], Floats] | None = None
    """By each cell directly, as rows."""

    def rows(self, block: slice) -> Floats:
        """The derivatives by the cells of some rows."""
        rows: Floats = self.true[block, None] + self.predicted
        index = np.arange(len(self.true))[block]
        rows[index - block.start, index] += self.correct[block]
        return rows if self.distances is None else rows + self.distances(block)

    def moments(self, table: Table) -> tuple[float, float]:
        """The variance and the fourth central moment of one event's influence."""
        (center,) = table.means(lambda block: (self.rows(block),))

        def powers(block: slice) -> tuple[Floats, Floats]:
            squares = np.square(self.rows(block) - center)
            return squares, np.square(squares)

        variance, fourth = table.means(powers)
        return variance, fourth


def table_of(counts: ConfusionCounts, n: float) -> Table:
    """The confusion of all classes that have events, for `n` events."""
    whole = whole_counts(counts)
    kept = [k for k, (t, p) in enumerate(zip(whole.true, whole.predicted, strict=True)) if t or p]
    row = {whole.labels[k]: n for n, k in enumerate(kept)}
    return Table(
        [whole.correct[k] for k in kept],
        [whole.true[k] for k in kept],
        [whole.predicted[k] for k in kept],
        whole.total,
        [(row[true], row[pred], weight) for true, pred, weight in whole_cells(counts)],
        max(1, round(whole.total / n)),
        np.array(kept, dtype=np.float64),
    )


def one_class_table(counts: Counts, label: Label, n: float) -> Table:
    """The confusion of a class (the first one) and all others."""
    c, t, p, s = one_class_counts(counts, label)
    cells = [(0, 0, c), (0, 1, t - c), (1, 0, p - c), (1, 1, s - t - p + c)]
    return Table(
        [c, s - t - p + c], [t, s - t], [p, s - p], s, cells, max(1, round(s / n)), np.zeros(2)
    )


def derivatives(
    rule: Rule, correct: int, true: int, predicted: int, total: int
) -> tuple[float, list[float]]:
    """A rule's value, and its derivatives by the correct, true and predicted share."""
    # Both parts are polynomials of degree 2 at most in each count: central differences are exact.
    top, bottom = rule.parts(correct, true, predicted, total)
    value = rule.value(top, bottom)
    # A root has half the derivative of its square, over the value.
    twice = 2 * value if rule.root else 1.0
    slopes = []
    for c, t, p in ((1, 0, 0), (0, 1, 0), (0, 0, 1)):
        above = rule.parts(correct + c, true + t, predicted + p, total)
        below = rule.parts(correct - c, true - t, predicted - p, total)
        by_top, by_bottom = (above[0] - below[0]) // 2, (above[1] - below[1]) // 2
        slopes.append(total * (by_top * bottom - top * by_bottom) / bottom**2 / twice)
    return value, slopes


def _one_class(table: Table, rule: Rule) -> Gradient:
    correct, true, predicted, total = table.margins()
    value, slopes = derivatives(rule, correct[0], true[0], predicted[0], total)
    by_correct, by_true, by_predicted = (np.array([slope, 0.0]) for slope in slopes)
    return Gradient(value, by_correct, by_true, by_predicted)


def _mean(table: Table, rule: Rule, *, by_support: bool) -> Gradient:
    correct, true, predicted, total = table.margins()
    found = [
        derivatives(rule, c, t, p, total) for c, t, p in zip(correct, true, predicted, strict=True)
    ]
    values = np.array([value for value, _ in found])
    weights = np.array([t / total for t in true]) if by_support else 1 / len(found)
    value = float((weights * values).sum())
    slopes = np.array([slopes for _, slopes in found]).T * weights
    if by_support:
        slopes[1] += values - value
    return Gradient(value, *slopes)


def _adjusted_balanced_accuracy(table: Table) -> Gradient:
    mean = _mean(table, RECALL, by_support=False)
    classes = len(table.true)
    by = classes / (classes - 1)
    value = 1 - by * (1 - mean.value)
    return Gradient(value, by * mean.correct, by * mean.true, by * mean.predicted)


def _shares(table: Table) -> tuple[Floats, Floats, Floats]:
    correct, true, predicted, total = table.margins()
    a, b, c = (np.array([n / total for n in counts]) for counts in (correct, true, predicted))
    return a, b, c


def _geometric_mean(table: Table) -> Gradient:
    correct, true, predicted = _shares(table)
    value = float(np.exp(np.log(correct / true).mean()))
    each = value / len(true)
    return Gradient(value, each / correct, -each / true, 0 * predicted)


def _matthews(table: Table) -> Gradient:
    correct, true, predicted = _shares(table)
    by_true, by_predicted = (float((x * (1 - x)).sum()) for x in (true, predicted))
    root = math.sqrt(by_true * by_predicted)
    value = float(correct.sum() - (true * predicted).sum()) / root
    return Gradient(
        value,
        np.full(len(true), 1 / root),
        -predicted / root + value * true / by_true,
        -true / root + value * predicted / by_predicted,
    )


def _kappa(table: Table) -> Gradient:
    correct, true, predicted = _shares(table)
    beyond = float((true * (1 - predicted)).sum())
    wrong = 1 - float(correct.sum())
    slope = -wrong / beyond**2
    return Gradient(
        1 - wrong / beyond, np.full(len(true), 1 / beyond), slope * predicted, slope * true
    )


def _weighted_kappa(table: Table, power: int) -> Gradient:
    _, true, predicted = _shares(table)
    positions = table.positions

    def distances(block: slice) -> Floats:
        apart: Floats = np.abs(positions[block, None] - positions) ** power
        return apart

    (seen,) = table.means(lambda block: (distances(block),))
    # Row by row: all distances at once would take the memory of the full matrix.
    rows = [slice(k, k + 1) for k in range(len(positions))]
    from_true, from_predicted = (
        np.array([float((distances(row)[0] * shares).sum()) for row in rows])
        for shares in (predicted, true)
    )
    chance = float((true * from_true).sum())
    slope = seen / chance**2
    return Gradient(
        1 - seen / chance,
        0 * true,
        slope * from_true,
        slope * from_predicted,
        lambda block: distances(block) / -chance,
    )


def _kappa_m(table: Table) -> Gradient:
    correct, true, predicted = _shares(table)
    wrong, most = 1 - float(correct.sum()), int(true.argmax())
    others = 1 - float(true[most])
    by_true = np.zeros(len(true))
    by_true[most] = -wrong / others**2
    return Gradient(1 - wrong / others, np.full(len(true), 1 / others), by_true, 0 * predicted)


def _prevalence_weighted_precision(table: Table) -> Gradient:
    correct, true, predicted = _shares(table)
    chance = float((predicted * true).sum())
    value = float((correct * true).sum()) / chance
    return Gradient(
        value, true / chance, (correct - value * predicted) / chance, -value * true / chance
    )


def _prevalence_weighted_recall(table: Table) -> Gradient:
    correct, true, predicted = _shares(table)
    chance = float((true * true).sum())
    value = float((correct * true).sum()) / chance
    return Gradient(value, true / chance, (correct - 2 * value * true) / chance, 0 * predicted)


GRADIENTS: Mapping[str, Callable[[Table], Gradient]] = {
    "adjusted_balanced_accuracy": _adjusted_balanced_accuracy,
    "geometric_mean": _geometric_mean,
    "matthews_corrcoef": _matthews,
    "cohen_kappa": _kappa,
    "cohen_kappa_linear": lambda table: _weighted_kappa(table, 1),
    "cohen_kappa_quadratic": lambda table: _weighted_kappa(table, 2),
    "kappa_m": _kappa_m,
    "prevalence_weighted_precision": _prevalence_weighted_precision,
    "prevalence_weighted_recall": _prevalence_weighted_recall,
}
"""From the metrics that no Rule describes to their gradients."""


def gradient_of(request: IntervalRequest) -> tuple[Table, Gradient]:
    """The cells that a metric's variance is computed from, and its gradient."""
    metric, params = request.metric, request.params
    (counts,) = request.states
    rule = metric.rule
    if rule is not None and metric.average == "binary":
        table = one_class_table(counts, request.positive, request.n)  # type: ignore[arg-type]
    else:
        table = table_of(counts, request.n)
    if rule is None:
        kind = params.get("weights")
        return table, GRADIENTS[metric.name if kind is None else f"{metric.name}_{kind}"](table)
    if rule.given is not None:
        rule = rule.given(**params)
    if metric.average == "binary":
        return table, _one_class(table, rule)
    return table, _mean(table, rule, by_support=metric.average == "weighted")


def delta(request: IntervalRequest) -> Ends:
    """The interval of a function of the confusion, on a scale that suits the metric's range."""
    table, gradient = gradient_of(request)
    if len(table.true) < 2:
        return no_ends("all events are of one class and were predicted so")
    variance, fourth = gradient.moments(table)
    low, high = request.metric.low, request.metric.high
    z = normal_quantile(request.level)
    by_rule = request.metric.average == "binary" and request.metric.rule is not None
    if math.isfinite(low) and math.isfinite(high) and (not by_rule or low < 0):
        z = student_quantile(request.level, degrees_of_freedom(fourth / variance**2, request.n))
    return scaled_ends(request.metric, request.value, gradient.value, variance, request.n, z)


def scaled_ends(
    metric: Metric, value: float, smooth: float, variance: float, n: float, z: float
) -> Ends:
    """So many standard errors to each side, on a scale that suits the metric's range.

    The variance, over n, is of `smooth`: the value with the pseudo-event, which is at no end.
    """
    low, high = metric.low, metric.high
    if math.isfinite(low) and math.isfinite(high):
        span = high - low
        size = n * (smooth - low) * (high - smooth) / variance
        share = (value - low) / span
        bottom, top = score_ends(share * size, size, z)
        return Ends(low + span * bottom, low + span * top)
    end = low if math.isfinite(low) else high
    apart, own = abs(smooth - end), abs(value - end)
    factor = math.exp(z * math.sqrt(variance / n) / apart)
    near, far = min(apart / factor, own), max(apart * factor, own)
    return Ends(end + near, end + far) if math.isfinite(low) else Ends(end - far, end - near)


def degrees_of_freedom(kurtosis: float, n: float) -> float:
    """Degrees of freedom of the estimated variance of n events."""
    # Satterthwaite's are half as many; Wilson's form allows for a part (by simulated coverage).
    return min(1e9, max(3.0, 4 * n / max(kurtosis - 1, 1e-9)))
