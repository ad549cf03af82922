"""Sums of bounded floats that do not depend on the order of their terms.

Each term is rounded down to a whole number of *units* of 2**-60 and the units are added as
integers. In numpy a large integer is a few int64 *limbs*, each with a shift; a running total
is a Python ``int``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

from streameval.events.values import FloatArray, IntArray, Weight
from streameval.states.ranking.weights import WeightArray

UNIT = 1 << 60
"""How many units make 1."""

CHUNK = 1 << 14
"""Most events of one numpy call: temporaries stay in the processor's cache, and a chunk's
int64 sums below 2**63, for a limb has 38 bits at most and a digit of a weight 11."""

Limbs: TypeAlias = Sequence[tuple[IntArray, int]]
"""Integers as Σ limb · 2**shift, elementwise."""

_DIGIT_BITS = 11
_LIMB_BITS = 30
_LIMB = float(1 << _LIMB_BITS)
_SCALE = float(UNIT)


def to_units(value: float) -> int:
    """A non-negative finite float in units, rounded down."""
    return int(value * _SCALE)


def chunks(length: int) -> Iterator[slice]:
    """Slices of at most :data:`CHUNK` events."""
    return (slice(start, start + CHUNK) for start in range(0, length, CHUNK))


def _digits(weight: WeightArray) -> Limbs:
    """Positive weights as digits whose products with limbs fit int64; small ones are one digit."""
    whole: IntArray = weight.astype(np.int64, copy=False)
    bits = int(whole.max(initial=0)).bit_length()
    if bits <= _DIGIT_BITS:
        return [(whole, 0)]
    mask = (1 << _DIGIT_BITS) - 1
    return [((whole >> shift) & mask, shift) for shift in range(0, bits, _DIGIT_BITS)]


def sum_limbs(
    limbs: Limbs, weight: WeightArray | None, groups: IntArray | None = None, size: int = 1
) -> list[int]:
    """Σ whole weight · integer of each group, of one chunk; without ``groups`` all are one."""
    totals = [0] * size
    for digit, digit_shift in [(None, 0)] if weight is None else _digits(weight):
        for limb, limb_shift in limbs:
            terms, shift = limb if digit is None else limb * digit, limb_shift + digit_shift
            if groups is None:
                totals[0] += int(terms.sum()) << shift
                continue
            sums = np.zeros(size, dtype=np.int64)
            np.add.at(sums, groups, terms)
            for group in np.flatnonzero(sums).tolist():
                totals[group] += int(sums[group]) << shift
    return totals


def _limbs(values: FloatArray) -> Limbs:
    """Units of each value, the same floor as :func:`to_units`."""
    # Scaling by a power of two and the subtraction are exact.
    scaled = values * _LIMB
    high = np.floor(scaled)
    scaled -= high
    scaled *= _LIMB
    return [(high.astype(np.int64), _LIMB_BITS), (scaled.astype(np.int64), 0)]


def sum_units(values: FloatArray, weight: WeightArray | None = None) -> Weight:
    """Σ weight · units of each value, in [0, 64): an int, or a float where weights are float64."""
    if weight is not None and weight.dtype.kind == "f":
        # Not a dot product, whose rounding is the processor's.
        return float((np.floor(values * _SCALE) * weight).sum())
    total = 0
    for chunk in chunks(len(values)):
        total += sum_limbs(_limbs(values[chunk]), None if weight is None else weight[chunk])[0]
    return total


def sum_units_by_group(
    values: FloatArray, groups: IntArray, size: int, weight: WeightArray | None = None
) -> list[Weight]:
    """:func:`sum_units` of each group, 0 to size − 1."""
    if weight is not None and weight.dtype.kind == "f":
        return list(np.bincount(groups, np.floor(values * _SCALE) * weight, size).tolist())
    totals: list[Weight] = [0] * size
    for chunk in chunks(len(values)):
        among = None if weight is None else weight[chunk]
        more = sum_limbs(_limbs(values[chunk]), among, groups[chunk], size)
        totals = [total + units for total, units in zip(totals, more, strict=True)]
    return totals


def total_weight(weight: WeightArray) -> Weight:
    """Σ weight: a Python int, however large, or a float where weights are float64."""
    if weight.dtype.kind == "f":
        return float(weight.sum())
    if len(weight) * int(weight.max(initial=0)) < 2**62:
        return int(weight.sum())
    return sum_limbs(_halves(weight), None)[0]


def _halves(weight: WeightArray) -> Limbs:
    whole: IntArray = weight.astype(np.int64, copy=False)
    return [(whole >> 32, 32), (whole & 0xFFFF_FFFF, 0)]


def total_weight_by_group(groups: IntArray, size: int, weight: WeightArray | None) -> list[Weight]:
    """:func:`total_weight` of each group; ``weight`` None counts events."""
    if weight is None:
        return list(np.bincount(groups, minlength=size).tolist())
    if weight.dtype.kind == "f":
        return list(np.bincount(groups, weight, size).tolist())
    if weight.sum(dtype=np.float64) < 2.0**52:  # the sum itself is rounded
        return list(np.bincount(groups, weight, size).astype(np.int64).tolist())
    return [*sum_limbs(_halves(weight), None, groups, size)]
