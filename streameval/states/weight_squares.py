"""Σw and Σw² of a stream's weights: what Kish's effective size is made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from streameval.errors import StateError
from streameval.events.event import EventBatch
from streameval.events.values import LabelColumn, Weight, canonical_weight, weight_column
from streameval.states.fields import MOST_WEIGHT, removable_weight
from streameval.states.sums.exact_sum import ExactSum, inverse_of, nearest_float, scaled_sum
from streameval.states.sums.sum_vector import Field, Form, Parts, SumVector


class WeightSquares(SumVector):
    """Exact Σw and Σw² of the weights of events.

    Events of different weights tell less than as many events of equal weight. Kish's
    effective size is the number of events of equal weight whose mean has the same variance:

        n_eff = (Σw)² / Σw²

    Both sums are exact for any weights, so that they depend neither on the order of the
    events nor on how they were counted. An event is counted with the arguments of the
    other states of a set; all but the weight are ignored.

    Cost:
        About 2 µs an event, 0.1 µs a weight of a batch. Memory: some 100 bytes.

    Source:
        Kish, Survey Sampling (1965), section 8.2.

    >>> weights = WeightSquares()
    >>> for weight in (1, 0.5, 0.5):
    ...     weights.update(True, True, weight)
    >>> weights.total, weights.effective_size
    (2.0, 2.6666666666666665)
    """

    __slots__ = ("_exact", "_squares", "_sum")
    NAME = "weight_squares"
    FIELDS = (Field("_sum", "sum"), Field("_squares", "squares"))

    def __init__(self) -> None:
        self._exact = True
        self._sum = ExactSum()
        self._squares = ExactSum()

    # -- reading ---------------------------------------------------------

    @property
    def total(self) -> Weight:
        """Σw: an int, or a float once :attr:`exact` is False."""
        return self._sum.as_integer_ratio()[0] if self._exact else self._sum.value()

    @property
    def effective_size(self) -> float:
        """(Σw)² / Σw², correctly rounded; 0 before the first event."""
        numerator, denominator = self._sum.as_integer_ratio()
        squares, over = self._squares.as_integer_ratio()
        if not squares:
            return 0.0
        return nearest_float(numerator * numerator * over, denominator * denominator * squares)

    # -- counting --------------------------------------------------------

    def update(
        self, y_true: object, given: object, weight: Weight = 1, y_pred: object = None
    ) -> None:
        """Count one event.

        Args:
            y_true: Ignored.
            given: Its predicted label, score or probabilities; ignored.
            weight: Positive.
            y_pred: Ignored.

        Raises:
            InputError: The weight is not positive and finite. Nothing is counted.
        """
        if type(weight) is not int:
            weight = canonical_weight(weight)
            self._exact = self._exact and type(weight) is int
        self._add(weight, 1)

    def _add(self, terms: Weight, weight: Weight) -> None:
        # The term is the event's weight, to be added or removed once.
        self._sum.add(terms, weight)
        self._squares.add_square(terms, weight)

    def update_many(self, first: Any, given: object = None, weight: object = None) -> None:
        """Count many events, to the same bits as :meth:`update` of each.

        Args:
            first: A column, of whose values the number counts, or a LabelColumn; or a
                multi-class batch with the weights in it.
            given: Ignored.
            weight: Column of positive weights; None is 1 each.
        """
        if isinstance(first, EventBatch):
            weight = first.weight
        elif isinstance(first, LabelColumn):
            first = first.codes
        weights = weight_column(weight, len(first))
        if weights is None:
            self._sum.add(len(first))
            self._squares.add(len(first))
        elif len(weights):
            self._exact = self._exact and weights.dtype.kind != "f"
            # Whole weights are at most 2**53: floats hold them.
            floats = weights.astype(np.float64)
            self._sum.add_many(floats)
            self._squares.add_squares_many(floats)

    def revert(
        self, y_true: object, given: object, weight: Weight = 1, y_pred: object = None
    ) -> None:
        """Remove one earlier event, exactly; arguments as of :meth:`update`.

        Raises:
            InputError: The weight is not whole, or was not for some event of this state; or
                the remaining sums cannot be those of any events. Nothing is changed.
        """
        whole = removable_weight(weight, self._exact)
        self._remove(whole, 1, "weight", weight)

    def _refuse_unsound(self) -> None:
        if self._sum.value() > MOST_WEIGHT or not self._is_sound():
            raise StateError(f"{self.NAME}: no events have these sums")

    @classmethod
    def scaled(cls, parts: Parts, unit: int) -> Form:
        """Written form of Σ factor · sums / unit; squares are scaled by squares."""
        inverse, shift = inverse_of(unit)
        total = [(form["sum"], factor) for form, factor in parts]
        squares = [(form["squares"], factor * factor) for form, factor in parts]
        return {
            "exact": False,
            "sum": scaled_sum(total, inverse, shift),
            "squares": scaled_sum(squares, inverse * inverse, 2 * shift),
        }

    def _is_sound(self, left: Any = None) -> bool:
        """Whether some events have these sums: 0 < Σw² ≤ (Σw)², and whole ones Σw ≤ Σw²."""
        total, under = self._sum.as_integer_ratio()
        squares, below = self._squares.as_integer_ratio()
        if total <= 0 or squares <= 0:
            return total == squares == 0
        if self._exact and not (under == below == 1 and total <= squares):
            return False
        return squares * under * under <= total * total * below

    def __repr__(self) -> str:
        return f"<WeightSquares of weight {self.total}>"
