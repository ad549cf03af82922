"""Sums of true and predicted numbers, from which the metrics of a regression follow."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streameval.errors import InputError
from streameval.events.values import Weight
from streameval.states.backend import compiled
from streameval.states.fields import MOST_WEIGHT, never_counted
from streameval.states.ranking.weights import WeightArray
from streameval.states.sums.exact_columns import LimbRows, dots
from streameval.states.sums.exact_sum import ExactSum, largest_shift, numerators
from streameval.states.sums.fixed_point import chunks
from streameval.states.sums.sum_vector import Field, SumVector

_NATIVE = compiled("streameval.states.native.native_tallies")
_MOST_UNITS = 2**253


def weight_of(count: ExactSum, exact: bool) -> Weight:
    """The weight of the events: an int, or a float where it is not exact."""
    return count.as_integer_ratio()[0] if exact else count.value()


def weight_fault(numerator: int, denominator: int, exact: bool) -> str:
    """Why no events have this weight, or an empty text."""
    if exact and denominator != 1:
        return ".count: expected a whole weight"
    sound = 0 <= numerator <= MOST_WEIGHT * denominator
    return "" if sound else ".count: no events have this weight"


class NumberSums(SumVector):
    """The base of sums over events of two numbers: the weight of the events is such a sum too."""

    __slots__ = ()
    FIELD = "y_pred"
    VALIDATED = True

    count = Field[ExactSum](kind=ExactSum)

    @property
    def total(self) -> Weight:
        """Σ weight: an int, or a float once :attr:`exact` is False."""
        return weight_of(self.count, self._exact)

    weight = total

    def _terms_of(self, y_true: Any, given: Any, y_pred: Any) -> Any:
        return y_true, given

    def _never_counted(self, y_true: Any, given: Any, weight: int) -> InputError:
        return never_counted(self.FIELD, given)

    def _weight_fault(self) -> str:
        """Why no events have this weight, or an empty text."""
        return weight_fault(*self.count.as_integer_ratio(), self._exact)


class Moments(NamedTuple):
    """The sums of :class:`ErrorSums` as integers: of degree d over 2**(d · shift).

    The weight is over 2**weight_shift, which is 0 of whole weights.
    """

    weight: int
    true: int
    predicted: int
    true_squares: int
    products: int
    predicted_squares: int
    under: int
    shift: int
    weight_shift: int

    @property
    def error(self) -> int:
        """Σ (y_true − y_pred)."""
        return self.true - self.predicted

    @property
    def absolute(self) -> int:
        """Σ |y_true − y_pred|."""
        return 2 * self.under - self.true + self.predicted

    @property
    def error_squares(self) -> int:
        """Σ (y_true − y_pred)²."""
        return self.true_squares - 2 * self.products + self.predicted_squares

    # Σ w · Σ w·a·b − Σ w·a · Σ w·b, over 2**(2 · shift + weight_shift): 0 of constants, exactly.

    @property
    def true_spread(self) -> int:
        """(Σw)² times the variance of the true numbers."""
        return self.weight * self.true_squares - (self.true**2 << self.weight_shift)

    @property
    def predicted_spread(self) -> int:
        """(Σw)² times the variance of the predicted numbers."""
        return self.weight * self.predicted_squares - (self.predicted**2 << self.weight_shift)

    @property
    def joint_spread(self) -> int:
        """(Σw)² times the covariance of both."""
        return self.weight * self.products - (self.true * self.predicted << self.weight_shift)

    @property
    def error_spread(self) -> int:
        """(Σw)² times the variance of the errors."""
        return self.weight * self.error_squares - (self.error**2 << self.weight_shift)


class ErrorSums(NumberSums):
    """Exact sums of true numbers y, predicted numbers ŷ, their squares and product.

    Σ (y − ŷ)² follows from these, without rounding, and so does Σ |y − ŷ| with the sum of
    (y − ŷ) over the events whose prediction is too low. Numbers are finite floats of any size.
    Weights that are not whole end ``exact`` and with it :meth:`revert`.

    Cost:
        About 2 µs an event, 0.005 µs an event of a batch. Memory: some 500 bytes for numbers of
        like size, up to a few kB of the whole range of floats.

    >>> errors = ErrorSums()
    >>> errors.update(3.0, 2.5)
    >>> errors.update(1.0, 2.0)
    >>> errors.weight, errors.under.value(), errors.products.value()
    (2, 0.5, 9.5)
    """

    __slots__ = ("__weakref__", "_tally")
    NAME = "errors"

    true = Field[ExactSum](kind=ExactSum)
    predicted = Field[ExactSum](kind=ExactSum)
    true_squares = Field[ExactSum](kind=ExactSum)
    products = Field[ExactSum](kind=ExactSum)
    predicted_squares = Field[ExactSum](kind=ExactSum)
    under = Field[ExactSum](kind=ExactSum)

    def _start(self, size: int) -> None:
        super()._start(size)
        self._tally: Any = None

    def moments(self) -> Moments:
        """All sums over one denominator."""
        if self._tally is not None:
            self._settle()
        count, true, predicted, *squares, under = self._values
        means = (true, predicted, under)
        shift = max(largest_shift(means), (largest_shift(squares) + 1) // 2)
        of_true, of_predicted, of_under = numerators(means, shift)
        true_squares, products, predicted_squares = numerators(squares, 2 * shift)
        weight, over = count.as_integer_ratio()
        return Moments(
            weight,
            of_true,
            of_predicted,
            true_squares,
            products,
            predicted_squares,
            of_under,
            shift,
            over.bit_length() - 1,
        )

    # Compiled code

    def tally(self) -> Any:
        """Counts events of whole weight in compiled code; None where that was not built."""
        if self._tally is None and _NATIVE is not None:
            self._tally = _NATIVE.NativeErrorTally(self)
        return self._tally

    def in_units(self, shift: int) -> tuple[int, ...] | None:
        """The sums in :class:`Moments`' order and this shift; None where they do not fit compiled
        code's integers."""
        at = self.moments()
        more = shift - at.shift
        if not self._exact or more < 0:
            return None
        first, squares = (at.true, at.predicted, at.under), at[3:6]
        *plain, under = (number << more for number in first)
        units = (at.weight, *plain, *(number << 2 * more for number in squares), under)
        return units if max(map(abs, units)) < _MOST_UNITS else None

    def _settle(self) -> None:
        counted = None if self._tally is None else self._tally.take()
        if counted is not None:
            *sums, shift = counted
            degrees = (0, 1, 1, 2, 2, 2, 1)
            for total, units, degree in zip(self._values, sums, degrees, strict=True):
                total.add_fraction(units, degree * shift)

    def _add(self, terms: tuple[float, float], weight: Weight) -> None:
        if self._tally is not None:
            self._settle()
        true, predicted = terms
        y, at = true.as_integer_ratio()
        p, by = predicted.as_integer_ratio()
        # Denominators are powers of two.
        s, t = at.bit_length() - 1, by.bit_length() - 1
        count, trues, predictions, true_squares, products, predicted_squares, under = self._values
        count.add_fraction(1, 0, weight)
        trues.add_fraction(y, s, weight)
        predictions.add_fraction(p, t, weight)
        true_squares.add_fraction(y * y, 2 * s, weight)
        products.add_fraction(y * p, s + t, weight)
        predicted_squares.add_fraction(p * p, 2 * t, weight)
        if true > predicted:
            under.add_fraction(y, s, weight)
            under.add_fraction(-p, t, weight)

    def _add_many(self, y_true: Any, given: Any, weight: Any) -> None:
        tally = self.tally() if self._exact else None
        if tally is not None:
            plain = (y_true, given) if weight is None else (y_true, given, weight)
            rest = tally.count_many(*map(np.ascontiguousarray, plain))
            if rest is not None:
                y_true, given = y_true[rest], given[rest]
                weight = None if weight is None else weight[rest]
                # What it holds for reading would lack the events that follow.
                self._settle()
        for chunk in chunks(len(y_true)):
            true, predicted = y_true[chunk], given[chunk]
            by = None if weight is None else weight[chunk]
            columns = weighted_columns(true, predicted, by)
            if columns is None:
                add_one_by_one(self, true, predicted, by)
                continue
            y, p, ones, weighted = columns
            low = (true > predicted).astype(np.float64)
            one, low_one = ones, LimbRows(low[np.newaxis], ones.top)
            sums = dots(weighted, [one, y, p, low_one])
            counts, trues, predictions = sums
            for total, found in zip(
                self._values,
                (counts[0], counts[1], counts[2], trues[1], trues[2], predictions[2], trues[3]),
                strict=True,
            ):
                total.add_fraction(*found)
            numerator, shift = predictions[3]
            self._values[-1].add_fraction(-numerator, shift)

    def _fault(self, terms: Any = None) -> str:
        at = self.moments()
        if fault := self._weight_fault():
            return fault
        sound = at.weight > 0 or not any(at[:7])
        # No variance is negative, no correlation above 1, and no mean |e| below |mean e|.
        sound = sound and min(at.true_spread, at.predicted_spread, at.error_spread) >= 0
        sound = sound and at.joint_spread**2 <= at.true_spread * at.predicted_spread
        sound = sound and at.under >= 0 and at.absolute >= abs(at.error)
        sound = sound and at.absolute**2 << at.weight_shift <= at.weight * at.error_squares
        return "" if sound else self._no_events()


def add_one_by_one(state: SumVector, y_true: Any, given: Any, weight: WeightArray | None) -> None:
    """Add columns to a state as its events one by one."""
    SumVector._add_many(state, y_true, given, weight)


def weighted_columns(
    true: Any, predicted: Any, weight: WeightArray | None
) -> tuple[LimbRows, LimbRows, LimbRows, list[LimbRows]] | None:
    """The limbs of y, ŷ and 1, and those of 1, y and ŷ times the weights; None: too wide."""
    y, p, ones = LimbRows.of(true), LimbRows.of(predicted), LimbRows.ones(len(true))
    if y is None or p is None:
        return None
    if weight is None:
        return y, p, ones, [ones, y, p]
    # Whole weights are at most 2**53: floats hold them.
    by = LimbRows.of(weight.astype(np.float64))
    if by is None:
        return None
    return y, p, ones, [by, by.times(y), by.times(p)]
