"""The scores of one class with their weights, and how much weight lies below any score.

Folded scores are in a :class:`RankBase`: sorted arrays. Later changes are kept in
one of two structures, because a ranking is used in two ways:

- read after every event: ``change`` and ``remove`` insert into short sorted lists,
  which are ranked beside the base, and folded into it when they have grown;
- read now and then: ``queue``, ``add_many`` and ``merge`` only append to a
  :class:`ScoreQueue`, and the next read sorts and merges all of it at once,
  several times cheaper an event.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from math import isqrt
from typing import Any

import numpy as np

from streameval.errors import InputError
from streameval.events.values import FloatArray, Weight
from streameval.states.fields import never_counted, removable_weight
from streameval.states.ranking.coarse_score import coarse_column
from streameval.states.ranking.sorted_runs import (
    WeightArray,
    add_in_order,
    distinct_run,
    exact_sum,
    merge_into,
    merge_runs,
    sum_by_score,
)

# Weighted scores, folded: two arrays that are never written to again.


class RankBase:
    """Ascending scores with their weights. Immutable, so copies share it.

    Args:
        scores: A distinct ascending run.
        sums: int64, the whole weight below each score, and one last entry, the
            weight in all. None stands for 0, 1, 2, …: every score weighs 1.
        weights: float64 weights, in place of ``sums``: a sum of floats does
            not determine its terms.
        repeated: Whether scores may occur as often as they weigh, for which ``sums`` is None.
            Where few do, a fold costs a tenth: :meth:`distinct` is left to those who read arrays.

    Memory:
        8 bytes a distinct score while every weight is 1, else at most 16.

    >>> base = RankBase(np.array([0.1, 0.4, 0.4]), repeated=True).distinct()
    >>> base.scores, base.sums, base.each()
    (array([0.1, 0.4]), array([0, 1, 3]), array([1, 2]))
    """

    __slots__ = ("repeated", "scores", "sums", "views", "weights")

    def __init__(
        self,
        scores: FloatArray,
        sums: WeightArray | None = None,
        weights: FloatArray | None = None,
        *,
        repeated: bool = False,
    ) -> None:
        for array in (scores, sums, weights):
            if array is not None:
                array.flags.writeable = False
        self.scores, self.sums, self.weights, self.repeated = scores, sums, weights, repeated
        # Scores and sums as bisect reads them: 0.4 to 1 µs a search, ndarray.searchsorted 0.5 to 1.
        self.views = scores.data, None if sums is None else sums.data

    def __len__(self) -> int:
        return len(self.scores)

    def distinct(self) -> RankBase:
        """The same with each score once, which the methods below need; O(n) where it is not yet."""
        return RankBase(*distinct_run(self.scores)) if self.repeated else self

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
        """The weights of the scores at positions from ``start`` up to ``end``."""
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
        self,
        runs: list[FloatArray],
        pairs: list[tuple[FloatArray, WeightArray]],
        removed: FloatArray | None = None,
    ) -> RankBase:
        """A base of this and more; scores whose weight becomes 0 are dropped.

        Args:
            runs: Ascending arrays of scores that weigh 1 each.
            pairs: Scores in any order, and their weights, which may be negative.
            removed: An ascending array of scores, of this base or of ``runs``, that lose a
                weight of 1 each.
        """
        own = self.run() if runs or self.repeated or removed is not None else None
        if own is not None:
            own = merge_runs([own, *runs])
            if removed is not None:
                # Equal scores are removed from neighbouring positions.
                again = np.arange(len(removed)) - np.searchsorted(removed, removed)
                own = np.delete(own, np.searchsorted(own, removed) + again)
            few = 2 * np.count_nonzero(own[1:] != own[:-1]) < len(own) - 2
            base = RankBase(own, repeated=True)
            return base.distinct().absorbed([], pairs) if few or pairs else base
        if removed is not None:
            pairs = [*pairs, (removed, np.full(len(removed), -1))]
        if runs:
            merged = RankBase(*distinct_run(merge_runs(runs)))
            pairs = [*pairs, (merged.scores, merged.each())]
        if not pairs:
            return self
        if self.weights is not None:
            added = map(np.concatenate, zip(*pairs, strict=True))
            scores, summed = add_in_order(self.scores, self.weights, *added)
            return RankBase(scores, None, summed)
        more = sum_by_score(*map(np.concatenate, zip(*pairs, strict=True)))
        scores, weights = merge_into(self.scores, self.each(), *more)
        if (weights == 1).all():
            return RankBase(scores)
        sums = np.zeros(len(weights) + 1, dtype=np.int64)
        np.cumsum(weights, out=sums[1:])
        return RankBase(scores, sums)


# Queue of scores that were counted but not yet sorted in.

_LOOSE_MOST = 2**16
_SMALL_ARRAY = 2**12


class ScoreQueue:
    """Events not yet sorted, in the form that is cheapest until the next read.

    Single events and small arrays wait in plain lists and become arrays in
    lots of 65,536: a list costs four times the memory of an array, and a
    thousand small arrays would be slow to merge.

    Attributes:
        waiting: Whether there is any event.
        ordered: Whether events are kept in the order of arrival, those of weight 1 among the
            others: sums of fractions depend on it.

    >>> queue = ScoreQueue()
    >>> queue.put(0.5, 1)
    False
    >>> queue.put_many(np.array([0.7, 0.1]), None)
    >>> len(queue), queue.take()
    (3, ([array([0.1, 0.5, 0.7])], []))
    """

    __slots__ = ("_loose", "_loose_pairs", "_pairs", "_runs", "_stored", "ordered", "waiting")

    def __init__(self) -> None:
        # Ascending arrays of scores that weigh 1 each; scores with weights, in any order.
        self._runs: list[FloatArray] = []
        self._pairs: list[tuple[FloatArray, WeightArray]] = []
        self._loose: list[float] = []
        self._loose_pairs: list[tuple[float, Weight]] = []
        self._stored = 0
        # Read at each event, where a length counted from the lists would cost 0.3 µs.
        self.waiting = False
        self.ordered = False

    def __len__(self) -> int:
        return self._stored + len(self._loose) + len(self._loose_pairs)

    def put(self, score: float, weight: Weight) -> bool:
        """Keep one event; O(1). True if single events were just made an array."""
        self.waiting = True
        if weight == 1 and not self.ordered:
            loose: list[Any] = self._loose
            loose.append(score)
        else:
            loose = self._loose_pairs
            loose.append((score, weight))
        if len(loose) < _LOOSE_MOST:
            return False
        self._gather()
        return True

    def put_many(
        self, scores: FloatArray, weights: WeightArray | None, reuse: bool = False
    ) -> None:
        """Keep many events; both arrays are copied unless they may be kept and reordered."""
        self.waiting = self.waiting or len(scores) > 0
        if self.ordered:
            weights = np.ones(len(scores)) if weights is None else weights
        elif weights is not None and (weights == 1).all():
            weights = None
        if len(scores) > _SMALL_ARRAY:
            if not reuse:
                scores, weights = scores.copy(), None if weights is None else weights.copy()
            if weights is None:
                scores.sort()
                self.put_run(scores)
            else:
                self.put_pairs(scores, weights)
        elif weights is None:
            self._loose.extend(scores.tolist())
        else:
            self._loose_pairs.extend(zip(scores.tolist(), weights.tolist(), strict=True))
        if len(self._loose) + len(self._loose_pairs) >= _LOOSE_MOST:
            self._gather()

    def put_run(self, run: FloatArray) -> None:
        """Keep an ascending array of scores that weigh 1 each; it is shared, not copied."""
        if self.ordered:
            self.put_pairs(run, np.ones(len(run)))
        elif len(run):
            self.waiting = True
            self._runs.append(run)
            self._stored += len(run)

    def put_pairs(self, scores: FloatArray, weights: WeightArray) -> None:
        """Keep scores and their weights, which may be negative; shared, not copied."""
        if len(scores):
            if self.ordered:
                self._gather()
            self.waiting = True
            self._pairs.append((scores, weights))
            self._stored += len(scores)

    def take(self) -> tuple[list[FloatArray], list[tuple[FloatArray, WeightArray]]]:
        """All that waits, as ascending arrays of unit weights and as weighted ones."""
        self._gather()
        taken = self._runs, self._pairs
        self._runs, self._pairs, self._stored, self.waiting = [], [], 0, False
        return taken

    def copy(self) -> ScoreQueue:
        """An independent queue of the same events; arrays are shared."""
        twin = ScoreQueue()
        twin._runs, twin._pairs = self._runs.copy(), self._pairs.copy()
        twin._loose, twin._loose_pairs = self._loose.copy(), self._loose_pairs.copy()
        twin._stored, twin.waiting, twin.ordered = self._stored, self.waiting, self.ordered
        return twin

    def _gather(self) -> None:
        if self._loose:
            loose, self._loose = self._loose, []
            self.put_run(np.sort(np.array(loose)))
        if self._loose_pairs:
            scores, weights = zip(*self._loose_pairs, strict=True)
            self._loose_pairs = []
            # Whole weights are at most 2**53: int64, or float64 beside fractions.
            self.put_pairs(np.array(scores), np.array(weights))


MAX_TOTAL = 2**62 - 1
"""Most whole weight one class may hold, so that twice a running sum is an int64."""

_CHANGES_LEAST = 1024
_CHANGES_FACTOR = 4
_QUEUE_LEAST = 2**20


def check_total(held: Weight, arriving: Weight) -> None:
    """Refuse whole weights that would pass :data:`MAX_TOTAL`."""
    if held + arriving > MAX_TOTAL:
        raise InputError(
            "weight",
            expected=f"weights of one class that add up to at most {MAX_TOTAL}",
            got=f"{arriving} beside {held} counted before",
            remedy="scale the weights down",
        )


class RankedWeights:
    """A multiset of weighted scores with the weight below any score.

    A part of larger states: it takes what :mod:`streameval.events.values` has made
    canonical (finite scores, no ``-0.0``; positive weights, whole ones as
    ``int`` or int64) and does not look again.

    Args:
        scores: float64, in any order.
        weights: int64 or float64, one for each score; None stands for 1 each.

    Attributes:
        exact: Whether every weight so far is an integer. Not to be set.
        whole: The sum of all weights while exact. Not to be set.

    Memory:
        Folded: 8 bytes a distinct score while every weight is 1, else 16.

    >>> ranked = RankedWeights(np.array([0.9, 0.1, 0.4, 0.4]))
    >>> ranked.twice_below(0.4)
    4
    >>> ranked.change(0.2, 5)
    >>> ranked.twice_below(0.4), ranked.total
    (14, 9)
    """

    __slots__ = ("_base", "_changes", "_most", "_queue", "exact", "whole")

    def __init__(
        self, scores: FloatArray | None = None, weights: WeightArray | None = None
    ) -> None:
        self._set_base(RankBase(np.zeros(0)))
        self._queue = ScoreQueue()
        self.exact = True
        self.whole = 0
        if scores is not None:
            self.add_many(scores, weights)

    def _set_base(self, base: RankBase) -> None:
        """Take a base that has all changes in it."""
        self._base = base
        # By signed powers of two, ascending scores: an event of weight 5 is in the lists of 4
        # and of 1. A list counts its entries, and almost all events weigh 1.
        self._changes: dict[int, list[float]] = {1: [], -1: []}
        # An insertion moves what is above it, and folding moves the base: the root of its
        # length costs least.
        self._most = max(_CHANGES_LEAST, _CHANGES_FACTOR * isqrt(len(base)))

    @property
    def total(self) -> Weight:
        """The sum of all weights; O(1) while exact."""
        return self.whole if self.exact else float(self.arrays()[1].sum())

    @property
    def entries(self) -> int:
        """Number of entries held, at least one for each distinct score; O(1)."""
        return len(self._base) + sum(map(len, self._changes.values())) + len(self._queue)

    def twice_below(self, score: float) -> int:
        """Twice the weight below a score and once that at it, while exact.

        That is twice what an event at this score wins over, a tie counting one half.

        Cost:
            O(log n), 1 µs among 10⁶ scores; O(n) after queued events.
        """
        if self._queue.waiting:
            self.fold()
        scores, sums = self._base.views
        at = bisect_left(scores, score)
        tied = at < len(scores) and scores[at] == score
        if sums is None:
            twice: int = at + (bisect_right(scores, score, at) if tied else at)
        else:
            twice = sums[at] + sums[at + tied]
        for power, entries in self._changes.items():
            if entries:
                at = bisect_left(entries, score)
                if at < len(entries) and entries[at] == score:
                    twice += power * (at + bisect_right(entries, score, at))
                else:
                    twice += 2 * power * at
        return twice

    def weight_at(self, score: float) -> int:
        """The weight of one score, while exact; cost as :meth:`twice_below`."""
        if self._queue.waiting:
            self.fold()
        scores, sums = self._base.views
        at = bisect_left(scores, score)
        weight: int = 0
        if at < len(scores) and scores[at] == score:
            end = bisect_right(scores, score, at) if sums is None else at + 1
            weight = end - at if sums is None else sums[end] - sums[at]
        for power, entries in self._changes.items():
            at = bisect_left(entries, score)
            if at < len(entries) and entries[at] == score:
                weight += power * (bisect_right(entries, score, at) - at)
        return weight

    def change(self, score: float, weight: int) -> None:
        """Add a whole weight, negative to take away what is there, while exact.

        Cost:
            0.5 to 1 µs among 10⁶ scores, and as much again for each further bit set in the
            weight. Folding every so often is O(√n) an event.
        """
        total = self.whole + weight
        if total > MAX_TOTAL:
            check_total(self.whole, weight)
        self.whole = total
        while weight:
            power, entries = weight, self._changes.get(weight)
            if entries is None:
                lowest = weight & -weight
                power = lowest if weight > 0 else -lowest
                entries = self._changes.setdefault(power, [])
            insort(entries, score)
            weight -= power
            if len(entries) > self._most:
                self.fold()

    def queue(self, score: float, weight: Weight = 1) -> None:
        """Count one event, to be sorted in at the next read; O(1)."""
        self._arrive(weight)
        if self._queue.put(score, weight):
            self._relieve()

    def add_many(
        self, scores: FloatArray, weights: WeightArray | None = None, *, reuse: bool = False
    ) -> None:
        """Count many events.

        Args:
            scores: float64, in any order.
            weights: int64 or float64, one for each score; None stands for 1 each.
            reuse: Whether both arrays may be kept and reordered, not copied.

        Cost:
            Sorts the scores (16 ns each); merging them into the base is left
            to the next read. Weights other than 1 cost six times as much.
        """
        if weights is None:
            self._arrive(len(scores))
        elif weights.dtype.kind == "f":
            self.promote()
        else:
            self._arrive(exact_sum(weights))
        self._queue.put_many(scores, weights, reuse)
        self._relieve()

    def check_room(self, count: int, weights: WeightArray | None) -> None:
        """Raise, before anything is counted, what :meth:`add_many` would raise."""
        if self.exact and (weights is None or weights.dtype.kind != "f"):
            check_total(self.whole, count if weights is None else exact_sum(weights))

    def _arrive(self, weight: Weight) -> None:
        """Enter weight that is about to be queued into the total."""
        if self.exact:
            if type(weight) is float:
                self.promote()
                return
            if self.whole + weight > MAX_TOTAL:
                check_total(self.whole, weight)
            self.whole += int(weight)

    def _relieve(self) -> None:
        if len(self._queue) > _QUEUE_LEAST and len(self._queue) > len(self._base):
            self.fold()

    def remove(self, score: float, weight: Weight = 1) -> int:
        """Remove weight that was counted before; cost as :meth:`change` and :meth:`weight_at`.

        Returns:
            The weight, as an int.

        Raises:
            InputError: The score does not weigh as much, or weights are
                floats, whose sums cannot be undone exactly.
        """
        whole = removable_weight(weight, self.exact)
        if self.weight_at(score) < whole:
            raise never_counted("score", score)
        self.change(score, -whole)
        return whole

    def merge(self, other: RankedWeights) -> None:
        """Count all of another ranking, whose content stays as it is.

        Cost:
            O(1) once the other is folded: its arrays are shared, and merged
            at the next read.
        """
        base = other.folded()
        if not other.exact:
            self.promote()
        self._arrive(other.whole)
        run = base.run()
        if run is not None:
            self._queue.put_run(run)
        else:
            self._queue.put_pairs(base.scores, base.each())
        self._relieve()

    def subtract(self, other: RankedWeights) -> None:
        """Take out all of another that was merged in; both exact. Cost: as :meth:`merge`."""
        scores, weights = other.arrays()
        self.whole -= other.whole
        self._queue.put_pairs(scores, -weights)
        self._relieve()

    def promote(self) -> None:
        """Make the weights float64, for good."""
        if self.exact:
            self._set_base(self.folded().promoted())
            self.exact = False
            self._queue.ordered = True

    def fold(self) -> None:
        """Fold all that waits into the base; O(n) when anything does."""
        changes = {power: np.array(entries) for power, entries in self._changes.items() if entries}
        if not changes and not self._queue.waiting:
            return
        runs, pairs = self._queue.take()
        if 1 in changes:
            runs.append(changes.pop(1))
        # Where all weigh 1, what was removed is in the base or was added; a weight of 2 may have
        # been removed by halves.
        removed = changes.pop(-1, None) if len(self._changes) == 2 else None
        pairs += [(scores, np.full(len(scores), power)) for power, scores in changes.items()]
        self._set_base(self._base.absorbed(runs, pairs, removed))

    def arrays(self) -> tuple[FloatArray, WeightArray]:
        """The distinct scores, ascending, and their weights (int64, or float64); read-only."""
        base = self.folded()
        return base.scores, base.each()

    def folded(self) -> RankBase:
        """All that was counted so far, by distinct scores, as it will not change any more."""
        self.fold()
        if self._base.repeated:
            self._set_base(self._base.distinct())
        return self._base

    def running(self) -> tuple[FloatArray, WeightArray | None]:
        """The distinct scores, and the weight below each followed by the weight in all.

        None stands for 0, 1, 2, …: every score weighs 1. Read-only.
        """
        base = self.folded()
        return base.scores, base.running()

    def coarsened(self, level: int) -> RankedWeights:
        """A ranking of the same weights at the cells of a level; O(n)."""
        scores, weights = self.arrays()
        coarser = RankedWeights()
        if not self.exact:
            coarser.promote()
        coarser.add_many(coarse_column(scores, level), weights)
        return coarser

    def copy(self) -> RankedWeights:
        """An independent ranking of the same events; the base is shared."""
        twin = RankedWeights()
        twin._set_base(self._base)
        twin._changes = {power: entries.copy() for power, entries in self._changes.items()}
        twin._queue = self._queue.copy()
        twin.exact, twin.whole = self.exact, self.whole
        return twin

    def __reduce__(self) -> tuple[object, ...]:
        return RankedWeights, self.arrays()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RankedWeights):
            return NotImplemented
        pairs = zip(self.arrays(), other.arrays(), strict=True)
        return self.exact == other.exact and all(np.array_equal(a, b) for a, b in pairs)

    __hash__ = None  # type: ignore[assignment]

    def _check(self) -> None:
        """Assert every invariant; folds."""
        before = {}
        if self.exact:
            sample = self._base.scores[:: max(1, len(self._base) // 8)].tolist()
            sample += [0.0, *(score for entries in self._changes.values() for score in entries[:8])]
            before = {score: (self.twice_below(score), self.weight_at(score)) for score in sample}
        assert all(entries == sorted(entries) for entries in self._changes.values())
        scores, weights = self.arrays()
        assert not len(self._queue)
        assert not self._queue.waiting
        assert not any(self._changes.values())
        assert np.isfinite(scores).all()
        assert (scores[1:] > scores[:-1]).all()
        assert not np.signbit(scores[scores == 0]).any()
        assert len(weights) == len(scores)
        assert (weights > 0).all()
        assert weights.dtype == (np.int64 if self.exact else np.float64)
        assert (self._base.weights is None) == self.exact
        assert self._base.sums is None or (self.exact and (weights > 1).any())
        assert not self.exact or self.whole == exact_sum(weights) <= MAX_TOTAL
        for score, found in before.items():
            below, at = (exact_sum(weights[mask]) for mask in (scores < score, scores == score))
            assert found == (2 * below + at, at)
