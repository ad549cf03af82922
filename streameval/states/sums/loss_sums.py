"""Sums of two losses and reliability bins, of binary and of multi-class probabilities."""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache
from operator import add
from typing import Any, ClassVar, Self

import numpy as np

from streameval.errors import InputError, shown
from streameval.events.values import Weight
from streameval.states.sums.fixed_point import (
    UNIT,
    sum_units,
    sum_units_by_group,
    to_units,
    total_weight_by_group,
)
from streameval.states.sums.loss_terms import (
    LEAST_LOSS,
    MOST_LOSS,
    ColumnTerms,
    EventTerms,
    columns_of_terms,
    loss_column,
)
from streameval.states.sums.sum_vector import Field, Form, SumVector, per_size

MOST_BINS = 10_000
_SCALE = float(UNIT)


def bin_edges(bins: int) -> list[float]:
    """The inner edges of bins of equal width; a probability on an edge is in the bin below it."""
    if type(bins) is not int or not 1 <= bins <= MOST_BINS:
        raise InputError("bins", expected=f"a whole number from 1 to {MOST_BINS}", got=shown(bins))
    return _edges_of(bins)


@lru_cache(maxsize=16)
def _edges_of(bins: int) -> list[float]:
    # One list for all states: none changes it.
    edges: list[float] = np.linspace(0.0, 1.0, bins + 1)[1:-1].tolist()
    return edges


class LossSums(SumVector):
    """Sums of log loss and Brier terms in units of 2**-60, and reliability bins.

    The first field of a subclass is the weight of the events of each bin that occurred.
    """

    # The compiled tally refers weakly to the state that it counts for.
    __slots__ = ("__weakref__", "_edges", "_terms", "_whole")
    SIZE = ("bins", 1, MOST_BINS)
    MOST_BRIER: ClassVar[int]
    """Units of the largest Brier term of one event."""

    bin_weights = Field[list[Weight]](per_size)
    """Weight of the events in each bin."""
    bin_probability_units = Field[list[Weight]](per_size, UNIT)
    """Σ weight · probability of each bin, in units of 2**-60."""
    log_loss_units = Field[Weight](None, 64 * UNIT)
    """Σ weight · (−ln q), q the probability of what happened, in units of 2**-60."""
    brier_units = Field[Weight](None, 64 * UNIT)
    """Σ weight · Brier term, in units of 2**-60."""

    def __init__(self, bins: int = 10) -> None:
        self._edges = bin_edges(bins)
        self._whole: Self | None = None
        # Compiled code that counts events of weight 1 until they are taken.
        self._terms: Any = None
        super().__init__(bins)

    # Reading

    @property
    def bins(self) -> int:
        """How many reliability bins."""
        return self._size

    @property
    def weight(self) -> Weight:
        """Weight of the events whose probability is in [0, 1]."""
        self._settle()
        return self._in_bins()

    def _in_bins(self) -> Weight:
        weights = self._values[: self._size]
        return sum(weights) if self._exact else math.fsum(weights)

    @property
    def whole(self) -> Self:
        """The sums that a mean is computed of: the exact source of this state, or itself."""
        return self._whole or self

    def with_exact_source(self, whole: Self) -> Self:
        """This state, whose floats are a multiple of whole sums, until it changes."""
        self._whole = whole
        return self

    @property
    def bin_edges(self) -> list[float]:
        """The ``bins + 1`` edges from 0 to 1."""
        return [0.0, *self._edges, 1.0]

    # Counting

    def _add(self, terms: EventTerms | None, weight: Weight) -> None:
        if self._terms is not None:
            self._settle()
        self._whole = None
        if terms is None:
            self._values[-1] += weight  # outside, of binary events
            return
        loss, brier, _, confidence, hit = terms
        values, bins = self._values, self._size
        at = bisect_left(self._edges, confidence)
        values[at] += weight
        values[bins + at] += weight * int(confidence * _SCALE)
        values[2 * bins] += weight * loss
        values[2 * bins + 1] += weight * brier
        if hit:
            values[2 * bins + 2 + at] += weight

    def _settle(self) -> None:
        counted = None if self._terms is None else self._terms.take()
        if counted is None:
            return
        log_loss, brier, rest, counted_bins = counted
        values, bins = self._values, self._size
        values[2 * bins] += log_loss
        values[2 * bins + 1] += brier
        self._add_rest(rest)
        for at, weight, hits, units in counted_bins:
            values[at] += weight
            values[bins + at] += units
            values[2 * bins + 2 + at] += hits

    def _add_rest(self, rest: Any) -> None:
        """Add what compiled code has counted beside the losses and the bins."""
        raise NotImplementedError

    def _add_many(self, y_true: Any, given: Any, weight: Any) -> None:
        for terms in columns_of_terms(y_true, given, weight):
            self._add_chunk(terms)

    def _add_chunk(self, terms: ColumnTerms) -> None:
        given, squares, _, confidence, hit, weight = terms
        bins, cells, among = self._size, None, None
        groups = np.searchsorted(self._edges, confidence)
        true = np.flatnonzero(hit)
        if weight is not None:
            cells, among = np.repeat(weight, squares.shape[1]), weight[true]
        more = total_weight_by_group(groups, bins, weight)
        more += sum_units_by_group(confidence, groups, bins, weight)
        more += [sum_units(loss_column(given), weight), sum_units(squares.ravel(), cells)]
        more += total_weight_by_group(groups[true], bins, among)
        self._values[: len(more)] = map(add, self._values, more)
        self._whole = None

    def _merge(self, other: Self, times: int) -> None:
        super()._merge(other, times)
        self._whole = None

    def copy(self) -> Self:
        """An independent state of the same events."""
        new = super().copy()
        new._whole = None if self._whole is None else self._whole.copy()
        return new

    def __reduce__(self) -> tuple[Any, tuple[Form]]:
        return type(self).from_state, (self.to_state(),)

    # Soundness

    def _bin_is_sound(self, at: int) -> bool:
        """Whether one bin's sums can be those of events."""
        values, bins = self._values, self._size
        weight, units, hits = values[at], values[bins + at], values[2 * bins + 2 + at]
        low = to_units(math.nextafter(self._edges[at - 1], 1.0)) if at else 0
        high = to_units(self._edges[at]) if at < len(self._edges) else UNIT
        more, less = self._about(weight)
        return bool(0 <= hits <= more and less * low <= units <= more * high)

    def _fault(self, terms: EventTerms | None = None) -> str:
        bins = range(self._size)
        if terms is not None:
            bins = range(at := bisect_left(self._edges, terms[3]), at + 1)
        for at in bins:
            if not self._bin_is_sound(at):
                return f".bin_probability_units[{at}]: not the sums of events of that bin's weight"
        weight = self._in_bins()
        more, less = self._about(weight)
        log_loss, brier = self._values[2 * self._size : 2 * self._size + 2]
        lost = less * LEAST_LOSS <= log_loss <= more * MOST_LOSS
        if lost and 0 <= brier <= more * self.MOST_BRIER:
            return ""
        return f".log_loss_units: not the losses of events of weight {shown(weight)}"
