"""What binary and multi-class probabilities have in common: two losses and bins.

The part of :class:`~streameval.states.probability.ProbabilitySums` and of
:class:`~streameval.states.class_probability.ClassProbabilitySums` that adds,
takes out, merges and is written.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

import numpy as np

from streameval.errors import InputError, StateError, shown
from streameval.events.values import BoolArray, FloatArray, Weight
from streameval.states.fields import MOST_WEIGHT, bool_field, int_field, weight_field, weights_field
from streameval.states.ranking.sorted_runs import WeightArray
from streameval.states.sums.fixed_point import (
    UNIT,
    sum_units,
    sum_units_by_group,
    to_units,
    total_weight_by_group,
)

# The natural logarithm with the same bits on every machine and in every path.
#
# math.log and np.log differ from each other in the last bit, and each
# differs between platforms, so a log loss summed from either could not be merged
# or resumed bit for bit elsewhere. Here one sequence of IEEE additions,
# multiplications and divisions is written twice, for one float and for arrays;
# each single operation is correctly rounded everywhere, so the two agree.
#
# The algorithm is that of FreeBSD's e_log.c (Sun Microsystems, 1993): write
# x = 2**k · (1 + f) with √½ ≤ 1 + f < √2, and sum a polynomial in
# s = f / (2 + f) fitted to the remainder of log(1 + f). Its error is below one
# unit in the last place.

_SQRT_HALF = 0.7071067811865476
_LN2_HIGH = 6.93147180369123816490e-01  # its last 32 bits are 0: k · _LN2_HIGH is exact
_LN2_LOW = 1.90821492927058770002e-10
_L1 = 6.666666666666735130e-01
_L2 = 3.999999999940941908e-01
_L3 = 2.857142874366239149e-01
_L4 = 2.222219843214978396e-01
_L5 = 1.818357216161805012e-01
_L6 = 1.531383769920937332e-01
_L7 = 1.479819860511658591e-01


def portable_log(x: float) -> float:
    """Natural logarithm of a positive finite float.

    Args:
        x: Positive and finite, subnormal included; not checked.

    Returns:
        ln x within one unit in the last place.

    Cost:
        About 0.4 µs.

    >>> portable_log(1.0), portable_log(0.5)
    (0.0, -0.6931471805599453)
    """
    mantissa, k = math.frexp(x)
    if mantissa < _SQRT_HALF:
        mantissa += mantissa
        k -= 1
    f = mantissa - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    remainder = z * (_L1 + w * (_L3 + w * (_L5 + w * _L7))) + w * (_L2 + w * (_L4 + w * _L6))
    half_square = 0.5 * f * f
    return s * (half_square + remainder) + k * _LN2_LOW - half_square + f + k * _LN2_HIGH


def portable_log_many(x: FloatArray) -> FloatArray:
    """:func:`portable_log` of each element, bit for bit.

    Args:
        x: Positive finite float64, any shape; not checked.

    Cost:
        About 15 ns an element while the array fits the processor's cache.

    >>> portable_log_many(np.array([1.0, 0.5])).tolist()
    [0.0, -0.6931471805599453]
    """
    mantissa, exponent = np.frexp(x)
    low = mantissa < _SQRT_HALF
    mantissa *= 1.0 + low
    k = (exponent - low).astype(np.float64)
    f = mantissa - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    # Each numpy call rounds its result, so nothing here can be fused into one
    # operation with one rounding, as a compiler might do with C.
    remainder = z * (_L1 + w * (_L3 + w * (_L5 + w * _L7))) + w * (_L2 + w * (_L4 + w * _L6))
    half_square = 0.5 * f * f
    result: FloatArray = (
        s * (half_square + remainder) + k * _LN2_LOW - half_square + f + k * _LN2_HIGH
    )
    return result


# The log loss of one event, clipped as scikit-learn clips, in fixed point.

LOWEST = float(np.finfo(np.float64).eps)
"""Probabilities are raised to this before the logarithm, so that 0 is not infinite."""

HIGHEST = 1.0 - LOWEST
"""Probabilities are lowered to this before the logarithm."""

_MOST = to_units(-portable_log(LOWEST))
_LEAST = to_units(-portable_log(HIGHEST))
_TERM_SCALE = float(UNIT)


def loss_units(given: float) -> int:
    """−ln of the probability given to what happened, in units of 2**-60.

    >>> round(loss_units(0.5) / UNIT, 6), round(loss_units(0.0) / UNIT, 6)
    (0.693147, 36.043653)
    """
    if given < LOWEST:
        given = LOWEST
    elif given > HIGHEST:
        given = HIGHEST
    return int(-portable_log(given) * _TERM_SCALE)


def loss_column(given: FloatArray) -> FloatArray:
    """−ln of each probability, as :func:`loss_units` before it is cut to units."""
    loss = portable_log_many(np.clip(given, LOWEST, HIGHEST))
    return np.negative(loss, out=loss)


def sound_losses(log_loss: Weight, brier: Weight, weight: Weight, most_brier: int) -> bool:
    """Whether the two sums can be those of events of this total weight.

    Args:
        log_loss: Units of 2**-60.
        brier: Units of 2**-60.
        weight: Total weight of the events.
        most_brier: Units of the largest Brier term of one event.
    """
    if type(weight) is int:
        return weight * _LEAST <= log_loss <= weight * _MOST and 0 <= brier <= weight * most_brier
    # Float sums of the same terms differ by their order; a millionth is generous.
    more, less = weight * 1.000001, weight * 0.999999
    return less * _LEAST <= log_loss <= more * _MOST and 0.0 <= brier <= more * most_brier


# Reliability bins: how often events occur, by the probability that they were given.
#
# Probabilities are sorted into bins of equal width; each bin keeps the weight of
# its events, of those that occurred, and the sum of their probabilities. A
# reliability curve and the expected calibration error follow by division.

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
        at = bisect_left(self.edges, probability)
        self.weights[at] += weight
        if hit:
            self.hits[at] += weight
        self.units[at] += weight * int(probability * _SCALE)

    def remove(self, probability: float, hit: bool, weight: int) -> bool:
        """Remove one event; False, and nothing changed, when it cannot have been counted."""
        at = bisect_left(self.edges, probability)
        before = self.weights[at], self.hits[at], self.units[at]
        self.add(probability, hit, -weight)
        if self._sound(at):
            return True
        self.weights[at], self.hits[at], self.units[at] = before
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

    def add_multiple(self, other: ReliabilityBins, factor: int) -> None:
        """Add the other's integers so many times."""
        self._add_lists(
            *([value * factor for value in own] for own in (other.weights, other.hits, other.units))
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

    def _sound(self, at: int) -> bool:
        """Whether one bin's sums can be those of events."""
        weight, hits, units = self.weights[at], self.hits[at], self.units[at]
        low = to_units(math.nextafter(self.edges[at - 1], 1.0)) if at else 0
        high = to_units(self.edges[at]) if at < len(self.edges) else UNIT
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
        for at in range(size):
            if not self._sound(at):
                raise StateError(
                    f"{name}.bin_probability_units[{at}]: "
                    f"not the sums of events of that bin's weight"
                )

    def is_sound(self) -> bool:
        """Whether every bin's sums can be those of events."""
        return all(self._sound(at) for at in range(len(self.weights)))


_MOST_LOSS = 64 * UNIT  # a log loss of one event is below 37


class LossSums:
    """Sums of log loss and Brier terms in units of 2**-60, and reliability bins.

    Args:
        bins: Reliability bins of equal width, 1 to 10,000.
        most_brier: Units of the largest Brier term of one event.

    Attributes:
        bins: The reliability bins.
        exact: False from the first weight that is not whole: all is float then.
        log_loss: Σ weight · term.
        brier: Σ weight · term.
        outside: Weight of the events that are in none of these sums, as their score is no
            probability.

    >>> sums = LossSums(10, UNIT)
    >>> sums.add(UNIT, UNIT // 4, 0.5, True, weight=2)
    >>> sums.brier / UNIT, sums.bins.total()
    (0.5, 2)
    """

    __slots__ = ("bins", "brier", "exact", "log_loss", "most_brier", "outside")

    def __init__(self, bins: int, most_brier: int) -> None:
        self.bins = ReliabilityBins(bins)
        self.exact = True
        self.log_loss: Weight = 0
        self.brier: Weight = 0
        self.outside: Weight = 0
        self.most_brier = most_brier

    def add(self, loss: int, brier: int, probability: float, hit: bool, weight: Weight) -> None:
        """Count one event: its terms in units, its bin's probability, whether it was a hit."""
        self.log_loss += weight * loss
        self.brier += weight * brier
        self.bins.add(probability, hit, weight)

    def add_sums(
        self, log_loss: int, brier: int, bins: Iterable[tuple[int, int, int, int]]
    ) -> None:
        """Count events by their sums in units.

        Args:
            log_loss: Σ term.
            brier: Σ term.
            bins: Bin, events in it, hits among them, Σ probability.
        """
        self.log_loss += log_loss
        self.brier += brier
        for at, events, hits, units in bins:
            self.bins.weights[at] += events
            self.bins.hits[at] += hits
            self.bins.units[at] += units

    def add_losses(
        self, given: FloatArray, squares: FloatArray, weight: WeightArray | None,
        square_weight: WeightArray | None,
    ) -> None:  # fmt: skip
        """Count the losses of many events; :meth:`add_bins` counts their bins.

        Args:
            given: Probability given to what happened.
            squares: Brier terms: one for each event, or one for each cell.
            weight: Of each event.
            square_weight: Of each of ``squares``.
        """
        self.log_loss += sum_units(loss_column(given), weight)
        self.brier += sum_units(squares, square_weight)

    def add_bins(self, probability: FloatArray, hit: BoolArray, weight: WeightArray | None) -> None:
        """Count many events in the bins."""
        self.bins.add_many(probability, hit, weight)

    def remove(self, loss: int, brier: int, probability: float, hit: bool, weight: int) -> bool:
        """Remove one event; False, and nothing changed, when it cannot have been counted."""
        if not self.bins.remove(probability, hit, weight):
            return False
        self.log_loss -= weight * loss
        self.brier -= weight * brier
        if self._agree():
            return True
        self.add(loss, brier, probability, hit, weight)
        return False

    def merge(self, other: LossSums) -> None:
        """Add the other's events; it is unchanged.

        Raises:
            StateError: The other has another number of bins. Nothing is changed.
        """
        self.bins.merge(other.bins)
        if not other.exact:
            self.promote()
        self.log_loss += other.log_loss
        self.brier += other.brier
        self.outside += other.outside  # float from here if either was

    def subtract(self, other: LossSums) -> None:
        """Take out all of another that was merged in; both exact."""
        self.bins.subtract(other.bins)
        self.log_loss -= other.log_loss
        self.brier -= other.brier
        self.outside -= other.outside

    def add_multiple(self, other: LossSums, factor: int) -> None:
        """Add the other's integers so many times; negative to take them out."""
        self.bins.add_multiple(other.bins, factor)
        self.log_loss += other.log_loss * factor
        self.brier += other.brier * factor
        self.outside += other.outside * factor

    def promote(self) -> None:
        """Make all sums floats, for good."""
        self.exact = False
        self.bins.promote()
        self.log_loss = float(self.log_loss)
        self.brier = float(self.brier)
        self.outside = float(self.outside)

    def copy(self) -> LossSums:
        """Independent sums of the same events."""
        new = LossSums.__new__(LossSums)
        new.bins = self.bins.copy()
        new.exact, new.most_brier = self.exact, self.most_brier
        new.log_loss, new.brier, new.outside = self.log_loss, self.brier, self.outside
        return new

    def write(self, hits: str) -> dict[str, Any]:
        """The fields of the written form; ``hits`` names the list of hit weights."""
        return {
            "bins": len(self.bins.weights),
            "exact": self.exact,
            "log_loss_units": self.log_loss,
            "brier_units": self.brier,
            "bin_weights": self.bins.weights[:],
            hits: self.bins.hits[:],
            "bin_probability_units": self.bins.units[:],
        }

    @classmethod
    def read(cls, data: dict[str, Any], name: str, hits: str, most_brier: int) -> LossSums:
        """The sums that :meth:`write` wrote; the keys are known to be there.

        Raises:
            StateError: They are not those of any events.
        """
        exact = bool_field(data, "exact", name)
        new = cls(int_field(data, "bins", name, 1, MOST_BINS), most_brier)
        new.exact = exact
        new.bins.read(data, name, exact, hits)
        most = MOST_WEIGHT * _MOST_LOSS
        new.log_loss = weight_field(data, "log_loss_units", name, exact, most)
        new.brier = weight_field(data, "brier_units", name, exact, most)
        if not new._agree():
            raise StateError(
                f"{name}.log_loss_units: not the losses of events of weight "
                f"{shown(new.bins.total())}"
            )
        return new

    def _agree(self) -> bool:
        """Whether the losses can be those of events of the bins' weight."""
        return sound_losses(self.log_loss, self.brier, self.bins.total(), self.most_brier)

    def _check(self) -> None:
        kind = int if self.exact else float
        values = [self.log_loss, self.brier]
        values += self.bins.weights + self.bins.hits + self.bins.units
        assert all(type(value) is kind for value in values)
        assert self.bins.is_sound()
        assert self._agree()
