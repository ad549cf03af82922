"""Sums of relative and of logarithmic errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from streameval.events.values import FloatArray, Weight
from streameval.states.error_sums import NumberSums
from streameval.states.ranking.weights import WeightArray
from streameval.states.sums.exact_columns import LimbRows, dot
from streameval.states.sums.exact_sum import ExactSum
from streameval.states.sums.fixed_point import chunks
from streameval.states.sums.loss_terms import LOWEST, portable_log, portable_log_many
from streameval.states.sums.sum_vector import Field

_FAR = 700
"""A percentage beyond the largest float is computed of numbers divided by 2**700."""

_DOWN = 2.0**-_FAR


class RatioTerms(NamedTuple):
    """What an event adds: floats, the percentage to be multiplied by 2**far."""

    percentage: float
    far: int
    symmetric: float
    log_square: float | None
    """None where a number is −1 or less."""


def _log1p(x: Any, log: Callable[[Any], Any] = portable_log) -> Any:
    """ln(1 + x) with the same bits everywhere, to some units in the last place."""
    u = 1.0 + x
    return log(u) + (x - (u - 1.0)) / u


def ratio_terms(true: float, predicted: float) -> RatioTerms:
    """The terms of one event."""
    error, size, far = abs(true - predicted), max(abs(true), LOWEST), 0
    percentage = error / size
    if percentage == math.inf:
        percentage, far = error * _DOWN / size, _FAR
    total = abs(true) + abs(predicted)
    if total == math.inf:
        symmetric = 2.0 * (error / 2.0 / (abs(true) / 2.0 + abs(predicted) / 2.0))
    else:
        symmetric = 2.0 * (error / total) if total else 0.0
    square = None
    if true > -1.0 and predicted > -1.0:
        difference = _log1p(true) - _log1p(predicted)
        square = difference * difference
    return RatioTerms(percentage, far, symmetric, square)


def ratio_columns(
    true: FloatArray, predicted: FloatArray
) -> tuple[FloatArray, Any, FloatArray, FloatArray, Any]:
    """The terms of a batch, to the same bits: percentages, symmetric ones and squared logarithms.

    After the percentages, which of them are to be multiplied by 2**700; at the end, which events
    have a number of −1 or less, and 0 as the square. None: none.
    """
    error, y, p = np.abs(true - predicted), np.abs(true), np.abs(predicted)
    size = np.maximum(y, LOWEST)
    with np.errstate(over="ignore"):
        percentage, total = error / size, y + p
    far: Any = np.isinf(percentage)
    if far.any():
        percentage[far] = error[far] * _DOWN / size[far]
    else:
        far = None
    large = np.isinf(total)
    if large.any():
        error[large] /= 2.0
        total[large] = y[large] / 2.0 + p[large] / 2.0
    total[total == 0.0] = 1.0
    symmetric = 2.0 * (error / total)
    outside: Any = (true <= -1.0) | (predicted <= -1.0)
    if outside.any():
        true, predicted = np.where(outside, 0.0, true), np.where(outside, 0.0, predicted)
    else:
        outside = None
    difference = _log1p(true, portable_log_many) - _log1p(predicted, portable_log_many)
    return percentage, far, symmetric, difference * difference, outside


def add_column(total: ExactSum, x: FloatArray, weight: WeightArray | None, power: int) -> None:
    """Add Σ weight · x or, of the power 2, Σ weight · x² of at most a chunk of events."""
    column = LimbRows.of(x)
    by = LimbRows.ones(len(x)) if weight is None else LimbRows.of(weight.astype(np.float64))
    if column is None or by is None:
        add = total.add_many if power == 1 else total.add_squares_many
        add(x, weight)
        return
    if power == 2:
        by = column if weight is None else by.times(column)
    total.add_fraction(*dot(by, column))


class RatioSums(NumberSums):
    """Exact sums of percentages, symmetric percentages and squared logarithmic errors.

    The terms are floats, computed in the same way on every machine; their sums are not rounded.

    - the percentage \\|y − ŷ\\| / max(\\|y\\|, ε), with ε = 2⁻⁵² as scikit-learn has it;
    - the symmetric one 2·\\|y − ŷ\\| / (\\|y\\| + \\|ŷ\\|), 0 where both are 0;
    - (ln(1 + y) − ln(1 + ŷ))²; events with a number of −1 or less are counted as `outside`.

    >>> ratios = RatioSums()
    >>> ratios.update(2.0, 3.0)
    >>> ratios.percentages.value(), ratios.symmetric.value()
    (0.5, 0.4)
    """

    __slots__ = ()
    NAME = "error_ratios"
    POWER = 1

    percentages = Field[ExactSum](kind=ExactSum)
    symmetric = Field[ExactSum](kind=ExactSum)
    log_squares = Field[ExactSum](kind=ExactSum)
    outside = Field[ExactSum](kind=ExactSum)

    def _terms_of(self, y_true: Any, given: Any, y_pred: Any) -> RatioTerms:
        return ratio_terms(y_true, given)

    def _add(self, terms: RatioTerms, weight: Weight) -> None:
        count, percentages, symmetric, log_squares, outside = self._values
        count.add_fraction(1, 0, weight)
        self._add_term(percentages, terms.percentage, terms.far, weight)
        self._add_term(symmetric, terms.symmetric, 0, weight)
        if terms.log_square is None:
            outside.add_fraction(1, 0, weight)
        else:
            self._add_term(log_squares, terms.log_square, 0, weight)

    def _add_term(self, total: ExactSum, term: float, far: int, weight: Weight) -> None:
        numerator, denominator = term.as_integer_ratio()
        shift = denominator.bit_length() - 1 - far
        total.add_fraction(numerator**self.POWER, self.POWER * shift, weight)

    def _add_many(self, y_true: Any, given: Any, weight: Any) -> None:
        count, percentages, symmetric, log_squares, outside = self._values
        for chunk in chunks(len(y_true)):
            near, far, halves, squares, beyond = ratio_columns(y_true[chunk], given[chunk])
            by = None if weight is None else weight[chunk]
            add_column(count, np.ones(len(near)), by, 1)
            if far is not None:
                part = ExactSum()
                add_column(part, near[far], None if by is None else by[far], self.POWER)
                near = np.where(far, 0.0, near)
                numerator, denominator = part.as_integer_ratio()
                shift = denominator.bit_length() - 1 - self.POWER * _FAR
                percentages.add_fraction(numerator, shift)
            add_column(percentages, near, by, self.POWER)
            add_column(symmetric, halves, by, self.POWER)
            add_column(log_squares, squares, by, self.POWER)
            if beyond is not None:
                add_column(outside, beyond.astype(np.float64), by, 1)

    def _fault(self, terms: Any = None) -> str:
        count, percentages, symmetric, log_squares, outside = self._values
        n, over = count.as_integer_ratio()
        if fault := self._weight_fault():
            return fault
        sums = [each.as_integer_ratio() for each in (percentages, symmetric, log_squares, outside)]
        sound = all(numerator >= 0 for numerator, _ in sums)
        if not n:
            sound = not any(numerator for numerator, _ in sums)
        # A symmetric percentage is at most 2, and 4 is its square.
        for (numerator, denominator), most in ((sums[1], 2**self.POWER), (sums[3], 1)):
            sound = sound and numerator * over <= most * n * denominator
        return "" if sound else self._no_events()


class RatioSquares(RatioSums):
    """As :class:`RatioSums`, but of the terms' squares: what intervals of their means read."""

    __slots__ = ()
    NAME = "error_ratio_squares"
    POWER = 2
