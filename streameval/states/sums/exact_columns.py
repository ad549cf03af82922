"""Exact sums of products of columns of floats.

A column is cut into limbs of 18 bits, each a row of whole floats. Sums of products of limbs over
a chunk stay below 2**53, so that a matrix product of floats is exact in whatever order it adds.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np

from streameval.events.values import FloatArray
from streameval.states.sums.fixed_point import CHUNK

BITS = 18
"""Of a limb: 2**(2·18) · :data:`~streameval.states.sums.fixed_point.CHUNK` is 2**50."""

_LIMB = float(1 << BITS)
_MOST_LIMBS = 24
"""Wider columns take longer than their values one by one, and scaling may lose their bits."""

_PLAIN = 1000
"""A power of two between these exponents is a normal float."""

_AT_ONCE = 200_000
"""Multiplications of a matrix product: libraries start threads for more, which takes longer."""

assert CHUNK << (2 * BITS) < 1 << 53


class LimbRows(NamedTuple):
    """A column of floats x as Σ limbs[i] · 2**(top − 18·(i + 1)), without rounding.

    >>> one = LimbRows.of(np.array([1e17, 0.1]))
    >>> numerator, shift = dot(one, LimbRows.ones(2))
    >>> (10**17 + 0.1.as_integer_ratio()[0] / 2**55) == numerator / 2**shift
    True
    """

    limbs: FloatArray
    top: int

    @classmethod
    def of(cls, x: FloatArray) -> Self | None:
        """The limbs of finite floats; None where they differ too much in size."""
        sizes = np.abs(x)
        largest, smallest = float(sizes.max(initial=0.0)), float(sizes.min(initial=math.inf))
        if not largest:
            return cls(np.zeros((1, len(x))), 0)
        if not smallest:
            smallest = float(sizes[sizes > 0.0].min())
        top = math.frexp(largest)[1]
        count = -(-(top - math.frexp(smallest)[1] + 53) // BITS)
        if count > _MOST_LIMBS:
            return None
        limbs = np.empty((count, len(x)))
        # Each operation is exact: scaling by a power of two, and taking off the whole part.
        up = BITS - top
        rest = x * math.ldexp(1.0, up) if -_PLAIN < up < _PLAIN else np.ldexp(x, up)
        for n in range(count):
            np.trunc(rest, out=limbs[n])
            rest -= limbs[n]
            if not rest.any():
                return cls(limbs[: n + 1], top)
            rest *= _LIMB
        return cls(limbs, top)

    @classmethod
    def ones(cls, length: int) -> Self:
        """A column of ones."""
        return cls(np.ones((1, length)), BITS)

    def where(self, rows: FloatArray) -> Self:
        """The column, 0 where ``rows`` is 0 rather than 1."""
        return type(self)(self.limbs * rows, self.top)

    def times(self, other: Self) -> Self:
        """The product of two columns."""
        mine, theirs = len(self.limbs), len(other.limbs)
        limbs = np.zeros((mine + theirs, self.limbs.shape[1]))
        for n, limb in enumerate(self.limbs):
            limbs[n + 1 : n + 1 + theirs] += limb * other.limbs
        # Each is below 2**41: what passes 18 bits is carried into the limb above.
        for n in range(len(limbs) - 1, 0, -1):
            carry = np.trunc(limbs[n] * (1.0 / _LIMB))
            limbs[n - 1] += carry
            limbs[n] -= carry * _LIMB
        return type(self)(limbs, self.top + other.top)


def dots(ones: list[LimbRows], others: list[LimbRows]) -> list[list[tuple[int, int]]]:
    """Σ of the products of each column of one list with each of another: numerator and shift."""
    left = np.concatenate([column.limbs for column in ones])
    right = np.concatenate([column.limbs for column in others])
    sums = np.zeros((len(left), len(right)))
    step = max(64, _AT_ONCE // sums.size)
    for start in range(0, left.shape[1], step):
        events = slice(start, start + step)
        sums += left[:, events] @ right[:, events].T
    cells = sums.astype(np.int64).tolist()
    found = []
    at = 0
    for column in ones:
        rows = cells[at : at + len(column.limbs)]
        at += len(column.limbs)
        start, of_column = 0, []
        for other in others:
            end = start + len(other.limbs)
            places = len(column.limbs) + len(other.limbs)
            total = 0
            for i, row in enumerate(rows):
                for j, cell in enumerate(row[start:end]):
                    total += cell << BITS * (places - 2 - i - j)
            start = end
            of_column.append((total, BITS * places - column.top - other.top))
        found.append(of_column)
    return found


def dot(one: LimbRows, other: LimbRows) -> tuple[int, int]:
    """Σ of the products of two columns."""
    return dots([one], [other])[0][0]
