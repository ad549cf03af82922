"""Many multisets of weighted scores in a few arrays, each multiset under an integer key."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streameval.events.values import FloatArray, IntArray, Weight
from streameval.states.ranking.coarse_score import coarse_column
from streameval.states.ranking.sorted_runs import WeightArray

_Run = npt.NDArray[np.complex128]
"""Key and score as one number, which numpy sorts by the key and then by the score."""

MOST_KEY = 2**53 - 1
"""The largest key: a float64 holds it."""


class Entries(NamedTuple):
    """Scores under their keys, in any order."""

    keys: IntArray
    scores: FloatArray
    weights: WeightArray | None
    """int64, which may be negative, or float64; None stands for 1 each."""


class KeyedScores:
    """Multisets of weighted scores, sorted by key and then by score.

    What is added makes another object, and only :meth:`take` changes one. So copies share
    the arrays until then.

    Args:
        keys: Ascending, none twice, 0 to :data:`MOST_KEY`.
        starts: Where each multiset begins in the two arrays, and one last entry, their length.
        scores: Ascending in each multiset, none twice.
        weights: int64 or float64, above 0; None stands for 1 each.

    Memory:
        8 bytes a score while every weight is 1, else 16, and 24 bytes a multiset.

    >>> some = KeyedScores().absorbed(Entries(np.array([7, 3, 7]), np.array([.5, .1, .5]), None))
    >>> some.keys.tolist(), [side.tolist() for side in some.arrays(7)]
    ([3, 7], [[0.5], [2]])
    >>> some.total(7), some.total(8)
    (2, 0)
    """

    __slots__ = ("_own", "_totals", "_views", "keys", "scores", "starts", "weights", "worn")

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
        self.worn = False
        """Whether :meth:`take` has left a weight of 0: :meth:`absorbed` then drops it."""
        self._own = False
        self._totals: WeightArray | None = None
        self._views: tuple[Any, ...] | None = None

    def __len__(self) -> int:
        return len(self.scores)

    # Reading

    def place(self, key: int) -> int:
        """The position of a key, or −1."""
        keys = self._viewed()[0]
        at = bisect_left(keys, key)
        return at if at < len(keys) and keys[at] == key else -1

    def arrays(self, key: int) -> tuple[FloatArray, WeightArray]:
        """The distinct scores under a key, ascending, and their weights; not to be written to."""
        at = self.place(key)
        span = slice(0) if at < 0 else slice(self.starts[at], self.starts[at + 1])
        return self.scores[span], self.each(span)

    def span(self, low: int, high: int) -> tuple[slice, slice]:
        """Where the keys from ``low`` up to ``high`` are, and where their scores are."""
        start, end = np.searchsorted(self.keys, [low, high]).tolist()
        return slice(start, end), slice(int(self.starts[start]), int(self.starts[end]))

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
        """The weight of each multiset; int64 or float64."""
        totals = self._totals
        if totals is None:
            weights = self.weights
            totals = self._totals = (
                self.lengths if weights is None else np.add.reduceat(weights, self.starts[:-1])
            )
        return totals

    def total(self, key: int) -> Weight:
        """The weight of one multiset; 0 where there is none."""
        at = self.place(key)
        held: Weight = self.totals[at].item() if at >= 0 else 0
        return held

    def each_key(self) -> IntArray:
        """The key of each score."""
        keys: IntArray = np.repeat(self.keys, self.lengths)
        return keys

    def _viewed(self) -> tuple[Any, ...]:
        # bisect on a memoryview takes a third of ndarray.searchsorted.
        views = self._views
        if views is None:
            views = self._views = (self.keys.data, self.starts.data, self.scores.data)
        return views

    # Changing

    def find(self, key: int, score: float) -> int:
        """The position of a score under a key, or −1; O(log n)."""
        _, starts, scores = self._viewed()
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
        """Take weight off the score at a position, at most what it has.

        Returns:
            The remaining weight of the multiset, an int.

        Cost:
            O(log n), and O(n) the first time after a copy.
        """
        if not self._own or self.weights is None or self._totals is None:
            self.weights, self._totals = self.each().copy(), self.totals.copy()
            self._own = True
        at = self.place(key)
        self._totals[at] -= weight
        self.weights[position] -= weight
        self.worn = self.worn or not self.weights[position]
        return int(self._totals[at])

    def shared(self) -> KeyedScores:
        """An independent copy, of the same arrays."""
        self._own = False
        twin = KeyedScores(self.keys, self.starts, self.scores, self.weights)
        twin._totals, twin._views, twin.worn = self._totals, self._views, self.worn
        return twin

    # Others that are made of these

    def absorbed(self, *more: Entries) -> KeyedScores:
        """These and more; scores whose weight becomes 0 are dropped.

        Cost:
            O(m log m) for m more scores, and O(n).
        """
        held = (self.weights, *(part.weights for part in more))
        if any(weights is not None and weights.dtype != np.int64 for weights in held):
            own = _joined(self.each_key(), self.scores)
            added = np.concatenate([_joined(*part[:2]) for part in more])
            given = [np.ones(len(p.keys)) if p.weights is None else p.weights for p in more]
            return _of_run(*_add_in_order(own, self.each(), added, np.concatenate(given)))
        run, changes = _run(more)
        if not len(self):
            return _of_run(run, changes)
        own = _joined(self.each_key(), self.scores)
        at = np.searchsorted(own, run)
        known = at < len(own)
        known[known] = own[at[known]] == run[known]
        if self.weights is None and changes is None and not known.any():
            return _of_run(np.insert(own, at, run), None)
        each = self.each().copy()
        if changes is None:
            changes = np.ones(len(run), np.int64)
        each[at[known]] = each[at[known]] + changes[known]
        new = ~known
        return _of_run(np.insert(own, at[new], run[new]), np.insert(each, at[new], changes[new]))

    def entries(self, keys: IntArray | None = None, sign: int = 1) -> Entries:
        """All scores; ``keys`` has another key for each multiset, ``sign`` −1 takes them out."""
        self._own = False
        each = self.each_key() if keys is None else np.repeat(keys, self.lengths)
        weights = self.weights
        if sign < 0:
            weights = -self.each()
        return Entries(each, self.scores, weights)

    def renamed(self, keys: IntArray) -> KeyedScores:
        """The same multisets under other keys, none twice and in any order."""
        if (keys[1:] > keys[:-1]).all():
            twin = self.shared()
            twin.keys, twin._views = keys, None
            return twin
        order = np.argsort(keys)
        lengths = self.lengths[order]
        starts = np.zeros(len(keys) + 1, np.int64)
        np.cumsum(lengths, out=starts[1:])
        places = np.repeat(self.starts[order] - starts[:-1], lengths) + np.arange(len(self))
        weights = None if self.weights is None else self.weights[places]
        return KeyedScores(keys[order], starts, self.scores[places], weights)

    def coarsened(self, level: int) -> KeyedScores:
        """The same weights at the cells of a level."""
        scores = coarse_column(self.scores, level)
        return KeyedScores().absorbed(Entries(self.each_key(), scores, self.weights))

    def promoted(self) -> KeyedScores:
        """The same with float64 weights."""
        return KeyedScores(self.keys, self.starts, self.scores, self.each().astype(np.float64))

    def __reduce__(self) -> tuple[object, ...]:
        return KeyedScores, (self.keys, self.starts, self.scores, self.weights)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KeyedScores):
            return NotImplemented
        return all(
            np.array_equal(a, b)
            for a, b in (
                (self.keys, other.keys),
                (self.starts, other.starts),
                (self.scores, other.scores),
                (self.each(), other.each()),
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def _check(self) -> None:
        """Assert every invariant."""
        assert len(self.starts) == len(self.keys) + 1
        assert self.starts[0] == 0
        assert self.starts[-1] == len(self.scores)
        assert (self.keys[1:] > self.keys[:-1]).all()
        assert (self.lengths > 0).all()
        assert np.isfinite(self.scores).all()
        run = _joined(self.each_key(), self.scores)
        assert (run[1:] > run[:-1]).all()
        each = self.each()
        assert len(each) == len(self.scores)
        assert (each >= 0).all()
        assert self.worn or (each > 0).all()
        if each.dtype == np.int64:
            for at, total in enumerate(self.totals.tolist()):
                assert total == sum(each[self.starts[at] : self.starts[at + 1]].tolist())


def _joined(keys: IntArray, scores: FloatArray) -> _Run:
    run = np.empty(len(scores), np.complex128)
    run.real, run.imag = keys, scores
    return run


def _run(parts: tuple[Entries, ...]) -> tuple[_Run, WeightArray | None]:
    """All entries in one run, none twice, and their weights where these are not all 1."""
    run = np.concatenate([np.zeros(0, np.complex128), *(_joined(*part[:2]) for part in parts)])
    if all(part.weights is None for part in parts):
        run.sort()
        starts = _starts(run)
        if len(starts) == len(run):
            return run, None
        return run[starts], np.diff(starts, append=len(run))
    weights = np.concatenate(
        [
            np.ones(len(part.keys), np.int64) if part.weights is None else part.weights
            for part in parts
        ]
    )
    order = np.argsort(run, kind="stable")
    run, weights = run[order], weights[order]
    starts = _starts(run)
    return run[starts], np.add.reduceat(weights, starts)


def _starts(values: npt.NDArray[Any]) -> IntArray:
    """Where another value begins, in an ascending array."""
    begins = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=begins[1:])
    return np.flatnonzero(begins)


def _of_run(run: _Run, weights: WeightArray | None) -> KeyedScores:
    if weights is not None:
        stays = weights != 0
        if not stays.all():
            run, weights = run[stays], weights[stays]
        if weights.dtype == np.int64 and (weights == 1).all():
            weights = None
    keys = run.real.astype(np.int64)
    starts = _starts(keys)
    return KeyedScores(keys[starts], np.append(starts, len(run)), run.imag.copy(), weights)


def _add_in_order(
    run: npt.NDArray[Any], weights: WeightArray, more: npt.NDArray[Any], added: WeightArray
) -> tuple[npt.NDArray[Any], FloatArray]:
    """A distinct run with weights, and more in any order, whose weights are fractions.

    The weights at one place are added one after another, so that their sum does not depend
    on when they are.

    >>> one, other, both = (np.array(given) for given in ([0.5], [0.5, 0.1], [1.0, 2.5]))
    >>> [side.tolist() for side in _add_in_order(one, np.array([1]), other, both)]
    [[0.1, 0.5], [2.5, 2.0]]
    """
    new = np.setdiff1d(more, run)
    at = np.searchsorted(run, new)
    run = np.insert(run, at, new)
    summed: FloatArray = np.insert(weights.astype(np.float64), at, 0.0)
    np.add.at(summed, np.searchsorted(run, more), added)
    return run, summed
