"""What an event adds to the difference of a metric of two models on the same events.

To the first order a metric's estimate moves by the mean of an influence of each event. The
spread of the difference of two models' influences is that of the difference of their metrics;
of a mean of a loss this is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from operator import mul
from typing import Any, NamedTuple

import numpy as np

from streameval.events.values import FloatArray, Weight
from streameval.metrics.metric import Metric
from streameval.states.joint import JointColumns
from streameval.states.joint_errors import (
    ONE,
    TRUE,
    TRUE_SQUARE,
    JointErrors,
    absolute,
    error,
    square,
)
from streameval.states.joint_losses import JointLosses
from streameval.states.joint_sets import SetColumns
from streameval.states.state_set import StateSet
from streameval.states.sums.exact_sum import nearest_root
from streameval.states.sums.fixed_point import UNIT
from streameval.uncertainty.confusion_delta import derivatives
from streameval.uncertainty.losses import variance

MEAN_LOSSES = frozenset({"log_loss", "brier_score"})
"""Metrics that are the mean of a loss of each event."""

NOT_WHOLE = (
    "weights are not whole: tests of pairs count events, and how many events the weight of a pair "
    "stands for is not known"
)

_SHARES = frozenset({"accuracy", "error_rate"})


class Pairs(NamedTuple):
    """What is known of several models on the same events; None where it is not kept."""

    cells: JointColumns | SetColumns | None
    losses: JointLosses | None
    errors: JointErrors | None

    @classmethod
    def of(cls, states: StateSet) -> Pairs:
        """What a state set of joint events holds."""
        counts = states.joint if states.joint_sets is None else states.joint_sets
        cells = None if counts is None else counts.columns()
        return cls(cells, states.joint_losses, states.joint_errors)


class Influence(NamedTuple):
    """How events move a difference."""

    weight: Weight
    spread: float | Fraction
    """The variance of the influence over the events."""
    total: Callable[[Pairs], tuple[Any, Weight]]
    """Σ weight · influence, up to the same for each event, and Σ weight of a part of the events."""
    linear: bool = True
    """Whether the metric is a mean of what events add; else to the first order."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Two models' metric: the positions of the models, and what they keep each."""

    metric: Metric
    params: Mapping[str, Any]
    a: int
    b: int
    states: tuple[StateSet, StateSet]


def has_influence(metric: Metric) -> bool:
    """Whether the influence of an event on a difference of the metric follows from joint states."""
    return any(serves(metric) for serves, _ in _INFLUENCES)


def influence_of(compared: Compared, pairs: Pairs) -> Influence | str:
    """The influence of an event on the metric of ``a`` less that of ``b``; or why there is none."""
    for serves, influence in _INFLUENCES:
        if serves(compared.metric):
            try:
                return influence(compared, pairs)
            except ZeroDivisionError:
                break
    return "the metric of a model is at the edge of being undefined"


def _of_losses(compared: Compared, pairs: Pairs) -> Influence | str:
    losses, name, a, b = pairs.losses, compared.metric.name, compared.a, compared.b
    if losses is None or not losses.weight:
        return "no events"
    if not losses.exact:
        return NOT_WHOLE

    def total(part: Pairs) -> tuple[float, Weight]:
        assert part.losses is not None
        weight = part.losses.weight
        return (part.losses.difference(name, a, b)[0] / UNIT, weight) if weight else (0.0, 0)

    spread = variance(losses.weight, *losses.difference(name, a, b))
    return Influence(losses.weight, spread, total)


# Predicted numbers: from each metric to its derivatives by means of what is known of an event.

Slopes = dict[int, Fraction]


def _of_root(errors: JointErrors, model: int) -> Slopes:
    mean = errors.mean(square(model))
    root = nearest_root(mean.numerator, mean.denominator)
    # Without an error there is nothing to move.
    return {square(model): 1 / (2 * Fraction(root))} if root else {}


def _of_r2(errors: JointErrors, model: int) -> Slopes:
    spread = errors.covariance(TRUE, TRUE)
    share = errors.mean(square(model)) / spread**2
    return {
        square(model): -1 / spread,
        TRUE_SQUARE: share,
        TRUE: -2 * errors.mean(TRUE) * share,
    }


_SLOPES: Mapping[str, Callable[[JointErrors, int], Slopes]] = {
    "mean_error": lambda errors, model: {error(model): Fraction(1)},
    "mean_absolute_error": lambda errors, model: {absolute(model): Fraction(1)},
    "mean_squared_error": lambda errors, model: {square(model): Fraction(1)},
    "root_mean_squared_error": _of_root,
    "r2": _of_r2,
}
_MEANS = frozenset({"mean_error", "mean_absolute_error", "mean_squared_error"})


def _of_errors(compared: Compared, pairs: Pairs) -> Influence | str:
    errors, name = pairs.errors, compared.metric.name
    if errors is None or not errors.models:
        return "no events"
    if not errors.exact:
        return NOT_WHOLE
    slopes: Slopes = {}
    for model, sign in ((compared.a, 1), (compared.b, -1)):
        for one, slope in _SLOPES[name](errors, model).items():
            slopes[one] = slopes.get(one, Fraction(0)) + sign * slope
    spread = sum(
        (
            slope * other_slope * errors.covariance(one, other)
            for one, slope in slopes.items()
            for other, other_slope in slopes.items()
        ),
        Fraction(0),
    )

    def total(part: Pairs) -> tuple[Fraction, Weight]:
        assert part.errors is not None
        if not part.errors.models:
            return Fraction(0), 0
        found = sum((slope * part.errors.total(one) for one, slope in slopes.items()), Fraction(0))
        return found, part.errors.total(ONE)  # type: ignore[return-value]

    return Influence(errors.weight, spread, total, name in _MEANS)


# Sets of labels: an influence is a function of an event's numbers of labels.

InfluenceOfCells = Callable[[SetColumns], FloatArray]


def _of_model(compared: Compared, cells: SetColumns, model: int, own: StateSet) -> InfluenceOfCells:
    metric = compared.metric
    if metric.name in _SHARES:
        # Shares of what is right and of what is wrong spread alike.
        return lambda part: part.right(model).astype(np.float64)
    rule = metric.rule
    assert rule is not None
    if rule.given is not None:
        rule = rule.given(**{name: float(value) for name, value in compared.params.items()})
    weight, events = cells.weight, sum(cells.weight.tolist())
    if metric.average == "micro":
        labels = len(own.label_counts.labels)
        columns = (cells.hits[:, model], cells.true, cells.predicted[:, model])
        sums = [sum(map(mul, weight.tolist(), column.tolist())) for column in columns]
        _, slopes = derivatives(rule, sums[0], sums[1], sums[2], events * labels)
        c, t, p = (slope / labels for slope in slopes)
        return lambda part: c * part.hits[:, model] + t * part.true + p * part.predicted[:, model]

    def ratios(part: SetColumns) -> tuple[FloatArray, FloatArray]:
        parts = [
            rule.parts(*numbers, 0)
            for numbers in zip(
                part.hits[:, model].tolist(),
                part.true.tolist(),
                part.predicted[:, model].tolist(),
                strict=True,
            )
        ]
        values = [rule.value(top, bottom) if bottom else 0.0 for top, bottom in parts]
        return np.array(values), np.array([bool(bottom) for _, bottom in parts], dtype=np.float64)

    values, defined = ratios(cells)
    share = float(weight @ defined) / events
    mean = float(weight @ values) / events / share

    def influence(part: SetColumns) -> FloatArray:
        found, has = ratios(part)
        moved: FloatArray = (found - mean * has) / share
        return moved

    return influence


def _of_sets(compared: Compared, pairs: Pairs) -> Influence | str:
    cells = pairs.cells
    if not isinstance(cells, SetColumns) or not len(cells.weight):
        return "no events"
    if cells.weight.dtype.kind == "f":
        return NOT_WHOLE
    if compared.params.get("labels") is not None:
        return "how many of some labels both models have right is not kept: leave out labels="
    if cells.weight.dtype == object:
        return "the weight of one pair passes 64 bits"
    a, b = (
        _of_model(compared, cells, model, own)
        for model, own in zip((compared.a, compared.b), compared.states, strict=True)
    )
    n = sum(cells.weight.tolist())
    x = a(cells) - b(cells)
    mean = float(cells.weight @ x) / n
    spread = math.fsum(cells.weight * (x - mean) ** 2) / n

    def total(part: Pairs) -> tuple[float, Weight]:
        assert isinstance(part.cells, SetColumns)
        moved = a(part.cells) - b(part.cells) if len(part.cells.weight) else np.zeros(0)
        return math.fsum(part.cells.weight * moved), sum(part.cells.weight.tolist())

    linear = compared.metric.name in (*_SHARES, "hamming_loss")
    return Influence(n, spread, total, linear)


_INFLUENCES: tuple[
    tuple[Callable[[Metric], bool], Callable[[Compared, Pairs], Influence | str]], ...
] = (
    (lambda metric: metric.name in MEAN_LOSSES, _of_losses),
    (lambda metric: metric.state == "errors" and metric.name in _SLOPES, _of_errors),
    (
        lambda metric: (
            metric.family in ("label_micro", "label_samples")
            or (metric.state == "label_sets" and metric.name in _SHARES)
        ),
        _of_sets,
    ),
)
