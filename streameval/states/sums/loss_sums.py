"""Sums of two losses and reliability bins, of binary and of multi-class probabilities."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np

from streameval.errors import InputError, StateError, shown
from streameval.events.values import BoolArray, FloatArray, Weight
from streameval.states.fields import MOST_WEIGHT, int_field
from streameval.states.ranking.sorted_runs import WeightArray
from streameval.states.sums.fixed_point import (
    UNIT,
    sum_units,
    sum_units_by_group,
    to_units,
    total_weight_by_group,
)
from streameval.states.sums.sum_vector import Field, Form, SumVector, plus

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


MOST_BINS = 10_000

_SCALE = float(UNIT)

_ROUNDING = 1e-6
"""How far float sums of the same terms in another order may differ, generously."""

_MOST_LOSS = MOST_WEIGHT * 64 * UNIT  # a log loss of one event is below 37


def bin_edges(bins: int) -> list[float]:
    """The inner edges of bins of equal width, ascending, as ``np.linspace`` has them.

    A probability on an edge belongs to the bin below it, as in
    ``sklearn.calibration.calibration_curve``.
    """
    if type(bins) is not int or not 1 <= bins <= MOST_BINS:
        raise InputError("bins", expected=f"a whole number from 1 to {MOST_BINS}", got=shown(bins))
    return _edges_of(bins)


@lru_cache(maxsize=16)
def _edges_of(bins: int) -> list[float]:
    # One list for all states: none changes it.
    edges: list[float] = np.linspace(0.0, 1.0, bins + 1)[1:-1].tolist()
    return edges


def loss_fields(hits: str) -> tuple[Field, ...]:
    """The fields of a :class:`LossSums`, whose hits are written under this key."""
    return (
        Field("_log_loss", "log_loss_units", _MOST_LOSS),
        Field("_brier", "brier_units", _MOST_LOSS),
        Field("_bin_weights", "bin_weights"),
        Field("_bin_hits", hits),
        Field("_bin_units", "bin_probability_units", MOST_WEIGHT * UNIT),
    )


class LossSums(SumVector):
    """Sums of log loss and Brier terms in units of 2**-60, and reliability bins.

    Each bin of equal width keeps the weight of its events, of those that occurred, and the sum
    of their probabilities. A reliability curve and the calibration error follow by division.
    """

    # The compiled tally refers weakly to the state that it counts for.
    __slots__ = (
        "__weakref__",
        "_bin_hits",
        "_bin_units",
        "_bin_weights",
        "_brier",
        "_edges",
        "_exact",
        "_log_loss",
        "_terms",
        "_whole",
    )
    SETTINGS = ("bins",)
    MOST_BRIER: ClassVar[int]
    """Units of the largest Brier term of one event."""

    def __init__(self, bins: int = 10) -> None:
        self._edges = bin_edges(bins)
        self._exact = True
        self._log_loss: Weight = 0
        self._brier: Weight = 0
        self._bin_weights: list[Weight] = [0] * bins
        self._bin_hits: list[Weight] = [0] * bins
        self._bin_units: list[Weight] = [0] * bins
        self._whole: Self | None = None
        # Compiled code that counts events of weight 1 until they are taken.
        self._terms: Any = None

    def _empty(self) -> Self:
        return type(self)(self.bins)

    @classmethod
    def _of_settings(cls, fields: Form) -> Self:
        return cls(int_field(fields, "bins", cls.NAME, 1, MOST_BINS))

    # Reading

    @property
    def bins(self) -> int:
        """How many reliability bins."""
        return len(self._bin_weights)

    @property
    def weight(self) -> Weight:
        """Weight of the events whose probability is in [0, 1]."""
        self._settle()
        return self._in_bins()

    def _in_bins(self) -> Weight:
        return sum(self._bin_weights) if self._exact else math.fsum(self._bin_weights)

    @property
    def log_loss_units(self) -> Weight:
        """Σ weight · (−ln q), q the probability of what happened, in units of 2**-60."""
        self._settle()
        return self._log_loss

    @property
    def brier_units(self) -> Weight:
        """Σ weight · Brier term, in units of 2**-60."""
        self._settle()
        return self._brier

    @property
    def whole(self) -> Self:
        """The sums that a mean is computed of: integers where these are a multiple of some."""
        return self._whole or self

    def stands_for(self, whole: Self) -> Self:
        """This state, whose floats are a multiple of whole sums, until it changes."""
        self._whole = whole
        return self

    @property
    def bin_edges(self) -> list[float]:
        """The ``bins + 1`` edges from 0 to 1."""
        return [0.0, *self._edges, 1.0]

    @property
    def bin_weights(self) -> list[Weight]:
        """Weight of the events in each bin."""
        self._settle()
        return self._bin_weights[:]

    @property
    def bin_probability_units(self) -> list[Weight]:
        """Σ weight · probability of each bin, in units of 2**-60."""
        self._settle()
        return self._bin_units[:]

    # Counting

    def _add_event(
        self, loss: int, brier: int, probability: float, hit: bool, weight: Weight
    ) -> None:
        """Add the terms of one event, in units; its bin's probability, and whether it was a hit."""
        self._log_loss += weight * loss
        self._brier += weight * brier
        at = bisect_left(self._edges, probability)
        self._bin_weights[at] += weight
        if hit:
            self._bin_hits[at] += weight
        self._bin_units[at] += weight * int(probability * _SCALE)

    def _settle(self) -> None:
        counted = None if self._terms is None else self._terms.take()
        if counted is None:
            return
        log_loss, brier, rest, bins = counted
        self._log_loss += log_loss
        self._brier += brier
        self._add_rest(rest)
        for at, weight, hits, units in bins:
            self._bin_weights[at] += weight
            self._bin_hits[at] += hits
            self._bin_units[at] += units

    def _add_rest(self, rest: Any) -> None:
        """Add what compiled code has counted beside the losses and the bins."""
        raise NotImplementedError

    def _add_losses(
        self, given: FloatArray, squares: FloatArray, weight: WeightArray | None,
        square_weight: WeightArray | None,
    ) -> None:  # fmt: skip
        """Count the losses of many events; :meth:`_add_bins` counts their bins.

        Args:
            given: Probability given to what happened.
            squares: Brier terms: one for each event, or one for each cell.
            weight: Of each event.
            square_weight: Of each of ``squares``.
        """
        self._log_loss += sum_units(loss_column(given), weight)
        self._brier += sum_units(squares, square_weight)

    def _add_bins(
        self, probability: FloatArray, hit: BoolArray, weight: WeightArray | None
    ) -> None:
        """Count many events in the bins."""
        size = self.bins
        groups = np.searchsorted(self._edges, probability)
        true = np.flatnonzero(hit)
        among = None if weight is None else weight[true]
        totals = total_weight_by_group(groups, size, weight)
        hits = total_weight_by_group(groups[true], size, among)
        units = sum_units_by_group(probability, groups, size, weight)
        self._bin_weights = plus(self._bin_weights, totals, 1)
        self._bin_hits = plus(self._bin_hits, hits, 1)
        self._bin_units = plus(self._bin_units, units, 1)

    def add_multiples(self, parts: Iterable[tuple[Self, int]]) -> None:
        """Count all of others, whose sums are whole, so many times; negative to take back."""
        for other, factor in parts:
            self.merge(other, factor)

    def _merge(self, other: Self, times: int) -> None:
        super()._merge(other, times)
        self._whole = None

    def copy(self) -> Self:
        """An independent state of the same events."""
        # A merge into an empty state takes ten times as long.
        self._settle()
        new = self._empty()
        new._exact = self._exact
        for name, _, _ in self.FIELDS:
            value = getattr(self, name)
            setattr(new, name, value[:] if type(value) is list else value)
        new._whole = None if self._whole is None else self._whole.copy()
        return new

    def __reduce__(self) -> tuple[Any, tuple[Form]]:
        return type(self).from_state, (self.to_state(),)

    def _read(self, fields: Form) -> None:
        # The bins first, so that their errors are those that are raised.
        for field in (*self.FIELDS[2:], *self.FIELDS[:2]):
            self._read_field(fields, field)

    # Soundness

    def _bin_is_sound(self, at: int) -> bool:
        """Whether one bin's sums can be those of events."""
        weight, hits, units = self._bin_weights[at], self._bin_hits[at], self._bin_units[at]
        low = to_units(math.nextafter(self._edges[at - 1], 1.0)) if at else 0
        high = to_units(self._edges[at]) if at < len(self._edges) else UNIT
        if self._exact:
            return 0 <= hits <= weight and weight * low <= units <= weight * high
        more, less = weight * (1.0 + _ROUNDING), weight * (1.0 - _ROUNDING)
        return 0.0 <= hits <= more and less * low <= units <= more * high

    def _losses_are_sound(self) -> bool:
        """Whether the losses can be those of events of the bins' weight."""
        weight = more = less = self._in_bins()
        if not self._exact:
            more, less = weight * (1.0 + _ROUNDING), weight * (1.0 - _ROUNDING)
        return (
            less * _LEAST <= self._log_loss <= more * _MOST
            and 0 <= self._brier <= more * self.MOST_BRIER
        )

    def _is_sound(self, left: Any = None) -> bool:
        bins = range(self.bins) if left is None else (bisect_left(self._edges, left),)
        return all(map(self._bin_is_sound, bins)) and self._losses_are_sound()

    def _refuse_unsound(self) -> None:
        for at in range(self.bins):
            if not self._bin_is_sound(at):
                raise StateError(
                    f"{self.NAME}.bin_probability_units[{at}]: "
                    f"not the sums of events of that bin's weight"
                )
        if not self._losses_are_sound():
            raise StateError(
                f"{self.NAME}.log_loss_units: not the losses of events of weight "
                f"{shown(self._in_bins())}"
            )
