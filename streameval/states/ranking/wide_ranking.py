"""Scores with whole weights of any size, and W2 of them: the ranking of a fading window.

An event that is 60 half-lives younger than another weighs 2⁶⁰ as much, so that the weights of
a window need some 128 bits and W2 twice as many. They are Python ints here, and 128-bit integers
in :class:`~streameval.states.native.fading_sums.NativeFadingSums`, which gives the same numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

import numpy as np

from streameval.states.ranking.score_groups import ScoreGroups
from streameval.states.score_index import ScoreIndex

_MOST = 512
"""Scores of a block."""


class _Block:
    """Ascending scores, and the weights of negatives [0] and positives [1] at them."""

    __slots__ = ("scores", "totals", "weights")

    def __init__(self, scores: list[float], weights: tuple[list[int], list[int]]) -> None:
        self.scores = scores
        self.weights = weights
        self.totals = [sum(weights[0]), sum(weights[1])]

    def split(self) -> _Block:
        """Give the upper half to a new block."""
        half = len(self.scores) // 2
        upper = _Block(self.scores[half:], (self.weights[0][half:], self.weights[1][half:]))
        del self.scores[half:]
        for side in (0, 1):
            del self.weights[side][half:]
            self.totals[side] -= upper.totals[side]
        return upper


class WideRanking:
    """Whole weights of any size at the scores of two classes, and W2 of them.

    Attributes:
        totals: The weight of the negatives and of the positives.
        twice_wins: W2 = Σ over (positive, negative) pairs of 2·[s⁺ > s⁻] + [s⁺ = s⁻], times
            both weights.

    Cost:
        O(√n) to add or remove; W2 is current.

    >>> ranking = WideRanking()
    >>> ranking.add_whole(True, 0.75, 2**100)
    >>> ranking.add_whole(False, 0.25, 3)
    >>> ranking.won_share, ranking.twice_wins == 6 * 2**100
    (1.0, True)
    """

    __slots__ = ("_blocks", "_last", "totals", "twice_wins")

    def __init__(self) -> None:
        self._blocks = [_Block([], ([], []))]
        # The highest score of each block but the last.
        self._last: list[float] = []
        self.totals = [0, 0]
        self.twice_wins = 0

    @property
    def distinct(self) -> int:
        """Number of distinct scores; O(√n)."""
        return sum(len(block.scores) for block in self._blocks)

    @property
    def won_share(self) -> float | None:
        """W2 / (2·P·N), the AUC, divided once; None while a class is missing."""
        pairs = self.totals[0] * self.totals[1]
        return self.twice_wins / (2 * pairs) if pairs else None

    def add_whole(self, positive: bool, score: float, weight: int) -> None:
        """Add a weight, negative to take away what is there; nothing is checked."""
        own, other = (1, 0) if positive else (0, 1)
        place = bisect_left(self._last, score)
        block = self._blocks[place]
        at = bisect_left(block.scores, score)
        found = at < len(block.scores) and block.scores[at] == score
        under = sum([before.totals[other] for before in self._blocks[:place]])
        under += sum(block.weights[other][:at])
        equal = block.weights[other][at] if found else 0
        pairs = 2 * under + equal
        self.twice_wins += weight * (pairs if positive else 2 * self.totals[other] - pairs)
        self.totals[own] += weight
        block.totals[own] += weight
        if not found:
            block.scores.insert(at, score)
            block.weights[own].insert(at, weight)
            block.weights[other].insert(at, 0)
            if len(block.scores) > _MOST:
                self._blocks.insert(place + 1, block.split())
                self._last.insert(place, block.scores[-1])
            return
        block.weights[own][at] += weight
        if not (block.weights[own][at] or equal):
            del block.scores[at], block.weights[0][at], block.weights[1][at]
            if not block.scores and len(self._blocks) > 1:
                del self._blocks[place], self._last[min(place, len(self._last) - 1)]

    def add_multiple(self, index: ScoreIndex, factor: int) -> None:
        """Add all of an index whose weights are whole, so many times; negative to take it away."""
        columns = map(np.ndarray.tolist, index.groups())
        for score, positives, negatives in zip(*columns, strict=True):
            if positives:
                self.add_whole(True, score, positives * factor)
            if negatives:
                self.add_whole(False, score, negatives * factor)

    def groups(self) -> Iterator[tuple[float, int, int]]:
        """Score, weight of positives and weight of negatives, ascending."""
        for block in self._blocks:
            yield from zip(block.scores, block.weights[1], block.weights[0], strict=True)

    def scaled(self, units: int, bits: int) -> ScoreGroups:
        """The groups with weights over ``units * 2**bits``, as floats; rounded twice."""
        groups = list(self.groups())
        factor = 2.0**-bits

        def column(side: int) -> Any:
            return np.array([group[side] for group in groups], dtype=np.float64)

        return ScoreGroups(column(0), column(1) * factor / units, column(2) * factor / units)

    def _check(self) -> None:
        assert len(self._last) == len(self._blocks) - 1
        below, wins = [0, 0], 0
        scores: list[float] = []
        for n, block in enumerate(self._blocks):
            assert len(block.scores) <= _MOST
            assert block.scores or len(self._blocks) == 1
            assert n == len(self._last) or block.scores[-1] <= self._last[n]
            assert block.totals == [sum(weights) for weights in block.weights]
            assert n == 0 or block.scores[0] > self._last[n - 1]
            scores += block.scores
        assert scores == sorted(set(scores))
        for _, positives, negatives in self.groups():
            assert positives >= 0 <= negatives
            assert positives or negatives
            wins += positives * (2 * below[0] + negatives)
            below = [below[0] + negatives, below[1] + positives]
        assert (wins, below) == (self.twice_wins, self.totals)


class ScaledIndex:
    """A score index whose weights are those of a ranking over a unit, for reading.

    AUC and totals are those of the ranking's integers, divided once. Everything else is read
    from an index with float weights, which is made when it is needed, in O(n).

    Args:
        ranking: The weights in whole units; it does not change while this is used.
        units: What weighs 1, over ``2**bits``.
        bits: That exponent.
    """

    __slots__ = ("_bits", "_made", "_ranking", "_units")

    exact = False
    level = 0
    max_scores = None

    def __init__(self, ranking: Any, units: int, bits: int) -> None:
        self._ranking = ranking
        self._units = units
        self._bits = bits
        self._made: ScoreIndex | None = None

    @property  # type: ignore[misc]
    def __class__(self) -> type[Any]:
        # Metrics ask for it where an argument is wrong: this is a score index to them.
        return ScoreIndex

    @property
    def positives(self) -> float:
        """The weight of the positives."""
        weight: float = self._ranking.totals[1] / (self._units << self._bits)
        return weight

    @property
    def negatives(self) -> float:
        """The weight of the negatives."""
        weight: float = self._ranking.totals[0] / (self._units << self._bits)
        return weight

    @property
    def won_share(self) -> float | None:
        """The share of pairs that the positive wins: the AUC; None while a class is missing."""
        share: float | None = self._ranking.won_share
        return share

    @property
    def twice_wins(self) -> float:
        """Twice the weight of these pairs."""
        wins: float = self._ranking.twice_wins / (self._units << self._bits) ** 2
        return wins

    @property
    def distinct(self) -> int:
        """Number of distinct scores."""
        distinct: int = self._ranking.distinct
        return distinct

    def _index(self) -> ScoreIndex:
        """The index with float weights."""
        if self._made is None:
            groups = self._ranking.scaled(self._units, self._bits)
            self._made = ScoreIndex.from_state({"exact": False, **groups._asdict()})
        return self._made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index(), name)

    def __eq__(self, other: object) -> bool:
        return self._index() == (other._index() if type(other) is ScaledIndex else other)

    __hash__ = None  # type: ignore[assignment]
