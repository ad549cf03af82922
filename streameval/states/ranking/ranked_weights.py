"""The scores of one class with their weights, and how much weight lies below any score.

Folded scores are in a :class:`RankBase`: sorted arrays. Later changes are kept in
one of two structures, because a ranking is used in two ways:

- read after every event: ``add`` and ``remove`` change a :class:`RankDelta`,
  which ranks at once and is folded into the base when it has grown;
- read now and then: ``queue``, ``add_many`` and ``merge`` only append to a
  :class:`ScoreQueue`, and the next read sorts and merges all of it at once,
  ten times cheaper an event.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import Any

import numpy as np
from sortedcontainers import SortedList

from streameval.errors import InputError
from streameval.events.values import FloatArray, IntArray, Weight
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
    """Distinct scores, ascending, with their weights. Immutable, so copies share it.

    Args:
        scores: A distinct ascending run.
        sums: int64, the whole weight below each score, and one last entry, the
            weight in all. None stands for 0, 1, 2, …: every score weighs 1.
        weights: float64 weights, in place of ``sums``: a sum of floats does
            not determine its terms.

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
        at = bisect_left(scores, score)
        tied = at < len(scores) and scores[at] == score
        if sums is None:
            return at, int(tied)
        below: Weight = sums[at]
        if not tied:
            return below, 0
        if self.weights is not None:
            return below, float(self.weights[at])
        return below, sums[at + 1] - below

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


# What has changed in a ranking since its arrays were last written: the answer stays at hand.
#
# A sorted list counts its entries, not their weights. So there is one list for
# each signed power of two: an event of weight 5 goes into the lists of 4 and of
# 1, and taking it back puts it into those of −4 and −1. Unit weights, the usual
# case, need a single list.


class RankDelta:
    """Signed whole weights by score, with the weight below any score in O(log n).

    Attributes:
        weights: The change at each score; 0 where changes cancelled.
        entries: Number of entries in all lists: what it costs to keep.

    >>> delta = RankDelta()
    >>> delta.change(0.5, 5)
    >>> delta.change(0.2, -1)
    >>> delta.below(0.3), delta.below(0.9), delta.weights[0.5]
    (-1, 4, 5)
    """

    __slots__ = ("_powers", "_units", "entries", "weights")

    def __init__(self) -> None:
        self._units: Any = SortedList()
        self._powers: dict[int, Any] = {}
        self.weights: dict[float, int] = {}
        self.entries = 0

    def change(self, score: float, weight: int) -> None:
        """Add a weight, negative to take it back; one entry for each bit set in it."""
        if weight == 1:
            self._units.add(score)
            self.entries += 1
        else:
            sign, rest = (1, weight) if weight > 0 else (-1, -weight)
            while rest:
                lowest = rest & -rest
                rest -= lowest
                self._list(sign * lowest).add(score)
                self.entries += 1
        self.weights[score] = self.weights.get(score, 0) + weight

    def _list(self, power: int) -> Any:
        if power == 1:
            return self._units
        entries = self._powers.get(power)
        if entries is None:
            entries = self._powers[power] = SortedList()
        return entries

    def below(self, score: float) -> int:
        """The sum of the changes below a score."""
        weight: int = self._units.bisect_left(score)
        if self._powers:
            for power, entries in self._powers.items():
                weight += power * entries.bisect_left(score)
        return weight

    def arrays(self) -> tuple[FloatArray, IntArray]:
        """Scores, in no order, and their changes."""
        length = len(self.weights)
        scores = np.fromiter(self.weights.keys(), np.float64, length)
        return scores, np.fromiter(self.weights.values(), np.int64, length)

    def copy(self) -> RankDelta:
        """An independent delta of the same changes; O(n)."""
        twin = RankDelta()
        twin._units = SortedList(self._units)
        twin._powers = {power: SortedList(entries) for power, entries in self._powers.items()}
        twin.weights = self.weights.copy()
        twin.entries = self.entries
        return twin


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

_DELTA_LEAST = 2048
_DELTA_SHARE = 32
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

    Memory:
        Folded: 8 bytes a distinct score while every weight is 1, else 16.

    >>> ranked = RankedWeights(np.array([0.9, 0.1, 0.4, 0.4]))
    >>> ranked.rank(0.4)
    (1, 3)
    >>> ranked.add(0.2, 5)
    >>> ranked.rank(0.4), ranked.total
    ((6, 8), 9)
    """

    __slots__ = ("_base", "_delta", "_queue", "_total", "exact")

    def __init__(
        self, scores: FloatArray | None = None, weights: WeightArray | None = None
    ) -> None:
        self._base = RankBase(np.zeros(0))
        self._delta = RankDelta()
        self._queue = ScoreQueue()
        self.exact = True
        self._total = 0  # of no meaning once promoted: float sums are taken from the base
        if scores is not None:
            self.add_many(scores, weights)

    @property
    def total(self) -> Weight:
        """The sum of all weights; O(1) while exact."""
        return self._total if self.exact else float(self.arrays()[1].sum())

    @property
    def entries(self) -> int:
        """Number of entries held, at least one for each distinct score; O(1)."""
        return len(self._base) + self._delta.entries + len(self._queue)

    def rank(self, score: float) -> tuple[Weight, Weight]:
        """The weight below a score, and the weight at or below it.

        Cost:
            O(log n), 2 µs among 10⁶ scores; O(n) after queued events, and
            after any change once weights are floats.
        """
        if self._queue.waiting:
            self.fold()
        below, at = self._base.find(score)
        delta = self._delta
        if delta.entries:
            below += delta.below(score)
            at += delta.weights.get(score, 0)
        return below, below + at

    def weight_at(self, score: float) -> Weight:
        """The weight of one score; cost as :meth:`rank`."""
        if self._queue.waiting:
            self.fold()
        return self._base.find(score)[1] + self._delta.weights.get(score, 0)

    def add(self, score: float, weight: Weight = 1) -> None:
        """Count one event so that :meth:`rank` stays O(log n).

        Cost:
            2 µs among 10⁶ scores, and as much again for each further bit set
            in the weight.
        """
        if self.exact and type(weight) is int:
            self.change(score, weight)
        else:
            self.queue(score, weight)

    def change(self, score: float, weight: int) -> None:
        """Add a whole weight, negative to take away what is there, while exact; as :meth:`add`."""
        if self._total + weight > MAX_TOTAL:
            check_total(self._total, weight)
        delta = self._delta
        delta.change(score, weight)
        self._total += weight
        if delta.entries > _DELTA_LEAST and delta.entries * _DELTA_SHARE > len(self._base.scores):
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
            check_total(self._total, count if weights is None else exact_sum(weights))

    def _arrive(self, weight: Weight) -> None:
        """Enter weight that is about to be queued into the total."""
        if self.exact:
            if type(weight) is float:
                self.promote()
                return
            if self._total + weight > MAX_TOTAL:
                check_total(self._total, weight)
            self._total += int(weight)

    def _relieve(self) -> None:
        if len(self._queue) > _QUEUE_LEAST and len(self._queue) > len(self._base):
            self.fold()

    def remove(self, score: float, weight: Weight = 1) -> int:
        """Remove weight that was counted before; cost as :meth:`add` and :meth:`rank`.

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
        other.fold()
        base = other._base
        if not other.exact:
            self.promote()
        self._arrive(other._total)
        run = base.run()
        if run is not None:
            self._queue.put_run(run)
        else:
            self._queue.put_pairs(base.scores, base.each())
        self._relieve()

    def subtract(self, other: RankedWeights) -> None:
        """Take out all of another that was merged in; both exact. Cost: as :meth:`merge`."""
        scores, weights = other.arrays()
        self._total -= other._total
        self._queue.put_pairs(scores, -weights)
        self._relieve()

    def promote(self) -> None:
        """Make the weights float64, for good."""
        if self.exact:
            self.fold()
            self._base, self.exact = self._base.promoted(), False
            self._queue.ordered = True

    def fold(self) -> None:
        """Fold all that waits into the base; O(n) when anything does."""
        if not self._queue.waiting and not self._delta.entries:
            return
        runs, pairs = self._queue.take()
        if self._delta.entries:
            scores, changes = self._delta.arrays()
            self._delta = RankDelta()
            if (changes == 1).all():
                runs.append(np.sort(scores))
            else:
                pairs.append((scores, changes))
        self._base = self._base.absorbed(runs, pairs)

    def arrays(self) -> tuple[FloatArray, WeightArray]:
        """The distinct scores, ascending, and their weights (int64, or float64); read-only."""
        self.fold()
        return self._base.scores, self._base.each()

    def folded(self) -> RankBase:
        """All that was counted so far, as it will not change any more."""
        self.fold()
        return self._base

    def running(self) -> tuple[FloatArray, WeightArray | None]:
        """The distinct scores, and the weight below each followed by the weight in all.

        None stands for 0, 1, 2, …: every score weighs 1. Read-only.
        """
        self.fold()
        return self._base.scores, self._base.running()

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
        twin._base, twin._delta, twin._queue = self._base, self._delta.copy(), self._queue.copy()
        twin.exact, twin._total = self.exact, self._total
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
        sample = self._base.scores[:: max(1, len(self._base) // 8)].tolist()
        sample += [0.0, *list(self._delta.weights)[:8]]
        before = [self.rank(score) for score in sample]
        scores, weights = self.arrays()
        assert not len(self._queue)
        assert not self._queue.waiting
        assert not self._delta.entries
        assert np.isfinite(scores).all()
        assert (scores[1:] > scores[:-1]).all()
        assert not np.signbit(scores[scores == 0]).any()
        assert len(weights) == len(scores)
        assert (weights > 0).all()
        assert weights.dtype == (np.int64 if self.exact else np.float64)
        assert (self._base.weights is None) == self.exact
        assert self._base.sums is None or (self.exact and (weights > 1).any())
        assert not self.exact or self._total == exact_sum(weights) <= MAX_TOTAL
        for score, (below, at_or_below) in zip(sample, before, strict=True):
            for found, mask in ((below, scores < score), (at_or_below, scores <= score)):
                if self.exact:
                    assert found == exact_sum(weights[mask])
                else:
                    assert math.isclose(found, weights[mask].sum(), rel_tol=1e-9, abs_tol=1e-8)
