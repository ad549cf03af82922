"""Second moments of log loss, Brier score and calibration gaps: what their intervals read."""

from __future__ import annotations

from bisect import bisect_left
from operator import add
from typing import Any

import numpy as np

from streameval.events.values import Weight
from streameval.states.sums.fixed_point import (
    UNIT,
    sum_units,
    sum_units_by_group,
    total_weight,
)
from streameval.states.sums.loss_sums import MOST_BINS, bin_edges
from streameval.states.sums.loss_terms import FRACTION, columns_of_terms, event_terms
from streameval.states.sums.sum_vector import Field, SumVector, per_size

LOG_LOSS_SCALE = 64
"""The squares of log losses are kept divided by this, so that each is below 64."""

_SCALE = float(UNIT)
_EIGHTH = FRACTION / 8.0  # 8² is LOG_LOSS_SCALE


class LossSquares(SumVector):
    """Σ of the squared log loss, Brier term and calibration gap of each event, for their variance.

    The terms are those of :class:`~streameval.states.sums.loss_sums.LossSums`, rounded down to
    units of 2⁻⁶⁰, and their squares are rounded down to units again (of log loss: of 2⁻⁵⁴).
    Binary scores outside [0, 1] are left out.

    >>> squares = LossSquares()
    >>> squares.update(True, 0.5)
    >>> squares.update("cat", {"cat": 0.5, "dog": 0.5})
    >>> squares.brier_squares / UNIT, squares.weight
    (0.3125, 2)
    """

    __slots__ = ("_edges",)
    NAME = "loss_squares"
    FIELD = "probability"
    SIZE = ("bins", 1, MOST_BINS)

    weight = Field[Weight]()
    log_loss_squares = Field[Weight](None, 21 * UNIT)  # (36.05 / 8)²
    """Σ weight · (ln q)², in units of 2**-54."""
    brier_squares = Field[Weight](None, 9 * UNIT)  # a Brier term is below 3
    """Σ weight · Brier term², in units of 2**-60."""
    bin_gap_squares = Field[list[Weight]](per_size, UNIT)
    """Σ weight · (p − y)² in each reliability bin, in units of 2**-60."""

    def __init__(self, bins: int = 10) -> None:
        self._edges = bin_edges(bins)
        super().__init__(bins)

    def _terms_of(self, y_true: Any, given: Any, y_pred: Any) -> tuple[int, ...] | None:
        terms = event_terms(y_true, given, y_pred)
        if terms is None:
            return None
        loss, brier, _, confidence, hit = terms
        eighths, term, gap = loss * _EIGHTH, brier * FRACTION, confidence - hit
        return (
            3 + bisect_left(self._edges, confidence),
            int(eighths * eighths * _SCALE),
            int(term * term * _SCALE),
            int(gap * gap * _SCALE),
        )

    def _add(self, terms: tuple[int, ...] | None, weight: Weight) -> None:
        if terms is not None:
            at, log_loss, brier, gap = terms
            values = self._values
            values[0] += weight
            values[1] += weight * log_loss
            values[2] += weight * brier
            values[at] += weight * gap

    def _add_many(self, y_true: Any, given: Any, weight: Any) -> None:
        if given is not None:
            inside = (given >= 0.0) & (given <= 1.0)
            y_true, given = y_true[inside], given[inside]
            weight = None if weight is None else weight[inside]
        for terms in columns_of_terms(y_true, given, weight):
            by = terms.weight
            eighths, brier = terms.loss_fractions() / 8.0, terms.brier_fractions()
            gap = terms.confidence - terms.hit
            groups = np.searchsorted(self._edges, terms.confidence)
            more = [
                len(gap) if by is None else total_weight(by),
                sum_units(eighths * eighths, by),
                sum_units(brier * brier, by),
                *sum_units_by_group(gap * gap, groups, self._size, by),
            ]
            self._values = list(map(add, self._values, more))

    @property
    def bins(self) -> int:
        """How many reliability bins."""
        return self._size

    def _fault(self, terms: Any = None) -> str:
        if sum(self._values[3:]) > self._about(self.weight)[0] * UNIT:
            return self._no_events()
        return super()._fault()
