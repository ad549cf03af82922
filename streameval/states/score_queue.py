"""Queue of scores that were counted but not yet sorted in."""

from __future__ import annotations

from typing import Any

import numpy as np

from streameval.events import FloatArray, Weight
from streameval.states.sorted_runs import WeightArray

__all__ = ["ScoreQueue"]

_LOOSE_MOST = 2**16
_SMALL_ARRAY = 2**12


class ScoreQueue:
    """Events in the form in which they cost least until someone asks.

    Single events and small arrays wait in plain lists and become arrays in
    lots of 65,536: a list costs four times the memory of an array, and a
    thousand small arrays would be slow to merge.

    Attributes:
        waiting: Whether there is any event.

    >>> queue = ScoreQueue()
    >>> queue.put(0.5, 1)
    False
    >>> queue.put_many(np.array([0.7, 0.1]), None)
    >>> len(queue), queue.take()
    (3, ([array([0.1, 0.5, 0.7])], []))
    """

    __slots__ = ("_loose", "_loose_pairs", "_pairs", "_runs", "_stored", "waiting")

    def __init__(self) -> None:
        # Ascending arrays of scores that weigh 1 each; scores with weights, in any order.
        self._runs: list[FloatArray] = []
        self._pairs: list[tuple[FloatArray, WeightArray]] = []
        self._loose: list[float] = []
        self._loose_pairs: list[tuple[float, Weight]] = []
        self._stored = 0
        # Read at each event, where a length counted from the lists would cost 0.3 µs.
        self.waiting = False

    def __len__(self) -> int:
        return self._stored + len(self._loose) + len(self._loose_pairs)

    def put(self, score: float, weight: Weight) -> bool:
        """Keep one event; O(1). Says whether single events have just become an array."""
        self.waiting = True
        if weight == 1:
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
        if weights is not None and (weights == 1).all():
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
        if len(run):
            self.waiting = True
            self._runs.append(run)
            self._stored += len(run)

    def put_pairs(self, scores: FloatArray, weights: WeightArray) -> None:
        """Keep scores and their weights, which may be negative; shared, not copied."""
        if len(scores):
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
        twin._stored, twin.waiting = self._stored, self.waiting
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
