"""Many multisets of weighted scores in a few arrays, each multiset under an integer key."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streameval.events.values import FloatArray, IntArray, Weight
from streameval.states.ranking.coarse_score import coarse_column, least_level
from streameval.states.ranking.weights import WeightArray

MOST_KEY = 2**53 - 1
"""The largest key: a float64 holds it."""

# A pair as a key: a column's code, and that of a true class in the low bits.
KEY_SHIFT = 26
LOW_KEY = (1 << KEY_SHIFT) - 1


class Entries(NamedTuple):
    """Scores under their keys, in any order."""

    keys: IntArray
    scores: FloatArray
    weights: WeightArray | None = None
    """int64, which may be negative, or float64; None stands for 1 each."""


_NONE = Entries(np.zeros(0, np.int64), np.zeros(0))


class KeyedScores:
    """Multisets of weighted scores, sorted by key and then by score.

    :meth:`take` is the only method that changes one; copies share the arrays until then. Each
    multiset begins at its ``starts``; ``weights`` None stands for 1 each.
    """

    __slots__ = ("_own", "_totals", "_views", "has_removed", "keys", "scores", "starts", "weights")

    def __init__(
        self,
        keys: IntArray | None = None,
        starts: IntArray | None = None,
        scores: FloatArray | None = None,
        weights: WeightArray | None = None,
    ) -> None:
        self.keys: IntArray = np.zeros(0, np.int64) if keys is None else keys
        self.starts: IntArray = np.zeros(1, np.int64) if starts is None else starts
        self.scores: FloatArray = np.zeros(0) if scores is None else scores
        self.weights = weights
        self._totals: WeightArray | None = None
        self.has_removed = False
        """Whether :meth:`take` has left a weight of 0: :meth:`absorbed` then drops it."""
        self._own = False  # whether no copy shares the weights and totals
        # bisect on a memoryview takes a third of ndarray.searchsorted.
        self._views = self.keys.data, self.starts.data, self.scores.data

    def __len__(self) -> int:
        return len(self.scores)

    # Reading

    def place(self, key: int) -> int:
        """The position of a key, or −1."""
        keys = self._views[0]
        at = bisect_left(keys, key)
        return at if at < len(keys) and keys[at] == key else -1

    def arrays(self, key: int) -> tuple[FloatArray, WeightArray]:
        """The distinct scores under a key, ascending, and their weights; not to be written to."""
        at = self.place(key)
        span = slice(0) if at < 0 else slice(self.starts[at], self.starts[at + 1])
        return self.scores[span], self.each(span)

    def each(self, span: slice = slice(None)) -> WeightArray:
        """The weights of the scores at some positions."""
        if self.weights is not None:
            return self.weights[span]
        return np.ones(len(self.scores[span]), np.int64)

    @property
    def lengths(self) -> IntArray:
        """The number of distinct scores of each multiset."""
        lengths: IntArray = np.diff(self.starts)
        return lengths

    @property
    def totals(self) -> WeightArray:
        """The weight of each multiset."""
        if self._totals is None:
            weights = self.weights
            self._totals = (
                self.lengths if weights is None else np.add.reduceat(weights, self.starts[:-1])
            )
        return self._totals

    def total(self, key: int) -> Weight:
        """The weight of one multiset; 0 for an unknown key."""
        at = self.place(key)
        held: Weight = self.totals[at].item() if at >= 0 else 0
        return held

    def each_key(self) -> IntArray:
        """The key of each score."""
        keys: IntArray = np.repeat(self.keys, self.lengths)
        return keys

    def entries(self, keys: IntArray | None = None, times: int = 1) -> Entries:
        """All scores, with another key for each multiset, and weights times a factor."""
        self._own = False
        each = self.each_key() if keys is None else np.repeat(keys, self.lengths)
        return Entries(each, self.scores, self.weights if times == 1 else self.each() * times)

    def least_level(self, level: int, limit: int) -> int:
        """The least level, from ``level`` on, at which no multiset has more scores but 0."""
        for at in np.flatnonzero(self.lengths > limit).tolist():
            scores = self.scores[self.starts[at] : self.starts[at + 1]]
            scores = np.unique(coarse_column(scores[scores != 0.0], level))
            level = least_level(scores, level, limit)
        return level

    # Changing

    def find(self, key: int, score: float) -> int:
        """The position of a score under a key, or −1; O(log n)."""
        _, starts, scores = self._views
        at = self.place(key)
        if at < 0:
            return -1
        end = starts[at + 1]
        position = bisect_left(scores, score, starts[at], end)
        return position if position < end and scores[position] == score else -1

    def weight_at(self, position: int) -> Weight:
        """The weight of the score at a position."""
        held: Weight = 1 if self.weights is None else self.weights[position].item()
        return held

    def take(self, key: int, position: int, weight: int) -> int:
        """Remove weight that is there; returns the rest of the multiset's. O(n) the first time."""
        if not self._own or self.weights is None or self._totals is None:
            self.weights, self._totals = self.each().copy(), self.totals.copy()
            self._own = True
        at = self.place(key)
        self._totals[at] -= weight
        self.weights[position] -= weight
        self.has_removed = self.has_removed or not self.weights[position]
        return int(self._totals[at])

    def shared(self) -> KeyedScores:
        """An independent copy, of the same arrays."""
        self._own = False
        twin = KeyedScores(self.keys, self.starts, self.scores, self.weights)
        twin._totals, twin.has_removed = self._totals, self.has_removed
        return twin

    # Others that are made of these

    def absorbed(self, *more: Entries) -> KeyedScores:
        """These and more, weights at one place added in order; without scores of weight 0."""
        run, added = _run(self.entries()), np.concatenate([_run(part) for part in more or (_NONE,)])
        held = [self.weights, *(part.weights for part in more)]
        weights: WeightArray | None = None
        if all(each is None for each in held):
            added.sort()
            run = np.insert(run, np.searchsorted(run, added), added) if len(self) else added
            starts = _starts(run)
            if len(starts) < len(run):
                weights = np.diff(starts, append=len(run))
        else:
            order = np.argsort(added, kind="stable")
            added = added[order]
            given = [
                np.ones(len(part.keys), np.int64) if part.weights is None else part.weights
                for part in more
            ]
            own = self.each()
            weights = np.concatenate([np.zeros(0, own.dtype), *given])[order]
            if weights.dtype != own.dtype:
                own = own.astype(np.float64)
            at = np.searchsorted(run, added, side="right")
            run, weights = np.insert(run, at, added), np.insert(own, at, weights)
            starts = _starts(run)
            if weights.dtype == np.int64:
                weights = np.add.reduceat(weights, starts)
            else:
                # One after another, so that the sum does not depend on when this is done.
                places = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(run)))
                weights = np.bincount(places, weights, len(starts)).astype(np.float64)
        if weights is not None:
            run = run[starts]
            stays = weights != 0
            if not stays.all():
                run, weights = run[stays], weights[stays]
            if weights.dtype == np.int64 and (weights == 1).all():
                weights = None
        keys = run.real.astype(np.int64)
        starts = _starts(keys)
        return KeyedScores(keys[starts], np.append(starts, len(run)), run.imag.copy(), weights)

    def renamed(self, keys: IntArray) -> KeyedScores:
        """The same multisets under other keys, none twice and in any order."""
        order = np.argsort(keys)
        lengths = self.lengths[order]
        starts = np.append(0, np.cumsum(lengths))
        places = np.repeat(self.starts[order] - starts[:-1], lengths) + np.arange(len(self))
        weights = None if self.weights is None else self.weights[places]
        return KeyedScores(keys[order], starts, self.scores[places], weights)

    def coarsened(self, level: int) -> KeyedScores:
        """The same weights at the cells of a level."""
        entries = self.entries()
        return KeyedScores().absorbed(entries._replace(scores=coarse_column(entries.scores, level)))

    def promoted(self) -> KeyedScores:
        """The same with float64 weights."""
        return KeyedScores(self.keys, self.starts, self.scores, self.each().astype(np.float64))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KeyedScores):
            return NotImplemented
        mine = self.keys, self.starts, self.scores, self.each()
        theirs = other.keys, other.starts, other.scores, other.each()
        return all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def _check(self) -> None:
        """Assert every invariant."""
        each, keys = self.each(), self.each_key()
        assert self.starts[0] == 0
        assert self.starts[-1] == len(self.scores) == len(each) == len(keys)
        assert (self.keys[1:] > self.keys[:-1]).all()
        assert (self.lengths > 0).all()
        assert np.isfinite(self.scores).all()
        assert ((keys[1:] > keys[:-1]) | (self.scores[1:] > self.scores[:-1])).all()
        assert (each >= 0).all()
        assert self.has_removed or (each > 0).all()
        if each.dtype == np.int64:
            for at, total in enumerate(self.totals.tolist()):
                assert total == sum(each[self.starts[at] : self.starts[at + 1]].tolist())


def _run(entries: Entries) -> npt.NDArray[np.complex128]:
    """Key and score as one number, which numpy sorts by the key and then by the score."""
    run = np.empty(len(entries.keys), np.complex128)
    run.real, run.imag = entries.keys, entries.scores
    return run


def _starts(values: npt.NDArray[np.int64 | np.complex128]) -> IntArray:
    """Where another value begins, in an ascending array."""
    begins = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=begins[1:])
    return np.flatnonzero(begins)
