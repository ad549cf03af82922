"""A sum of any finite floats, without rounding.

Every finite float is a whole number divided by a power of two, and so is every
product and sum of them. The sum is kept as one such fraction in Python
integers, so it does not depend on the order of its terms, and a term can be
taken out again. Arrays are added a chunk at a time: 53-bit mantissas are cut
into limbs, and the limbs that share an exponent are summed in int64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from streameval.errors import StateError, shown
from streameval.events.values import FloatArray, IntArray, Weight
from streameval.states.ranking.sorted_runs import WeightArray
from streameval.states.sums.fixed_point import CHUNK, weight_digits

_MANTISSA_BITS = 53
_MANTISSA = float(1 << _MANTISSA_BITS)

_MOST_SHIFT = 3 * 1074
"""The square of the smallest float times the smallest float."""

_MOST_BITS = _MOST_SHIFT + 3 * 1024 + 64
"""Bits of 2**64 terms as large as a float times a float squared can be."""


def nearest_float(numerator: int, denominator: int) -> float:
    """A fraction as a correctly rounded float, ±inf beyond the largest one.

    >>> nearest_float(1, 10), nearest_float(-(2**2000), 1)
    (0.1, -inf)
    """
    try:
        return numerator / denominator
    except OverflowError:
        return -math.inf if numerator < 0 else math.inf


# Bits of 1 / unit that scale exact sums.
_INVERSE_BITS = 128


def inverse_of(unit: int) -> tuple[int, int]:
    """1 / unit to 128 bits, as a number over 2**shift."""
    shift = _INVERSE_BITS + unit.bit_length()
    return (1 << shift) // unit, shift


def scaled_sum(
    sums: Sequence[tuple[dict[str, int], int]], inverse: int, shift: int
) -> dict[str, int]:
    """Written form of Σ factor · sum, times inverse / 2**shift, of written sums and factors."""
    total = ExactSum()
    for form, factor in sums:
        total._add(inverse * form["numerator"] * factor, shift + form["shift"])
    return total.to_state()


class ExactSum:
    """Σ weight · x over finite floats, as an exact fraction ``numerator / 2**shift``.

    Cost:
        About 0.5 µs a term, 15 ns a term of an array; memory grows with the
        range of exponents seen, to about 500 bytes.

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
        """Add ``weight · x``; a negative weight takes it out again.

        Args:
            x: A finite float or an int; not checked.
            weight: An int or a finite float.
        """
        numerator, denominator = x.as_integer_ratio()
        shift = denominator.bit_length() - 1
        if weight != 1:
            by, denominator = weight.as_integer_ratio()
            numerator *= by
            shift += denominator.bit_length() - 1
        self._add(numerator, shift)

    def add_square(self, x: float, weight: Weight = 1) -> None:
        """Add ``weight · x²``, the square not rounded.

        >>> total = ExactSum()
        >>> total.add_square(2.0**-1074)
        >>> total.as_integer_ratio() == (1, 2**2148)
        True
        """
        numerator, denominator = x.as_integer_ratio()
        numerator *= numerator
        shift = 2 * (denominator.bit_length() - 1)
        if weight != 1:
            by, denominator = weight.as_integer_ratio()
            numerator *= by
            shift += denominator.bit_length() - 1
        self._add(numerator, shift)

    def add_many(self, x: FloatArray, weight: WeightArray | None = None) -> None:
        """Add Σ weight · x, to the same bits as :meth:`add` of each.

        Args:
            x: One-dimensional, finite; not checked.
            weight: Positive, int64 or float64, or None for 1 each.

        >>> total = ExactSum()
        >>> total.add_many(np.array([0.5, 0.25]), np.array([2, 1]))
        >>> total.as_integer_ratio()
        (5, 4)
        """
        for start in range(0, len(x), CHUNK):
            chunk = slice(start, start + CHUNK)
            mantissa, exponent = np.frexp(x[chunk])
            whole = (mantissa * _MANTISSA).astype(np.int64)
            # The shift of a negative integer rounds down, so low is never negative.
            limbs = [(whole >> 27, 27), (whole & 0x7FF_FFFF, 0)]
            self._add_limbs(
                limbs,
                exponent.astype(np.int64) - _MANTISSA_BITS,
                None if weight is None else weight[chunk],
            )

    def add_squares_many(self, x: FloatArray, weight: WeightArray | None = None) -> None:
        """Add Σ weight · x², to the same bits as :meth:`add_square` of each."""
        for start in range(0, len(x), CHUNK):
            chunk = slice(start, start + CHUNK)
            mantissa, exponent = np.frexp(np.abs(x[chunk]))
            whole = (mantissa * _MANTISSA).astype(np.int64)
            # (a·2^36 + b·2^18 + c)² with 18-bit parts: no limb is above 3·2^36.
            a, b, c = whole >> 36, (whole >> 18) & 0x3_FFFF, whole & 0x3_FFFF
            limbs = [(a * a, 72), (2 * a * b, 54), (2 * a * c + b * b, 36)]
            limbs += [(2 * b * c, 18), (c * c, 0)]
            self._add_limbs(
                limbs,
                2 * (exponent.astype(np.int64) - _MANTISSA_BITS),
                None if weight is None else weight[chunk],
            )

    def _add_limbs(
        self,
        limbs: list[tuple[IntArray, int]],
        exponent: IntArray,
        weight: WeightArray | None,
    ) -> None:
        """Add Σ weight · 2**exponent · Σ limb · 2**shift over one chunk."""
        if weight is None:
            digits_of: list[tuple[int, IntArray | None]] = [(0, None)]
        else:
            if weight.dtype.kind == "f":
                mantissa, power = np.frexp(weight)
                weight = (mantissa * _MANTISSA).astype(np.int64)
                exponent = exponent + (power.astype(np.int64) - _MANTISSA_BITS)
            digits_of = list(weight_digits(weight))
        lowest = int(exponent.min())
        groups = exponent - lowest
        size = int(groups.max()) + 1
        total = 0
        for digit_shift, digits in digits_of:
            for limb, shift in limbs:
                sums = np.zeros(size, dtype=np.int64)
                np.add.at(sums, groups, limb if digits is None else limb * digits)
                for group in np.flatnonzero(sums).tolist():
                    total += int(sums[group]) << (group + shift + digit_shift)
        self._add(total, -lowest)

    def merge(self, other: ExactSum, times: int = 1) -> None:
        """Add the other sum so many times; it is unchanged."""
        self._add(times * other._numerator, other._shift)

    def _add(self, numerator: int, shift: int) -> None:
        ahead = self._shift - shift
        if ahead >= 0:
            self._numerator += numerator << ahead
        else:
            self._numerator = (self._numerator << -ahead) + numerator
            self._shift = shift

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

    def copy(self) -> ExactSum:
        """An independent sum of the same terms."""
        new = ExactSum()
        new._numerator, new._shift = self._numerator, self._shift
        return new

    def to_state(self) -> dict[str, Any]:
        """``{"numerator": int, "shift": int}`` in lowest terms: equal sums, equal data."""
        numerator, shift = self._canonical()
        return {"numerator": numerator, "shift": shift}

    @classmethod
    def from_state(cls, data: object, field: str = "exact_sum") -> ExactSum:
        """The sum that :meth:`to_state` wrote.

        Raises:
            StateError: ``data`` is not that of a sum in lowest terms.
        """
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
