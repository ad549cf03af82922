"""Moments of the third and fourth degree of true and predicted numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from streameval.events.values import Weight
from streameval.states.error_sums import NumberSums, add_one_by_one, weighted_columns
from streameval.states.sums.exact_columns import LimbRows, dots
from streameval.states.sums.exact_sum import ExactSum
from streameval.states.sums.fixed_point import chunks
from streameval.states.sums.sum_vector import Field


class ErrorMoments(NumberSums):
    """Exact Σ yᵃ·ŷᵇ with a + b = 3 and 4, and Σ (y − ŷ)² of the predictions that are too low.

    What intervals of functions of :class:`~streameval.states.error_sums.ErrorSums` read. A field's
    name has a t for each factor y and a p for each factor ŷ.

    >>> moments = ErrorMoments()
    >>> moments.update(3.0, 2.0)
    >>> moments.ttp.value(), moments.tppp.value(), moments.under_squares.value()
    (18.0, 24.0, 1.0)
    """

    __slots__ = ()
    NAME = "error_moments"

    ttt = Field[ExactSum](kind=ExactSum)
    ttp = Field[ExactSum](kind=ExactSum)
    tpp = Field[ExactSum](kind=ExactSum)
    ppp = Field[ExactSum](kind=ExactSum)
    tttt = Field[ExactSum](kind=ExactSum)
    tttp = Field[ExactSum](kind=ExactSum)
    ttpp = Field[ExactSum](kind=ExactSum)
    tppp = Field[ExactSum](kind=ExactSum)
    pppp = Field[ExactSum](kind=ExactSum)
    under_squares = Field[ExactSum](kind=ExactSum)

    def _add(self, terms: tuple[float, float], weight: Weight) -> None:
        true, predicted = terms
        y, at = true.as_integer_ratio()
        p, by = predicted.as_integer_ratio()
        s, t = at.bit_length() - 1, by.bit_length() - 1
        sums = iter(self._values)
        next(sums).add_fraction(1, 0, weight)
        for degree in (3, 4):
            for b in range(degree + 1):
                a = degree - b
                next(sums).add_fraction(y**a * p**b, a * s + b * t, weight)
        if true > predicted:
            error = (y << t) - (p << s)
            next(sums).add_fraction(error * error, 2 * (s + t), weight)

    def _add_many(self, y_true: Any, given: Any, weight: Any) -> None:
        for chunk in chunks(len(y_true)):
            true, predicted = y_true[chunk], given[chunk]
            by = None if weight is None else weight[chunk]
            columns = weighted_columns(true, predicted, by)
            if columns is None:
                add_one_by_one(self, true, predicted, by)
                continue
            y, p, ones, (weights, weighted_y, weighted_p) = columns
            squares = [y.times(y), y.times(p), p.times(p)]
            low = LimbRows((true > predicted).astype(np.float64)[np.newaxis], ones.top)
            found = dots(
                [weights, weighted_y, weighted_p, weighted_y.times(y), weighted_p.times(p)],
                [ones, *squares, *(square.where(low.limbs[0]) for square in squares)],
            )
            of_one, of_y, of_p, of_yy, of_pp = found
            sums = [of_one[0], *of_y[1:4], of_p[3], *of_yy[1:4], *of_pp[2:4]]
            for total, part in zip(self._values[:-1], sums, strict=True):
                total.add_fraction(*part)
            for (numerator, shift), factor in zip(of_one[4:], (1, -2, 1), strict=True):
                self._values[-1].add_fraction(factor * numerator, shift)

    def _fault(self, terms: Any = None) -> str:
        if fault := self._weight_fault():
            return fault
        values = [each.as_integer_ratio()[0] for each in self._values[1:]]
        sound = min(values[4], values[6], values[8], values[9]) >= 0
        sound = sound and (self.weight > 0 or not any(values))
        return "" if sound else self._no_events()
