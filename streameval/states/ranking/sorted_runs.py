"""Arrays of scores and weights: counted into one another, and summed exactly.

A *distinct run* is a float64 array in ascending order that holds no score twice. Scores are
finite and never ``-0.0`` (see :mod:`streameval.events.values`).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from streameval.errors import InputError
from streameval.events.values import BoolArray, FloatArray, IntArray, Weight

WeightArray: TypeAlias = npt.NDArray[np.int64 | np.float64]

MAX_TOTAL = 2**62 - 1
"""Most whole weight one class may hold, so that twice a running sum is an int64."""

_INT64_SAFE = 2**62
_CHUNK = 2**16


def check_total(held: Weight, arriving: Weight) -> None:
    """Refuse whole weights that would pass :data:`MAX_TOTAL`."""
    if held + arriving > MAX_TOTAL:
        raise InputError(
            "weight",
            expected=f"weights of one class that add up to at most {MAX_TOTAL}",
            got=f"{arriving} beside {held} counted before",
            remedy="scale the weights down",
        )


def count_at_or_below(values: FloatArray, queries: FloatArray) -> tuple[IntArray, BoolArray]:
    """For each query the number of values at or below it, and whether one equals it.

    ``values`` is a distinct run.

    >>> count_at_or_below(np.array([0.1, 0.5, 0.9]), np.array([0.0, 0.5]))
    (array([0, 2]), array([False,  True]))
    """
    count: IntArray = np.searchsorted(values, queries, side="right")
    if not len(values):
        return count, np.zeros(len(queries), np.bool_)
    # A count of 0 compares with the last value, which is above the query.
    return count, values[count - 1] == queries


def add_in_order(
    run: npt.NDArray[Any], weights: WeightArray, more: npt.NDArray[Any], added: WeightArray
) -> tuple[npt.NDArray[Any], FloatArray]:
    """A distinct run with weights, and more in any order, whose weights are fractions.

    The weights at one place are added one after another, so that their sum does not depend
    on when they are.

    >>> one, other, both = (np.array(given) for given in ([0.5], [0.5, 0.1], [1.0, 2.5]))
    >>> [side.tolist() for side in add_in_order(one, np.array([1]), other, both)]
    [[0.1, 0.5], [2.5, 2.0]]
    """
    new = np.setdiff1d(more, run)
    at = np.searchsorted(run, new)
    run = np.insert(run, at, new)
    summed: FloatArray = np.insert(weights.astype(np.float64), at, 0.0)
    np.add.at(summed, np.searchsorted(run, more), added)
    return run, summed


def exact_sum(weights: WeightArray) -> int:
    """The sum of whole numbers, right beyond int64 too."""
    if not len(weights):
        return 0
    if len(weights) * max(int(weights.max()), -int(weights.min())) < _INT64_SAFE:
        return int(weights.sum())
    return sum(map(int, weights))


def exact_dot(left: WeightArray, right: WeightArray, bound: int) -> int:
    """Σ left·right of whole numbers that are not negative.

    Args:
        left: Factors.
        right: As many factors.
        bound: Something that the sum does not exceed. Beyond int64 the terms
            become Python integers: 80 ns each in place of 1.

    >>> exact_dot(np.array([2**40]), np.array([2**40]), 2**80) == 2**80
    True
    """
    if bound < 2**63:
        return int(np.dot(left, right))
    total = 0
    for start in range(0, len(left), _CHUNK):
        part: Any = left[start : start + _CHUNK].astype(object)
        total += int(np.dot(part, right[start : start + _CHUNK].astype(object)))
    return total
