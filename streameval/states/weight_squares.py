"""Σw and Σw² of a stream's weights: what Kish's effective size is made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from streameval.errors import InputError
from streameval.events.event import EventBatch
from streameval.events.values import LabelColumn, Weight, weight_column
from streameval.states.fields import MOST_WEIGHT, never_counted
from streameval.states.sums.exact_sum import ExactSum, nearest_float
from streameval.states.sums.sum_vector import Field, SumVector


class WeightSquares(SumVector):
    """Exact Σw and Σw² of events: Kish's effective size is (Σw)² / Σw² (Survey Sampling, 1965).

    >>> weights = WeightSquares()
    >>> for weight in (1, 0.5, 0.5):
    ...     weights.update(True, True, weight)
    >>> weights.total, weights.effective_size
    (2.0, 2.6666666666666665)
    """

    __slots__ = ()
    NAME = "weight_squares"

    sum = Field[ExactSum](kind=ExactSum)
    squares = Field[ExactSum](kind=ExactSum, power=2)

    @property
    def total(self) -> Weight:
        """Σw: an int, or a float once :attr:`exact` is False."""
        return self.sum.as_integer_ratio()[0] if self._exact else self.sum.value()

    weight = total

    @property
    def effective_size(self) -> float:
        """(Σw)² / Σw², correctly rounded; 0 before the first event."""
        numerator, denominator = self.sum.as_integer_ratio()
        squares, over = self.squares.as_integer_ratio()
        if not squares:
            return 0.0
        return nearest_float(numerator * numerator * over, denominator * denominator * squares)

    def _terms_of(self, y_true: Any, given: Any, y_pred: Any) -> None:
        """None: the weight is all that counts."""

    def _add(self, terms: Any, weight: Weight) -> None:
        total, squares = self._values
        if type(weight) is int:
            total.add_fraction(weight, 0)
            squares.add_fraction(weight * abs(weight), 0)
        else:
            total.add(weight)
            squares.add_square(weight)

    def update_many(self, y_true: Any, given: object = None, weight: object = None) -> None:
        """Count many events, of which a column of any values gives the number."""
        if isinstance(y_true, EventBatch):
            weight = y_true.weight
        elif isinstance(y_true, LabelColumn):
            y_true = y_true.codes
        self._add_columns(y_true, given, weight_column(weight, len(y_true)))

    def _add_many(self, y_true: Any, given: Any, weight: Any) -> None:
        total, squares = self._values
        if weight is None:
            total.add(len(y_true))
            squares.add(len(y_true))
        else:
            # Whole weights are at most 2**53: floats hold them.
            floats = weight.astype(np.float64)
            total.add_many(floats)
            squares.add_squares_many(floats)

    def _never_counted(self, y_true: Any, given: Any, weight: int) -> InputError:
        return never_counted("weight", weight)

    def _fault(self, terms: Any = None) -> str:
        # 0 < Σw² ≤ (Σw)², and of whole weights Σw ≤ Σw².
        total, under = self.sum.as_integer_ratio()
        squares, below = self.squares.as_integer_ratio()
        if total <= 0 or squares <= 0:
            sound = total == squares == 0
        else:
            sound = squares * under * under <= total * total * below
        if self._exact and not (under == below == 1 and total <= squares):
            sound = False
        return "" if sound and total <= under * MOST_WEIGHT else ": no events have these sums"
