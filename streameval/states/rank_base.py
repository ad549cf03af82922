"""Weighted scores at rest: two arrays that are never written to again."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from streameval.events import FloatArray, Weight
from streameval.states.sorted_runs import (
    WeightArray,
    distinct_run,
    merge_into,
    merge_runs,
    sum_by_score,
)

__all__ = ["RankBase"]


class RankBase:
    """Distinct scores, ascending, with their weights. Immutable, so copies share it.

    Args:
        scores: A distinct ascending run.
        sums: int64, the whole weight below each score, and one last entry, the
            weight in all. None stands for 0, 1, 2, …: every score weighs 1.
        weights: float64 weights, in place of ``sums``: a sum of floats does
            not give its terms back.

    Memory:
        8 bytes a score while every weight is 1, else 16.

    >>> base = RankBase(np.array([0.1, 0.4]), np.array([0, 1, 3]))
    >>> base.find(0.4), base.find(0.5)
    ((1, 2), (3, 0))
    """

    __slots__ = ("_views", "scores", "sums", "weights")

    def __init__(
        self,
        scores: FloatArray,
        sums: WeightArray | None = None,
        weights: FloatArray | None = None,
    ) -> None:
        for array in (scores, sums, weights):
            if array is not None:
                array.flags.writeable = False
        self.scores, self.sums, self.weights = scores, sums, weights
        self._views: tuple[memoryview, memoryview | None] | None = None

    def __len__(self) -> int:
        return len(self.scores)

    def find(self, score: float) -> tuple[Weight, Weight]:
        """The weight below a score, and the weight at it; O(log n).

        The first call among float weights is O(n).
        """
        # bisect on a memoryview takes 0.4 to 1 µs, ndarray.searchsorted 0.6 to 1 µs.
        scores, sums = self._views or self._viewed()
        place = bisect_left(scores, score)
        tied = place < len(scores) and scores[place] == score
        if sums is None:
            return place, int(tied)
        below: Weight = sums[place]
        if not tied:
            return below, 0
        if self.weights is not None:
            return below, float(self.weights[place])
        return below, sums[place + 1] - below

    def _viewed(self) -> tuple[memoryview, memoryview | None]:
        sums = self.running()
        self._views = self.scores.data, None if sums is None else sums.data
        return self._views

    def running(self) -> WeightArray | None:
        """The weight below each score followed by that in all; None for 0, 1, 2, …"""
        if self.weights is None:
            return self.sums
        return np.concatenate((np.zeros(1), np.cumsum(self.weights)))

    def each(self) -> WeightArray:
        """The weight of each score, int64 or float64; read-only."""
        if self.weights is not None:
            return self.weights
        each = np.ones(len(self), np.int64) if self.sums is None else np.diff(self.sums)
        each.flags.writeable = False
        return each

    def each_in(self, start: int, end: int) -> WeightArray:
        """The weights of the scores from one place up to another, without those of the others."""
        if self.weights is not None:
            return self.weights[start:end]
        if self.sums is None:
            return np.ones(end - start, np.int64)
        between: WeightArray = np.diff(self.sums[start : end + 1])
        return between

    def run(self) -> FloatArray | None:
        """The scores, each as often as it weighs; None if that were more than twice as many.

        Runs are merged several times faster than scores with weights.
        """
        if self.sums is None and self.weights is None:
            return self.scores
        if self.sums is None or self.sums[-1] > 2 * len(self):
            return None
        return np.repeat(self.scores, np.diff(self.sums))

    def promoted(self) -> RankBase:
        """The same with float64 weights."""
        return RankBase(self.scores, None, self.each().astype(np.float64))

    def absorbed(
        self, runs: list[FloatArray], pairs: list[tuple[FloatArray, WeightArray]]
    ) -> RankBase:
        """A base of this and more; scores whose weight becomes 0 are dropped.

        Args:
            runs: Ascending arrays of scores that weigh 1 each.
            pairs: Scores in any order, and their weights, which may be negative.
        """
        own = self.run() if runs else None
        if own is not None:
            return RankBase(*distinct_run(merge_runs([own, *runs]))).absorbed([], pairs)
        if runs:
            merged = RankBase(*distinct_run(merge_runs(runs)))
            pairs = [*pairs, (merged.scores, merged.each())]
        if not pairs:
            return self
        more = sum_by_score(*map(np.concatenate, zip(*pairs, strict=True)))
        scores, weights = merge_into(self.scores, self.each(), *more)
        if self.weights is not None:
            return RankBase(scores, None, weights.astype(np.float64, copy=False))
        if (weights == 1).all():
            return RankBase(scores)
        sums = np.zeros(len(weights) + 1, dtype=np.int64)
        np.cumsum(weights, out=sums[1:])
        return RankBase(scores, sums)
