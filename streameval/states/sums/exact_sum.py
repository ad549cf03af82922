"""A sum of any finite floats, without rounding: a fraction of Python integers.

Arrays are added a chunk at a time: 53-bit mantissas are cut into limbs, and the limbs that
share an exponent are summed in int64.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from streameval.errors import StateError, shown
from streameval.events.values import FloatArray, IntArray, Weight
from streameval.states.ranking.weights import WeightArray
from streameval.states.sums.fixed_point import Limbs, chunks, sum_limbs

_MANTISSA_BITS = 53

_MOST_SHIFT = 5 * 1074
"""The fourth power of the smallest float times the smallest float, as a weight."""

_MOST_BITS = _MOST_SHIFT + 5 * 1024 + 64
"""Bits of 2**64 terms as large as a weight times the fourth power of a float can be."""

_INVERSE_BITS = 128
"""Bits of 1 / unit that scale exact sums."""


def nearest_float(numerator: int, denominator: int) -> float:
    """A fraction as a correctly rounded float, ±inf beyond the largest one."""
    try:
        return numerator / denominator
    except OverflowError:
        return -math.inf if numerator < 0 else math.inf


_ROOT_BITS = 128
"""Bits of a quotient whose root is taken as an integer."""

_SMALL, _LARGE = 2.0**-1000, 2.0**1000
"""Between these a quotient loses no digits to the ends of the range of floats."""


def nearest_root(numerator: int, denominator: int) -> float:
    """The square root of a fraction from 0, of any size, to one unit in the last place."""
    try:
        quotient = numerator / denominator
    except OverflowError:
        quotient = 0.0
    if _SMALL < quotient < _LARGE:
        return math.sqrt(quotient)
    # Half the difference of the sizes, so that the quotient has some 128 bits.
    shift = (_ROOT_BITS + denominator.bit_length() - numerator.bit_length()) // 2
    up, down = (2 * shift, 0) if shift >= 0 else (0, -2 * shift)
    root = math.isqrt((numerator << up) // (denominator << down))
    return nearest_float(root << max(0, -shift), 1 << max(0, shift))


def scaled_sum(
    forms: Sequence[dict[str, int]], factors: Iterable[int], unit: int, power: int = 1
) -> dict[str, int]:
    """Written form of Σ sum · (factor / unit)**power over written sums, 1 / unit to 128 bits."""
    shift = _INVERSE_BITS + unit.bit_length()
    inverse = (1 << shift) // unit
    total = ExactSum()
    for form, factor in zip(forms, factors, strict=True):
        by = (inverse * factor) ** power
        total.add_fraction(by * form["numerator"], power * shift + form["shift"])
    return total.to_state()


def _whole(x: WeightArray) -> tuple[IntArray, IntArray]:
    """Finite floats as whole mantissas of 53 bits and exponents."""
    mantissa, exponent = np.frexp(x)
    whole = (mantissa * float(1 << _MANTISSA_BITS)).astype(np.int64)
    return whole, exponent.astype(np.int64) - _MANTISSA_BITS


def largest_shift(sums: Iterable[ExactSum]) -> int:
    """The least power of two that is a denominator of all sums, as they are held."""
    return max([each._shift for each in sums])


def numerators(sums: Iterable[ExactSum], shift: int) -> list[int]:
    """The numerators over 2**shift, which is at least :func:`largest_shift`."""
    return [each._numerator << (shift - each._shift) for each in sums]


class ExactSum:
    """Σ weight · x over finite floats, as an exact fraction ``numerator / 2**shift``.

    >>> total = ExactSum()
    >>> for x in (1e17, 0.1, -1e17):
    ...     total.add(x)
    >>> total.value()
    0.1
    """

    __slots__ = ("_numerator", "_shift")

    def __init__(self) -> None:
        self._numerator = 0
        self._shift = 0

    def add(self, x: float, weight: Weight = 1) -> None:
        """Add ``weight · x``, both finite; a negative weight removes it."""
        numerator, denominator = x.as_integer_ratio()
        self.add_fraction(numerator, denominator.bit_length() - 1, weight)

    def add_square(self, x: float, weight: Weight = 1) -> None:
        """Add ``weight · x²``, the square not rounded."""
        numerator, denominator = x.as_integer_ratio()
        self.add_fraction(numerator * numerator, 2 * denominator.bit_length() - 2, weight)

    def add_fraction(self, numerator: int, shift: int, weight: Weight = 1) -> None:
        """Add ``weight · numerator / 2**shift``."""
        if weight != 1:
            by, denominator = weight.as_integer_ratio()
            numerator *= by
            shift += denominator.bit_length() - 1
        ahead = self._shift - shift
        if ahead >= 0:
            self._numerator += numerator << ahead
        else:
            self._numerator = (self._numerator << -ahead) + numerator
            self._shift = shift

    def add_many(self, x: FloatArray, weight: WeightArray | None = None) -> None:
        """:meth:`add` each of an array; weights are positive, None is 1 each."""
        for chunk in chunks(len(x)):
            whole, exponent = _whole(x[chunk])
            # The shift of a negative integer rounds down, so the low limb is never negative.
            limbs = [(whole >> 27, 27), (whole & 0x7FF_FFFF, 0)]
            self._add_limbs(limbs, exponent, None if weight is None else weight[chunk])

    def add_squares_many(self, x: FloatArray, weight: WeightArray | None = None) -> None:
        """:meth:`add_square` each of an array; weights are positive, None is 1 each."""
        for chunk in chunks(len(x)):
            whole, exponent = _whole(np.abs(x[chunk]))
            # (a·2^36 + b·2^18 + c)² with 18-bit parts: no limb is above 3·2^36.
            a, b, c = whole >> 36, (whole >> 18) & 0x3_FFFF, whole & 0x3_FFFF
            limbs = [(a * a, 72), (2 * a * b, 54), (2 * a * c + b * b, 36)]
            limbs += [(2 * b * c, 18), (c * c, 0)]
            self._add_limbs(limbs, 2 * exponent, None if weight is None else weight[chunk])

    def _add_limbs(self, limbs: Limbs, exponent: IntArray, weight: WeightArray | None) -> None:
        """Add Σ weight · 2**exponent · Σ limb · 2**shift over one chunk."""
        if weight is not None and weight.dtype.kind == "f":
            weight, power = _whole(weight)
            exponent = exponent + power
        lowest = int(exponent.min())
        groups = exponent - lowest
        totals = sum_limbs(limbs, weight, groups, int(groups.max()) + 1)
        self.add_fraction(sum(total << at for at, total in enumerate(totals) if total), -lowest)

    # The arithmetic of an element of a SumVector: new sums, the operands are unchanged.

    def __add__(self, other: ExactSum) -> ExactSum:
        new = +self
        new.add_fraction(other._numerator, other._shift)
        return new

    def __rmul__(self, times: int) -> ExactSum:
        new = +self
        new._numerator *= times
        return new

    def __bool__(self) -> bool:
        return self._numerator != 0

    def __pos__(self) -> ExactSum:
        new = ExactSum()
        new._numerator, new._shift = self._numerator, self._shift
        return new

    def as_integer_ratio(self) -> tuple[int, int]:
        """``(numerator, denominator)`` in lowest terms, as ``float.as_integer_ratio``."""
        numerator, shift = self._canonical()
        return numerator, 1 << shift

    def _canonical(self) -> tuple[int, int]:
        numerator, shift = self._numerator, self._shift
        if not numerator:
            return 0, 0
        if shift < 0:
            return numerator << -shift, 0
        # The lowest set bit is how often both halve.
        halvings = min(shift, (numerator & -numerator).bit_length() - 1)
        return numerator >> halvings, shift - halvings

    def value(self) -> float:
        """The nearest float; ±inf beyond the largest one."""
        return nearest_float(*self.as_integer_ratio())

    def to_state(self) -> dict[str, Any]:
        """``{"numerator": int, "shift": int}`` in lowest terms: equal sums, equal data."""
        numerator, shift = self._canonical()
        return {"numerator": numerator, "shift": shift}

    @classmethod
    def from_state(cls, data: object, field: str = "exact_sum") -> ExactSum:
        """The sum that :meth:`to_state` wrote; raises StateError."""
        if not isinstance(data, dict) or set(data) != {"numerator", "shift"}:
            raise StateError(f"{field}: expected numerator and shift, got {shown(data)}")
        numerator, shift = data["numerator"], data["shift"]
        if type(shift) is not int or not 0 <= shift <= _MOST_SHIFT:
            raise StateError(
                f"{field}.shift: expected an integer in 0 … {_MOST_SHIFT}, got {shown(shift)}"
            )
        if type(numerator) is not int or numerator.bit_length() > _MOST_BITS:
            raise StateError(
                f"{field}.numerator: expected an integer of at most {_MOST_BITS} bits, "
                f"got {type(numerator).__name__}"
            )
        if shift and numerator & 1 == 0:
            raise StateError(f"{field}: expected a fraction in lowest terms")
        new = cls()
        new._numerator, new._shift = numerator, shift
        return new

    def _check(self) -> None:
        numerator, shift = self._canonical()
        assert shift == 0 or numerator & 1
        assert 0 <= shift <= _MOST_SHIFT
        assert numerator.bit_length() <= _MOST_BITS

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExactSum):
            return NotImplemented
        return self._canonical() == other._canonical()

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"<ExactSum {self.value()!r}>"
