"""Ascending arrays of scores: merged, counted into one another, and summed by score.

A *run* is a float64 array in ascending order; a *distinct* run holds no score
twice. Scores are finite and never ``-0.0`` (see :mod:`streameval.events.values`).

Two facts of numpy carry this module. Its stable sort finds runs that are
already in order and merges them in one pass, and it does so 1.7 times faster
for int64 than for float64, which has to think of nan. The bits of a float64
are an int64 that sorts alike once negative numbers are turned round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from streameval.events.values import BoolArray, FloatArray, IntArray

WeightArray: TypeAlias = npt.NDArray[np.int64 | np.float64]

_ALL_BUT_SIGN = np.int64(2**63 - 1)
_INT64_SAFE = 2**62
_CHUNK = 2**16
_BLOCK = 2**15
# Above this many times more values than queries a binary search for each query wins.
_SEARCH_FACTOR = 8


def _as_integers(runs: Sequence[FloatArray]) -> tuple[IntArray, int]:
    """Ascending runs end to end, as int64 of the same order; and how many are negative.

    The bits of a float64, read as an int64, sort as the float does, except
    that negative ones sort backwards until all bits but the sign are flipped.
    Negative scores lead each run, and they will lead the sorted result.
    """
    bits: IntArray = np.concatenate(runs).view(np.int64)
    start = negative = 0
    for run in runs:
        if run[0] < 0:
            length = int(np.searchsorted(run, 0.0))
            bits[start : start + length] ^= _ALL_BUT_SIGN
            negative += length
        start += len(run)
    return bits, negative


def merge_runs(runs: Sequence[FloatArray]) -> FloatArray:
    """All scores of ascending runs in one ascending run.

    Cost: 6 ns a score for two runs, and as much again whenever the number of
    runs doubles. A single run is returned as it is.

    >>> merge_runs([np.array([0.1, 0.7]), np.array([-1.0, 0.7])]).tolist()
    [-1.0, 0.1, 0.7, 0.7]
    """
    runs = [run for run in runs if len(run)]
    if not runs:
        return np.zeros(0)
    if len(runs) == 1:
        return runs[0]
    bits, negative = _as_integers(runs)
    bits.sort(kind="stable")
    bits[:negative] ^= _ALL_BUT_SIGN
    return bits.view(np.float64)


def distinct_run(run: FloatArray) -> tuple[FloatArray, IntArray | None]:
    """The distinct scores of an ascending run, and how many lie below each.

    Returns:
        The scores, and the running counts: entry g is the number of values of
        ``run`` below score g, one last entry their number in all. None in
        place of 0, 1, 2, … when no value occurs twice.

    >>> distinct_run(np.array([0.2, 0.2, 0.9]))
    (array([0.2, 0.9]), array([0, 2, 3]))
    """
    last = np.empty(len(run), dtype=np.bool_)
    np.not_equal(run[1:], run[:-1], out=last[:-1])
    last[-1:] = True
    if last.all():
        return run, None
    ends = np.flatnonzero(last)
    counts = np.zeros(len(ends) + 1, dtype=np.int64)
    np.add(ends, 1, out=counts[1:])
    return run[ends], counts


def _blocks(left: FloatArray, right: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Two ascending runs cut at the same scores into parts that fit the processor's cache."""
    bounds = (left if len(left) > len(right) else right)[_BLOCK::_BLOCK]
    cuts = [(0, *np.searchsorted(run, bounds).tolist(), len(run)) for run in (left, right)]
    for (start, end), (first, last) in zip(*map(pairwise, cuts), strict=True):
        yield left[start:end], right[first:last]


def count_at_or_below(values: FloatArray, queries: FloatArray) -> tuple[IntArray, BoolArray]:
    """For each query the number of values at or below it, and whether one equals it.

    Both are distinct ascending runs. The first result is
    ``np.searchsorted(values, queries, side="right")``, found three times
    faster when the two are of like size.

    Cost: 8 ns for each query and each value; 50 ns for each query when they are few.

    >>> count_at_or_below(np.array([0.1, 0.5, 0.9]), np.array([0.0, 0.5]))
    (array([0, 2]), array([False,  True]))
    """
    if len(values) > _SEARCH_FACTOR * len(queries):
        count: IntArray = np.searchsorted(values, queries, side="right")
        # A count of 0 compares with the last value, which is above the query.
        return count, values[count - 1] == queries
    count, tied = np.zeros(len(queries), np.int64), np.zeros(len(queries), np.bool_)
    below = start = 0
    for some, wanted in _blocks(values, queries):
        end = start + len(wanted)
        if len(some) and len(wanted):
            _count_block(some, wanted, count[start:end], tied[start:end])
        count[start:end] += below
        below, start = below + len(some), end
    return count, tied


def _count_block(values: FloatArray, queries: FloatArray, count: IntArray, tied: BoolArray) -> None:
    """Write both results of :func:`count_at_or_below` into arrays of zeros.

    Values and queries are sorted together, as integers whose lowest bit is
    used to distinguish the two: a query then sorts after every value that
    it equals, and its position less the queries before it is the count.
    """
    mixed, _ = _as_integers((values, queries))
    mixed[: len(values)] &= ~1
    mixed[len(values) :] |= 1
    mixed.sort(kind="stable")
    # Booleans are searched ten times faster than integers.
    positions = np.flatnonzero((mixed & 1).astype(np.bool_))
    # Queries below the first value have nothing to compare with.
    start = int(np.searchsorted(queries, values[0]))
    np.subtract(positions[start:], np.arange(start, len(queries)), out=count[start:])
    inside, wanted = count[start:], queries[start:]
    nearest = values[inside - 1]
    # Two neighbouring floats may share all but the lowest bit: so one value too
    # many, the one just above the query, may have been counted.
    above = nearest > wanted
    if above.any():
        inside -= above
        nearest = values[inside - 1]
    np.equal(nearest, wanted, out=tied[start:])


def sum_by_score(scores: FloatArray, weights: WeightArray) -> tuple[FloatArray, WeightArray]:
    """Weights of equal scores added; the scores may be in any order.

    >>> sum_by_score(np.array([0.5, 0.1, 0.5]), np.array([1, 2, 3]))
    (array([0.1, 0.5]), array([2, 4]))
    """
    if not (scores[1:] > scores[:-1]).all():
        order = np.argsort(scores, kind="stable")
        scores, weights = scores[order], weights[order]
        starts = np.flatnonzero(np.append(True, scores[1:] != scores[:-1]))
        summed: WeightArray = np.add.reduceat(weights, starts)
        return scores[starts], summed
    return scores, weights


def merge_into(
    scores: FloatArray, weights: WeightArray, more: FloatArray, added: WeightArray
) -> tuple[FloatArray, WeightArray]:
    """Two distinct runs with weights as one; scores whose weight becomes 0 are dropped.

    ``added`` may be negative.

    >>> merge_into(np.array([0.1, 0.5]), np.array([1, 2]), np.array([0.1, 0.3]), np.array([-1, 4]))
    (array([0.3, 0.5]), array([4, 2]))
    """
    count, known = count_at_or_below(scores, more)
    weights = weights.copy()
    at = count[known] - 1
    weights[at] = weights[at] + added[known]
    new = ~known
    if new.any():
        scores = np.insert(scores, count[new], more[new])
        weights = np.insert(weights, count[new], added[new])
    stays = weights != 0
    if not stays.all():
        scores, weights = scores[stays], weights[stays]
    return scores, weights


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
