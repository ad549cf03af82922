"""Scores with whole weights of any size, and W2 of them: the rankings of a fading window.

An event that is 60 half-lives younger than another weighs 2⁶⁰ as much, so that the weights of
a window need some 128 bits and W2 twice as many. They are Python ints here, and 128-bit integers
in :class:`~streameval.states.native.fading_sums.NativeFadingSums`, which gives the same numbers.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from streameval.errors import InputError
from streameval.events.values import Label
from streameval.states.class_scores import ClassScores
from streameval.states.ranking.score_groups import ScoreGroups
from streameval.states.score_index import ScoreIndex

_MOST = 512
"""Scores of a block."""
_ONE_BY_ONE = 8
"""Adding one of so many scores takes as long as building anew."""
_MOST_CLASSES = 128
"""Classes whose rankings are kept: each event changes them all."""


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

    def add_multiples(self, parts: Iterable[tuple[ScoreIndex, int]]) -> None:
        """Add all of indices whose weights are whole, so many times; negative to take away."""
        self.add_groups([(index.groups(), factor) for index, factor in parts])

    def add_groups(self, parts: Iterable[tuple[ScoreGroups, int]]) -> None:
        """The same of scores with their weights."""
        entries = [
            (score, negatives * factor, positives * factor)
            for groups, factor in parts
            for score, positives, negatives in zip(*map(np.ndarray.tolist, groups), strict=True)
        ]
        if _ONE_BY_ONE * len(entries) > self.distinct:
            self._add_all(entries)
            return
        for score, *weights in entries:
            for positive, weight in enumerate(weights):
                if weight:
                    self.add_whole(bool(positive), score, weight)

    def _add_all(self, entries: list[tuple[float, int, int]]) -> None:
        """Build all blocks anew with more entries of score, negatives and positives."""
        sums: dict[float, tuple[int, int]] = {}
        held = ((score, negatives, positives) for score, positives, negatives in self.groups())
        for score, *more in (*held, *entries):
            below = sums.get(score, (0, 0))
            sums[score] = (below[0] + more[0], below[1] + more[1])
        self._blocks, self._last = [], []
        self.totals, self.twice_wins = [0, 0], 0
        scores = sorted(score for score, weights in sums.items() if any(weights))
        for start in range(0, len(scores) or 1, _MOST // 2):
            chunk = scores[start : start + _MOST // 2]
            negatives = [sums[score][0] for score in chunk]
            positives = [sums[score][1] for score in chunk]
            for lost, won in zip(negatives, positives, strict=True):
                self.twice_wins += won * (2 * self.totals[0] + lost)
                self.totals[0] += lost
                self.totals[1] += won
            self._blocks.append(_Block(chunk, (negatives, positives)))
        self._last = [block.scores[-1] for block in self._blocks[:-1]]

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
            groups = ScoreGroups(*self._ranking.scaled(self._units, self._bits))
            self._made = ScoreIndex.from_state({"exact": False, **groups._asdict()})
        return self._made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index(), name)

    def __eq__(self, other: object) -> bool:
        return self._index() == (other._index() if type(other) is ScaledIndex else other)

    __hash__ = None  # type: ignore[assignment]


class WideClassScores:
    """The scores of each class's column, the class against the rest, of weights of any size.

    What :class:`~streameval.states.class_scores.ClassScores` has for one-vs-rest AUC. A label
    that an event does not name has the score 0 there, and so has one that no event before
    named.

    Attributes:
        counts: The weight of each true class.
        declared: The closed list of classes, or None.

    Cost:
        O(√n) for each class to add or remove; wins are current.

    >>> scores = WideClassScores()
    >>> scores.add_whole("cat", {"cat": 0.75, "dog": 0.25}, 2**100)
    >>> scores.add_whole("dog", {"dog": 1.0}, 3)
    >>> scores.labels, scores.one_vs_rest_wins("cat") == 6 * 2**100
    (['cat', 'dog'], True)
    """

    __slots__ = ("_rankings", "counts", "declared")

    exact = True

    def __init__(self, declared: tuple[Label, ...] | None = None) -> None:
        self.declared = declared
        self.counts: dict[Label, int] = {}
        self._rankings: dict[Label, WideRanking] = {}

    @property
    def whole(self) -> WideClassScores:
        """These: what areas are computed of."""
        return self

    @property
    def labels(self) -> list[Label]:
        """True classes, and columns with a score other than 0, ascending."""
        return sorted(
            label
            for label, ranking in self._rankings.items()
            if self.counts.get(label) or any(score for score, _, _ in ranking.groups())
        )

    @property
    def classes(self) -> list[Label]:
        """The declared classes, or all labels where they are discovered, ascending."""
        return self.labels if self.declared is None else sorted(self.declared)

    @property
    def total(self) -> int:
        """The weight of all events."""
        return sum(self.counts.values())

    def true_count(self, label: Label) -> int:
        """The weight of the events of one true class."""
        return self.counts.get(label, 0)

    def one_vs_rest_wins(self, column: Label) -> int:
        """Twice the weight of the pairs that a class wins over all others in its column."""
        return self._rankings[column].twice_wins if column in self._rankings else 0

    def mean_share(self) -> float:
        """nan: the mean is that of the wins."""
        return math.nan

    def _learn(self, labels: Iterable[Label]) -> None:
        """Begin the columns of labels that are new; raises InputError where there are too many."""
        new = {label for label in labels if label not in self._rankings}
        if len(self._rankings) + len(new) > _MOST_CLASSES:
            raise InputError("proba", expected=f"at most {_MOST_CLASSES} classes", got="more")
        for label in new:
            ranking = self._rankings[label] = WideRanking()
            if self.total:
                ranking.add_whole(False, 0.0, self.total)

    def _count(self, label: Label, weight: int) -> None:
        count = self.counts.pop(label, 0) + weight
        if count:
            self.counts[label] = count

    def add_whole(
        self, y_true: Label, proba: Mapping[Label, float], weight: int, y_pred: Label | None = None
    ) -> None:
        """Add an event, with a negative weight one that is there to take it away."""
        self._learn((y_true, *proba))
        self._count(y_true, weight)
        for label, ranking in self._rankings.items():
            ranking.add_whole(label == y_true, proba.get(label, 0.0), weight)

    def add_multiples(self, parts: Iterable[tuple[ClassScores, int]]) -> None:
        """Add all of states whose weights are whole, so many times; negative to take away."""
        parts = list(parts)
        self._learn(label for part, _ in parts for label in part.labels)
        for part, factor in parts:
            for label in part.labels:
                if part.true_count(label):
                    self._count(label, int(part.true_count(label)) * factor)
        for label, ranking in self._rankings.items():
            ranking.add_groups((part.one_vs_rest_groups(label), factor) for part, factor in parts)

    def _check(self) -> None:
        for label, ranking in self._rankings.items():
            ranking._check()
            assert ranking.totals[1] == self.true_count(label)
            assert sum(ranking.totals) == self.total

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WideClassScores):
            return NotImplemented
        return self.counts == other.counts and {
            label: list(self._rankings[label].groups()) for label in self.labels
        } == {label: list(other._rankings[label].groups()) for label in other.labels}

    __hash__ = None  # type: ignore[assignment]  # mutable


class ScaledClassScores:
    """Class scores whose weights are those of wide ones over a unit, for reading.

    Args:
        whole: The weights in whole units, which one-vs-rest AUC is computed of; it does not
            change while this is used.
        make: Makes the class scores with float weights that everything else is read from.
    """

    __slots__ = ("_made", "_make", "whole")

    exact = False
    level = 0
    max_scores = None

    def __init__(self, whole: WideClassScores, make: Callable[[], ClassScores]) -> None:
        self.whole = whole
        self._make = make
        self._made: ClassScores | None = None

    @property  # type: ignore[misc]
    def __class__(self) -> type[Any]:
        # As that of a scaled index.
        return ClassScores

    def _scores(self) -> ClassScores:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scores(), name)

    def __eq__(self, other: object) -> bool:
        return self._scores() == (other._scores() if type(other) is ScaledClassScores else other)

    __hash__ = None  # type: ignore[assignment]
