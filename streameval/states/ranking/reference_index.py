"""The reference score index, in plain Python: what the compiled one is tested against.

It is in use where nothing was compiled, and inside the compiled one for weights that are not
whole beside ``max_scores``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isclose
from typing import Any

import numpy as np
from sortedcontainers import SortedList

from streameval.errors import StateError
from streameval.events.truth import canonical_positive, positive_column
from streameval.events.values import (
    BoolArray,
    FloatArray,
    Weight,
    canonical_score,
    canonical_weight,
    check_same_length,
    score_column,
    weight_column,
)
from streameval.states.fields import never_counted, removable_weight, same_forms
from streameval.states.ranking.coarse_score import (
    checked_limit,
    coarse,
    coarse_column,
    least_level,
)
from streameval.states.ranking.score_groups import (
    ScoreGroups,
    auc,
    delong_sums,
    delong_variance,
    group_blocks,
    group_scores,
    groups_from_state,
    groups_to_state,
    ks_statistic,
    twice_u,
)
from streameval.states.ranking.weights import WeightArray, check_total
from streameval.states.ranking.wide_ranking import WideRanking
from streameval.states.sums.fixed_point import total_weight


def check_room(index: Any, other: Any) -> None:
    """Raise InputError where two score indexes, of whichever kind, weigh too much for one."""
    if index.exact and other.exact:
        check_total(index.positives, other.positives)
        check_total(index.negatives, other.negatives)


def check_columns(index: Any, positive: BoolArray, weight: Any) -> None:
    """Raise InputError where a batch of whole weights is too much for an index."""
    for total, chosen in ((index.positives, positive), (index.negatives, ~positive)):
        check_total(total, int(chosen.sum()) if weight is None else total_weight(weight[chosen]))


def check_same_limit(mine: int | None, theirs: int | None) -> None:
    """Raise StateError where two indexes do not keep the same number of scores."""
    if mine != theirs:
        raise StateError(f"merge: expected an index with max_scores={mine}, got {theirs}")


class ReferenceScoreIndex:
    """Exact state of everything that depends on the ranking of binary scores.

    Two sorted lists of scores, one for each class, while every weight is 1 and all scores are
    kept; from then on a table of the weights of both classes at each distinct score. With
    twice the U statistic,

        W2 = Σ over (positive, negative) pairs of 2·[s⁺ > s⁻] + [s⁺ = s⁻]

    AUC = W2 / (2·P·N). The lists keep W2 current; of the table it is derived at the next read.

    Args:
        events: Pairs (positive, score).
        max_scores: Most distinct scores, beyond which they are coarsened; see
            :mod:`~streameval.states.ranking.coarse_score`. None keeps all.

    >>> index = ReferenceScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)])
    >>> index.update(True, 0.4)
    >>> index.twice_u / (2 * index.positives * index.negatives)
    0.75
    """

    __slots__ = ("_exact", "_groups", "_level", "_limit", "_sides", "_table", "_totals", "_wins")

    def __init__(
        self, events: Iterable[tuple[bool, float]] = (), *, max_scores: int | None = None
    ) -> None:
        self._limit = checked_limit(max_scores)
        self._level = 0
        self._exact = True
        # Everything below has the negatives at 0 (False) and the positives at 1 (True).
        self._totals = [0, 0]  # while exact
        self._sides: tuple[Any, Any] | None = None
        if self._limit is None:
            self._sides = SortedList(), SortedList()
        self._table = WideRanking()
        # Both are derived at the next read where they are None.
        self._wins: Weight | None = 0
        self._groups: ScoreGroups | None = None
        for positive, score in events:
            self.update(positive, score)

    @property
    def max_scores(self) -> int | None:
        """Most distinct scores; None where all are kept."""
        return self._limit

    @property
    def level(self) -> int:
        """The level of the cells that scores are coarsened to; 0 while all are kept."""
        return self._level

    @property
    def positives(self) -> Weight:
        """P, the weight of all positives; O(1) while :attr:`exact`."""
        return self._totals[1] if self._exact else float(self.groups().positives.sum())

    @property
    def negatives(self) -> Weight:
        """N, the weight of all negatives; O(1) while :attr:`exact`."""
        return self._totals[0] if self._exact else float(self.groups().negatives.sum())

    @property
    def exact(self) -> bool:
        """Whether every weight so far is an integer, and so every answer exact."""
        return self._exact

    @property
    def twice_u(self) -> Weight:
        """W2: twice the weight of pairs that the positive wins, a tie counting one half.

        An int, or a float once a weight was a fraction. O(1); O(n) where it has to be derived.
        """
        if self._wins is None:
            self._wins = twice_u(self.groups())
        return self._wins

    def delong_sums(self) -> tuple[Weight, Weight]:
        """(Q10, Q01), the sums that DeLong's variance of the AUC is made of.

        With p positives and n negatives at each score, N_< the negatives below
        it and P_> the positives above it:

            Q10 = Σ p·(2·N_< + n)²,  Q01 = Σ n·(2·P_> + p)²

        Integers of any size, or floats once a weight was a fraction. O(n); compiled O(1).

        >>> ReferenceScoreIndex([(False, 0.1), (True, 0.2), (False, 0.3)]).delong_sums()
        (4, 4)
        """
        return delong_sums(self.groups())

    def auc_variance(self, unit: float = 1) -> float:
        """DeLong's variance of the AUC; its root is the standard error.

        With V⁺ the share of negatives that a positive outscores, V⁻ the share of positives that
        outscore a negative, a tie counting one half:

            Var(A) = S10 / P + S01 / N,
            S10 = Σ (V⁺ − A)² / (P − 1),  S01 = Σ (V⁻ − A)² / (N − 1)

        Args:
            unit: The weight that counts as one event: 1 where weights are counts, else the
                total weight by Kish's effective size.

        Returns:
            At least 0, divided once; ``nan`` unless both classes weigh more than a unit.

        Source:
            DeLong, DeLong & Clarke-Pearson (1988).

        >>> ReferenceScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]).auc_variance()
        0.125
        """
        return delong_variance(self, unit)

    @property
    def auc(self) -> float | None:
        """The AUC, W2 / (2·P·N); None while a class is missing.

        >>> ReferenceScoreIndex([(True, 0.5), (False, 0.5)]).auc
        0.5
        """
        return auc(self.twice_u, self.positives, self.negatives)

    @property
    def ks_statistic(self) -> float | None:
        """The largest ``|TPR − FPR|`` over all thresholds; None while a class is missing.

        >>> ReferenceScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]).ks_statistic
        0.5
        """
        return ks_statistic(self.groups())

    @property
    def distinct(self) -> int:
        """Number of distinct scores; O(n)."""
        return len(self.groups().scores)

    def groups(self) -> ScoreGroups:
        """The distinct scores, ascending, with the weight of each class; O(n).

        >>> ReferenceScoreIndex([(True, 0.5), (False, 0.5), (True, 0.7)]).groups()
        ScoreGroups(scores=array([0.5, 0.7]), positives=array([1, 1]), negatives=array([1, 0]))
        """
        if self._groups is None:
            dtype = np.int64 if self._exact else np.float64
            if self._sides is None:
                table = self._table.weights
                scores = [np.array(list(table), dtype=np.float64)] * 2
                rows: Any = np.array(list(table.values()), dtype=dtype).reshape(-1, 2)
                weights: list[WeightArray] = [rows[:, 0], rows[:, 1]]
            else:
                scores = [np.array(side, dtype=np.float64) for side in self._sides]
                weights = [np.ones(len(side), dtype=np.int64) for side in self._sides]
            negatives, positives = zip(scores, weights, strict=True)
            self._groups = group_scores([positives], [negatives])
        return self._groups

    def group_blocks(self, *, descending: bool = False) -> Iterator[ScoreGroups]:
        """:meth:`groups` a block at a time, all of the moment of the first; each block ascends.

        Args:
            descending: From the highest scores down.

        >>> index = ReferenceScoreIndex([(True, 0.5), (False, 0.5), (True, 0.7)])
        >>> [block.positives.tolist() for block in index.group_blocks()]
        [[1, 1]]
        """
        return group_blocks(self.groups(), descending=descending)

    # Counting

    def _change(self, positive: bool, score: float, weight: Weight) -> None:
        """Add a weight, or remove one (negative) that is known to be there."""
        self._groups = None
        if self._exact:
            self._totals[positive] += int(weight)
        if self._sides is not None and weight in (1, -1):
            own, other = self._sides[positive], self._sides[not positive]
            won = other.bisect_left(score) + other.bisect_right(score)
            if self._wins is not None:
                self._wins += weight * (won if positive else 2 * len(other) - won)
            if weight == 1:
                own.add(score)
            else:
                own.remove(score)
            return
        self._to_table()
        self._table.add_whole(positive, score, weight)
        self._wins = self._groups = None

    def _to_table(self, level: int = 0) -> None:
        """Keep weights in place of lists, at the cells of a level of at least the own one."""
        if self._sides is not None or level > self._level:
            groups, self._table = self.groups(), WideRanking()
            self._add_groups(groups, 1, level)
            self._sides, self._level = None, max(level, self._level)

    def _add_groups(self, groups: ScoreGroups, times: int, level: int) -> None:
        """Add weights to the table, at the cells of a level."""
        cells = coarse_column(groups.scores, level)
        self._table.add_groups(groups._replace(scores=cells), times)
        self._wins = self._groups = None

    def _promote(self) -> None:
        """Make all weights floats, for good."""
        if self._exact:
            self._to_table()
            for row in self._table.weights.values():
                row[:] = map(float, row)
            self._exact, self._wins, self._groups = False, None, None

    def _fit(self) -> None:
        """Raise the level to the least at which the distinct scores are within the limit."""
        if self._limit is not None and self._table.distinct > self._limit:
            self._to_table(least_level(self.groups().scores, self._level, self._limit))

    def update(self, positive: bool, score: float, weight: Weight = 1) -> None:
        """Count one event.

        Args:
            positive: Whether its true class is the positive one.
            score: Any finite number; higher means more likely positive.
            weight: Above 0. The first fraction makes the state inexact.

        Raises:
            InputError: One of them is none of that. Nothing is counted.
        """
        positive, score = canonical_positive(positive), canonical_score(score)
        weight = canonical_weight(weight)
        if type(weight) is float:
            self._promote()
        self.check(positive, score, weight)
        self._change(positive, coarse(score, self._level), weight)
        self._fit()

    def check(self, positive: bool, score: float, weight: Weight = 1) -> None:
        """Raise InputError where whole weights of one class would pass 2⁶² − 1."""
        if self._exact and type(weight) is not float:
            check_total(self._totals[positive], weight)

    def check_many(self, positive: BoolArray, score: FloatArray, weight: Any = None) -> None:
        """:meth:`check` of validated columns."""
        if self._exact and (weight is None or weight.dtype == np.int64):
            check_columns(self, positive, weight)

    def update_many(self, positive: object, score: object, weight: object = None) -> None:
        """Count many events given as columns: lists, arrays or series of one length.

        Args:
            positive: Booleans, or 0 and 1.
            score: Finite numbers.
            weight: Weights above 0; None stands for 1 each.

        Raises:
            InputError: With the position of the first bad value. Nothing is counted.

        >>> index = ReferenceScoreIndex()
        >>> index.update_many([True, False, True], [0.9, 0.5, 0.2], weight=[1, 2, 1])
        >>> index.twice_u, index.negatives
        (4, 2)
        """
        scores = coarse_column(score_column(score), self._level)
        flags = positive_column(positive)
        check_same_length(len(scores), len(flags), "positive")
        weights = weight_column(weight, len(scores))
        self.check_many(flags, scores, weights)
        if weights is not None and weights.dtype.kind == "f":
            self._promote()
        if self._sides is not None and (weights is None or (weights == 1).all()):
            for positives, chosen in enumerate((~flags, flags)):
                self._sides[positives].update(scores[chosen].tolist())
                self._totals[positives] += int(chosen.sum())
            self._wins = self._groups = None
            return
        self._to_table()
        each = [1] * len(scores) if weights is None else weights.tolist()
        for event in zip(flags.tolist(), scores.tolist(), each, strict=True):
            self._change(*event)
        self._fit()

    def revert(self, positive: bool, score: float, weight: Weight = 1) -> None:
        """Take one event back, exactly, as it was counted or with a lower weight.

        Raises:
            InputError: No such event was counted, or a weight is or was a
                fraction. Nothing is changed.

        >>> index = ReferenceScoreIndex([(True, 0.9), (False, 0.5), (True, 0.2)])
        >>> index.revert(True, 0.2)
        >>> index == ReferenceScoreIndex([(True, 0.9), (False, 0.5)])
        True
        """
        positive = canonical_positive(positive)
        score = coarse(canonical_score(score), self._level)
        whole = removable_weight(weight, self._exact)
        if self._sides is not None:
            held = self._sides[positive].count(score)
        else:
            held = self._table.weights.get(score, (0, 0))[positive]
        if held < whole:
            raise never_counted("score", score)
        self._change(positive, score, -whole)

    check_merge = check_room

    def merge(self, other: ReferenceScoreIndex, times: int = 1) -> None:
        """Count all events of another index so many times, which is unchanged; O(m log n).

        Args:
            other: With the same ``max_scores``.
            times: −1 removes what was merged before, exactly; both have whole weights then.

        Raises:
            InputError: A class would weigh more than 2⁶² − 1. Nothing is changed.
            StateError: ``other`` is no score index of this kind.

        >>> index = ReferenceScoreIndex([(True, 0.9)])
        >>> index.merge(ReferenceScoreIndex([(False, 0.5)]))
        >>> index.twice_u
        2
        """
        if not isinstance(other, ReferenceScoreIndex):
            raise StateError(f"merge: expected a score index, got {type(other).__name__}")
        check_same_limit(self._limit, other._limit)
        if times > 0:
            check_room(self, other)
        if not other._exact:
            self._promote()
        totals = other._totals.copy()
        if self._sides is not None and other._sides is not None and times in (1, -1):
            for mine, theirs in zip(self._sides, other._sides, strict=True):
                if times == 1:
                    mine.update(theirs)
                else:
                    for score in theirs:
                        mine.remove(score)
            self._wins = self._groups = None
        else:
            groups = other.groups()
            self._to_table(other._level)
            self._add_groups(groups, times, self._level)
            self._fit()
        if self._exact:
            self._totals = [
                mine + times * more for mine, more in zip(self._totals, totals, strict=True)
            ]

    # Copies and the written form

    def copy(self) -> ReferenceScoreIndex:
        """An independent index of the same events; O(n)."""
        return ReferenceScoreIndex.from_state(self.to_state())

    def to_state(self) -> dict[str, Any]:
        """``exact`` and the arrays of :meth:`groups`, the same whatever the order of arrival.

        >>> ReferenceScoreIndex([(True, 0.5)]).to_state()
        {'exact': True, 'scores': array([0.5]), 'positives': array([1]), 'negatives': array([0])}
        """
        return groups_to_state(self.groups(), self._exact, self._limit, self._level)

    @classmethod
    def from_state(cls, data: object) -> ReferenceScoreIndex:
        """The index that :meth:`to_state` wrote; raises StateError, which names the key."""
        groups, exact, max_scores, level = groups_from_state(data)
        index = cls(max_scores=max_scores)
        index._level, index._exact, index._wins = level, exact, None
        columns = groups.negatives, groups.positives
        if exact:
            index._totals = [int(total_weight(column)) for column in columns]
        # Scores that are repeated often take less memory in the table.
        if index._sides is not None and exact and sum(index._totals) <= 2 * len(groups.scores):
            for side, column in zip(index._sides, columns, strict=True):
                side.update(np.repeat(groups.scores, column.astype(np.int64)).tolist())
        else:
            index._sides = None
            index._add_groups(groups, 1, level)
        return index

    def __reduce__(self) -> tuple[object, ...]:
        # For pickle and copy.copy, which would share what changes.
        return ReferenceScoreIndex.from_state, (self.to_state(),)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReferenceScoreIndex):
            return NotImplemented
        return same_forms(self.to_state(), other.to_state())

    __hash__ = None  # type: ignore[assignment]

    def _check(self) -> None:
        """Assert every invariant; slow."""
        groups = self.groups()
        columns = groups.negatives, groups.positives
        assert (groups.scores[1:] > groups.scores[:-1]).all()
        assert (coarse_column(groups.scores, self._level) == groups.scores).all()
        assert self._limit is None or len(groups.scores) <= self._limit
        if self._sides is None:
            self._table._check()
            assert len(groups.scores) == self._table.distinct
        else:
            assert self._exact
            assert self._limit is None
            assert not self._table.distinct
            for side in self._sides:
                side._check()
        for total, column in zip(self._totals, columns, strict=True):
            assert column.dtype == (np.int64 if self._exact else np.float64)
            assert (column >= 0).all()
            assert not self._exact or total == total_weight(column)
        assert (columns[0] + columns[1] > 0).all()
        if self._wins is not None:
            wins = twice_u(groups)
            assert type(self._wins) is type(wins)
            assert self._wins == wins or (not self._exact and isclose(self._wins, wins))
