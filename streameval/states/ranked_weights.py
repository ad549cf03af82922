"""The scores of one class with their weights, and how much weight lies below any score.

Scores rest in a :class:`~streameval.states.rank_base.RankBase`: sorted arrays.
Later changes are kept in one of two places, because a ranking is used in
two ways:

- read after every event: ``add`` and ``remove`` change a
  :class:`~streameval.states.rank_delta.RankDelta`, which answers at once and
  is folded into the base when it has grown;
- read now and then: ``queue``, ``add_many`` and ``merge`` only append to a
  :class:`~streameval.states.score_queue.ScoreQueue`, and the next read
  sorts and merges all of it in one go, ten times cheaper an event.
"""

from __future__ import annotations

import numpy as np

from streameval.errors import InputError
from streameval.events import FloatArray, Weight
from streameval.states.rank_base import RankBase
from streameval.states.rank_delta import RankDelta
from streameval.states.removal import never_came, removable_weight
from streameval.states.score_queue import ScoreQueue
from streameval.states.sorted_runs import WeightArray, exact_sum

__all__ = ["MAX_TOTAL", "RankedWeights", "check_total"]

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
    """A multiset of weighted scores that knows the weight below any score.

    A part of larger states: it takes what :mod:`streameval.events` has made
    canonical (finite scores, no ``-0.0``; positive weights, whole ones as
    ``int`` or int64) and does not look again.

    Args:
        scores: float64, in any order.
        weights: int64 or float64, one for each score; None stands for 1 each.

    Attributes:
        exact: Whether every weight so far is an integer. Not to be set.

    Memory:
        At rest 8 bytes a distinct score while every weight is 1, else 16.

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
            self.settle()
        below, at = self._base.find(score)
        delta = self._delta
        if delta.entries:
            below += delta.below(score)
            at += delta.weights.get(score, 0)
        return below, below + at

    def weight_at(self, score: float) -> Weight:
        """The weight of one score; cost as :meth:`rank`."""
        if self._queue.waiting:
            self.settle()
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
            self.settle()

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
            to the next question. Weights other than 1 cost six times as much.
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
            self.settle()

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
            raise never_came("score", score)
        self.change(score, -whole)
        return whole

    def merge(self, other: RankedWeights) -> None:
        """Count all of another ranking, whose content stays as it is.

        Cost:
            O(1) once the other is settled: its arrays are shared, and merged
            at the next question.
        """
        other.settle()
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
            self.settle()
            self._base, self.exact = self._base.promoted(), False

    def settle(self) -> None:
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
        self.settle()
        return self._base.scores, self._base.each()

    def at_rest(self) -> RankBase:
        """All that was counted so far, as it will not change any more."""
        self.settle()
        return self._base

    def running(self) -> tuple[FloatArray, WeightArray | None]:
        """The distinct scores, and the weight below each followed by the weight in all.

        None stands for 0, 1, 2, …: every score weighs 1. Read-only.
        """
        self.settle()
        return self._base.scores, self._base.running()

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
        """Assert every invariant; settles."""
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
                assert np.isclose(float(found), float(weights[mask].sum()), rtol=1e-9)
                assert not self.exact or found == exact_sum(weights[mask])
