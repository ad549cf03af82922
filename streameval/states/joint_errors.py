"""Errors of several models' numbers on the same events: exact moments of them and of the truth."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from streameval.errors import InputError
from streameval.events.event import EventBatch
from streameval.events.values import Weight
from streameval.states.error_sums import weight_fault, weight_of
from streameval.states.fields import never_counted
from streameval.states.joint_sums import JointSums
from streameval.states.sums.exact_columns import LimbRows, dots
from streameval.states.sums.exact_sum import ExactSum
from streameval.states.sums.fixed_point import chunks
from streameval.states.sums.sum_vector import Field

# What is known of an event: 1, the true number y, y², and of each model the error e, |e| and e².

ONE, TRUE, TRUE_SQUARE = range(3)
_ERROR, _ABSOLUTE, _SQUARE = range(3)


def error(model: int) -> int:
    """The number of a model's error, predicted less true, among what is known of an event."""
    return 3 + 3 * model + _ERROR


def absolute(model: int) -> int:
    """The number of a model's absolute error."""
    return 3 + 3 * model + _ABSOLUTE


def square(model: int) -> int:
    """The number of a model's squared error."""
    return 3 + 3 * model + _SQUARE


@lru_cache(maxsize=64)
def _products(models: int) -> tuple[tuple[int, int], ...]:
    """The products whose sums are kept, in their order."""
    found = [(ONE, ONE), (ONE, TRUE), (TRUE, TRUE), (TRUE, TRUE_SQUARE), (TRUE_SQUARE, TRUE_SQUARE)]
    for a in range(models):
        found += [(ONE, error(a)), (ONE, absolute(a)), (TRUE, square(a)), (TRUE_SQUARE, square(a))]
    for a, b in combinations_with_replacement(range(models), 2):
        found += [
            (kind(a), kind(b)) for kind in (error, absolute, square) if a < b or kind != absolute
        ]
    return tuple(found) if models else ()


@lru_cache(maxsize=64)
def _places(models: int) -> dict[tuple[int, int], int]:
    """The place of each product, also of those that are equal to another."""
    places = {product: n for n, product in enumerate(_products(models))}
    places[ONE, TRUE_SQUARE] = places[TRUE, TRUE]
    for a in range(models):
        same = places[error(a), error(a)]
        places[ONE, square(a)] = places[absolute(a), absolute(a)] = same
    return places


class JointErrors(JointSums):
    """Exact Σ of products of the true number, and of each model's error, its size and its square.

    The variance of the difference of two models' mean absolute, mean squared, root mean squared
    or mean error, and of R², follows without their events. An error is the float nearest to
    predicted less true.

    >>> errors = JointErrors()
    >>> errors.update(3.0, (), 1, (2.0, 5.0))
    >>> errors.update(1.0, (), 1, (1.0, 2.0))
    >>> float(errors.mean(absolute(1))), float(errors.covariance(absolute(0), absolute(1)))
    (1.5, 0.25)
    """

    __slots__ = ()
    NAME = "joint_errors"
    FIELD = "y_pred"

    products = Field[list[ExactSum]](lambda models: len(_products(models)), kind=ExactSum)

    @property
    def weight(self) -> Weight:
        """Weight of the events."""
        empty: Weight = 0 if self._exact else 0.0
        return weight_of(self._values[0], self._exact) if self.models else empty

    def total(self, one: int) -> Fraction:
        """Σ weight · x of what is known of an event."""
        return self._sum(ONE, one)

    def mean(self, one: int) -> Fraction:
        """The mean of what is known of an event."""
        return self._sum(ONE, one) / self._sum(ONE, ONE)

    def covariance(self, one: int, other: int) -> Fraction:
        """The covariance of two kinds of numbers whose products are kept."""
        mean = self._sum(*sorted((one, other))) / self._sum(ONE, ONE)
        return mean - self.mean(one) * self.mean(other)

    def _sum(self, one: int, other: int) -> Fraction:
        return Fraction(*self._values[_places(self.models)[one, other]].as_integer_ratio())

    def _terms_of(self, y_true: Any, given: Any, y_pred: Any) -> list[tuple[int, int]]:
        models = len(y_pred)
        if self.models not in (0, models):
            raise never_counted(self.FIELD, y_pred)
        known = [(1, 0), *_with_square(y_true)]
        for predicted in y_pred:
            (e, s), squared = _with_square(predicted - y_true)
            known += [(e, s), (abs(e), s), squared]
        return [
            (known[one][0] * known[other][0], known[one][1] + known[other][1])
            for one, other in _products(models)
        ]

    def _add(self, terms: list[tuple[int, int]], weight: Weight) -> None:
        if not self.models:
            # 5 sums of the truth, and of m models 4·m, 3·m·(m + 1)/2 less m.
            self._start(next(m for m in range(len(terms)) if len(_products(m)) == len(terms)))
        for total, (numerator, shift) in zip(self._values, terms, strict=True):
            total.add_fraction(numerator, shift, weight)
        self._end()

    def _add_many(self, y_true: EventBatch, given: Any, weight: Any) -> None:
        batch = y_true
        models = batch.y_pred.shape[1]
        for chunk in chunks(len(batch)):
            part = batch.take(chunk)
            weighted = columns = _columns(part)
            if part.weight is not None:
                by = LimbRows.of(part.weight.astype(np.float64))
                weighted = [] if by is None else [by.times(column) for column in columns]
            if not weighted:
                for true, predicted, _, each in part.events():
                    self._add(self._terms_of(true, (), predicted), each)
                continue
            table = dots(weighted, columns)
            sums = []
            for one, other in _products(models):
                sums.append(ExactSum())
                sums[-1].add_fraction(*table[one][other])
            self._add_sums(models, sums)

    def _never_counted(self, y_true: Any, given: Any, weight: int) -> InputError:
        return never_counted("y_true", y_true)

    def _fault(self, terms: Any = None) -> str:
        if not self.models:
            return ""
        n, over = self._values[0].as_integer_ratio()
        if fault := weight_fault(n, over, self._exact):
            return fault
        places = _places(self.models)
        sums = [value.as_integer_ratio() for value in self._values]
        sound = n > 0
        for (one, other), at in places.items():
            # By Cauchy and Schwarz, of n events too: 1 is a number of an event.
            (product, by), (mine, first), (theirs, second) = (
                sums[at],
                sums[places[one, one]],
                sums[places[other, other]],
            )
            sound = sound and mine >= 0 and theirs >= 0
            sound = sound and product**2 * first * second <= mine * theirs * by**2
        return "" if sound else self._no_events()


def _with_square(x: float) -> tuple[tuple[int, int], tuple[int, int]]:
    """A float and its square, each as a numerator and the power of two below it."""
    numerator, denominator = x.as_integer_ratio()
    shift = denominator.bit_length() - 1
    return (numerator, shift), (numerator * numerator, 2 * shift)


def _columns(batch: EventBatch) -> list[LimbRows]:
    """What is known of each event, column by column; empty where a number is too wide."""
    errors = [predicted - batch.y_true for predicted in batch.y_pred.T]
    true, *limbs = (LimbRows.of(numbers) for numbers in (batch.y_true, *errors))
    if true is None or None in limbs:
        return []
    columns = [LimbRows.ones(len(batch)), true, true.times(true)]
    for error, column in zip(errors, filter(None, limbs), strict=True):
        sign = np.where(error < 0, -1.0, 1.0)
        columns += [column, column.where(sign), column.times(column)]
    return columns
