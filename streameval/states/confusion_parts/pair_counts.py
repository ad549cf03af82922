"""Weight of each (true, predicted) pair in two columns of label codes, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streameval.events.values import BoolArray, FloatArray, IntArray, LabelColumn, Weight

# The sum that is compared with this is itself rounded, hence not 2⁵³.
_EXACT_FLOAT = 2**52
_LIMB_BITS = 26
# So many limbs of 27 bits or less add up in a float64 without rounding.
_LIMB_EVENTS = 2 ** (53 - 27)
# A block of codes that stays in the cache counts 30 % faster than the column at once.
_BLOCK = 1 << 16
# Beyond this a table of all pairs takes more memory than it is worth.
_TABLE_PAIRS = 1 << 23

PairWeights = list[tuple[int, int, Weight]]


def bool_pairs(true: BoolArray, predicted: BoolArray) -> PairWeights:
    """Number of events of each pair of two boolean columns; absent pairs are left out.

    Cost: 0.3 ns an event, a tenth of what counting codes takes.

    >>> bool_pairs(np.array([True, True, False]), np.array([True, False, False]))
    [(0, 0, 1), (1, 0, 1), (1, 1, 1)]
    """
    both = int(np.count_nonzero(true & predicted))
    positive = int(np.count_nonzero(true))
    called = int(np.count_nonzero(predicted))
    neither = len(true) - positive - called + both
    pairs = [(0, 0, neither), (0, 1, called - both), (1, 0, positive - both), (1, 1, both)]
    return [(i, j, count) for i, j, count in pairs if count]


def code_pairs(
    true: LabelColumn, predicted: LabelColumn, weight: IntArray | FloatArray | None
) -> PairWeights:
    """Total weight of each pair of codes that occurs, ordered by true code, then predicted.

    Args:
        true: Column of true labels.
        predicted: Column of predicted labels, of the same length.
        weight: int64 or float64, positive; None counts each event once.

    Cost:
        3 ns an event while the table of all pairs is of the order of the
        column, a sort of the column beyond.

    >>> a = LabelColumn(["x", "y"], np.array([0, 1, 1]))
    >>> code_pairs(a, a, np.array([1, 2, 3]))
    [(0, 0, 1), (1, 1, 5)]
    """
    length, width = len(true.codes), len(predicted.labels)
    table = len(true.labels) * width
    distinct: IntArray
    sums: Sequence[Weight]
    if table <= min(8 * length, _TABLE_PAIRS) + 64:
        if weight is None:
            counts = np.zeros(table, dtype=np.int64)
            for codes in _pair_blocks(true, predicted, max(_BLOCK, 2 * table)):
                counts += np.bincount(codes, minlength=table)
            distinct = np.flatnonzero(counts)
            sums = counts[distinct].tolist()
        else:
            codes = true.codes * width + predicted.codes
            # A weight is never 0, so a pair that occurs never sums to 0.
            table_sums = weight_sums(codes, weight, table)
            distinct = np.array([n for n, total in enumerate(table_sums) if total], dtype=np.int64)
            sums = [total for total in table_sums if total]
    else:
        codes = true.codes * width + predicted.codes
        if weight is None:
            distinct, frequency = np.unique(codes, return_counts=True)
            sums = frequency.tolist()
        else:
            distinct, groups = np.unique(codes, return_inverse=True)
            sums = weight_sums(groups, weight, len(distinct))
    rows, columns = np.divmod(distinct, width)
    return list(zip(rows.tolist(), columns.tolist(), sums, strict=True))


def _pair_blocks(true: LabelColumn, predicted: LabelColumn, size: int) -> Iterator[IntArray]:
    block = np.empty(min(size, len(true.codes)), dtype=np.int64)
    for start in range(0, len(true.codes), size):
        codes = block[: len(true.codes) - start]
        np.multiply(true.codes[start : start + size], len(predicted.labels), out=codes)
        codes += predicted.codes[start : start + size]
        yield codes


def weight_sums(codes: IntArray, weight: IntArray | FloatArray, size: int) -> Sequence[Weight]:
    """Total weight of each code in range(size); Python ints, never rounded, for int64 weights.

    ``np.bincount`` adds weights as float64, which is exact up to 2⁵³ only.
    Larger weights are added in two parts of 26 and 27 bits.

    >>> weight_sums(np.array([0, 0, 2]), np.array([2**53, 1, 1]), 3)
    [9007199254740993, 0, 1]
    """
    if weight.dtype == np.float64:
        floats: list[float] = np.bincount(codes, weights=weight, minlength=size).tolist()
        return floats
    if weight.sum(dtype=np.float64) < _EXACT_FLOAT:
        return _whole(np.bincount(codes, weights=weight, minlength=size))
    sums = [0] * size
    for start in range(0, len(codes), _LIMB_EVENTS):
        part = weight[start : start + _LIMB_EVENTS].astype(np.int64)
        groups = codes[start : start + _LIMB_EVENTS]
        low = _whole(np.bincount(groups, part & ((1 << _LIMB_BITS) - 1), size))
        high = _whole(np.bincount(groups, part >> _LIMB_BITS, size))
        sums = [total + a + (b << _LIMB_BITS) for total, a, b in zip(sums, low, high, strict=True)]
    return sums


def _whole(values: npt.NDArray[Any]) -> list[int]:
    whole: list[int] = values.astype(np.int64).tolist()
    return whole
