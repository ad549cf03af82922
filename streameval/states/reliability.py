"""Reliability bins: how often events occur, by the probability that they were given.

Probabilities are sorted into bins of equal width; each bin keeps the weight of
its events, of those that came true, and the sum of their probabilities. A
reliability curve and the expected calibration error follow by division.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import Any

import numpy as np

from streameval.errors import InputError, StateError, shown
from streameval.events import BoolArray, FloatArray, Weight
from streameval.states.fixed_point import (
    UNIT,
    sum_units_by_group,
    to_units,
    total_weight_by_group,
)
from streameval.states.sorted_runs import WeightArray
from streameval.states.state_fields import MOST_WEIGHT, weights_field

__all__ = ["MOST_BINS", "ReliabilityBins"]

MOST_BINS = 10_000

_SCALE = float(UNIT)

_ROUNDING = 1e-6
"""How far float sums of the same terms in another order may differ, generously."""


class ReliabilityBins:
    """Weight, hits and summed probability of events in bins of equal width.

    The edges are ``np.linspace(0, 1, bins + 1)`` and a probability on an edge
    belongs to the bin below it, as in ``sklearn.calibration.calibration_curve``.

    Args:
        bins: How many bins, 1 to 10,000.

    Attributes:
        edges: The inner edges, ascending, ``bins - 1`` of them.
        weights: Weight of the events in each bin.
        hits: Weight of those that occurred.
        units: Σ weight · probability in units of 2**-60.

    >>> bins = ReliabilityBins(2)
    >>> bins.add(0.5, True, 1)
    >>> bins.weights, bins.units[0] / UNIT
    ([1, 0], 0.5)
    """

    __slots__ = ("edges", "hits", "units", "weights")

    def __init__(self, bins: int = 10) -> None:
        if type(bins) is not int or not 1 <= bins <= MOST_BINS:
            raise InputError(
                "bins", expected=f"a whole number from 1 to {MOST_BINS}", got=shown(bins)
            )
        self.edges: list[float] = np.linspace(0.0, 1.0, bins + 1)[1:-1].tolist()
        self.weights: list[Weight] = [0] * bins
        self.hits: list[Weight] = [0] * bins
        self.units: list[Weight] = [0] * bins

    def add(self, probability: float, hit: bool, weight: Weight) -> None:
        """Count one event; probability in [0, 1], not checked."""
        place = bisect_left(self.edges, probability)
        self.weights[place] += weight
        if hit:
            self.hits[place] += weight
        self.units[place] += weight * int(probability * _SCALE)

    def remove(self, probability: float, hit: bool, weight: int) -> bool:
        """Remove one event; False, and nothing changed, when it cannot have been counted."""
        place = bisect_left(self.edges, probability)
        before = self.weights[place], self.hits[place], self.units[place]
        self.add(probability, hit, -weight)
        if self._sound(place):
            return True
        self.weights[place], self.hits[place], self.units[place] = before
        return False

    def add_many(self, probability: FloatArray, hit: BoolArray, weight: WeightArray | None) -> None:
        """:meth:`add` of each event, to the same bits where weights are whole.

        Cost:
            About 30 ns an event.
        """
        size = len(self.weights)
        groups = np.searchsorted(self.edges, probability)
        true = np.flatnonzero(hit)
        among = None if weight is None else weight[true]
        self._add_lists(
            total_weight_by_group(groups, size, weight),
            total_weight_by_group(groups[true], size, among),
            sum_units_by_group(probability, groups, size, weight),
        )

    def merge(self, other: ReliabilityBins) -> None:
        """Add the other's events; it is unchanged.

        Raises:
            StateError: It has another number of bins.
        """
        if len(self.weights) != len(other.weights):
            raise StateError(
                f"bins: states of {len(self.weights)} and of {len(other.weights)} bins "
                "cannot be merged; give both the same bins="
            )
        self._add_lists(other.weights, other.hits, other.units)

    def subtract(self, other: ReliabilityBins) -> None:
        """Take out all of another that was merged in; both exact."""
        self._add_lists(
            *([-value for value in each] for each in (other.weights, other.hits, other.units))
        )

    def _add_lists(
        self,
        weights: list[Weight],
        hits: list[Weight],
        units: list[Weight],
    ) -> None:
        self.weights = [a + b for a, b in zip(self.weights, weights, strict=True)]
        self.hits = [a + b for a, b in zip(self.hits, hits, strict=True)]
        self.units = [a + b for a, b in zip(self.units, units, strict=True)]

    def promote(self) -> None:
        """From integers to floats of the same size."""
        self.weights = [float(value) for value in self.weights]
        self.hits = [float(value) for value in self.hits]
        self.units = [float(value) for value in self.units]

    def total(self) -> Weight:
        """The weight of all events."""
        if self.weights and type(self.weights[0]) is float:
            return math.fsum(self.weights)
        return sum(self.weights)

    def copy(self) -> ReliabilityBins:
        """Independent bins of the same content."""
        new = ReliabilityBins.__new__(ReliabilityBins)
        new.edges = self.edges  # never changed
        new.weights, new.hits, new.units = self.weights[:], self.hits[:], self.units[:]
        return new

    def _sound(self, place: int) -> bool:
        """Whether one bin can be what events have left there."""
        weight, hits, units = self.weights[place], self.hits[place], self.units[place]
        low = to_units(math.nextafter(self.edges[place - 1], 1.0)) if place else 0
        high = to_units(self.edges[place]) if place < len(self.edges) else UNIT
        if type(weight) is int:
            return 0 <= hits <= weight and weight * low <= units <= weight * high
        more, less = weight * (1.0 + _ROUNDING), weight * (1.0 - _ROUNDING)
        return 0.0 <= hits <= more and less * low <= units <= more * high

    def read(self, data: dict[str, Any], name: str, exact: bool, hits: str) -> None:
        """Take over the three lists that a written state holds.

        Args:
            data: The state's fields.
            name: The state's name, for messages.
            exact: Whether they are integers.
            hits: Key of the hits.

        Raises:
            StateError: They are not those of this number of bins.
        """
        size = len(self.weights)
        self.weights = weights_field(data, "bin_weights", name, exact, size)
        self.hits = weights_field(data, hits, name, exact, size)
        self.units = weights_field(
            data, "bin_probability_units", name, exact, size, MOST_WEIGHT * UNIT
        )
        for place in range(size):
            if not self._sound(place):
                raise StateError(
                    f"{name}.bin_probability_units[{place}]: "
                    f"not the sums of events of that bin's weight"
                )

    def is_sound(self) -> bool:
        """Whether every bin can be what events have left there."""
        return all(self._sound(place) for place in range(len(self.weights)))
