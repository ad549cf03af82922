"""Score index without compiled code: scores of both classes and their pairwise wins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf, isclose
from typing import Any, cast

import numpy as np

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
from streameval.states.ranking.coarse_score import (
    checked_limit,
    coarse,
    coarse_column,
    least_level,
)
from streameval.states.ranking.ranked_weights import RankedWeights, check_total
from streameval.states.ranking.score_groups import (
    ScoreGroups,
    delong_sums,
    delong_variance,
    group_blocks,
    group_scores,
    groups_from_state,
    groups_to_state,
    largest_gap,
    twice_wins,
)
from streameval.states.ranking.sorted_runs import WeightArray, count_at_or_below

# Counting m events one by one beats deriving W2 from n scores anew up to this n/m.
_ONE_BY_ONE = 64


def check_room(index: Any, other: Any) -> None:
    """Raise InputError where two score indexes, of whichever kind, weigh too much for one."""
    if index.exact and other.exact:
        check_total(index.positives, other.positives)
        check_total(index.negatives, other.negatives)


def check_same_limit(mine: int | None, theirs: int | None) -> None:
    """Raise StateError where two indexes do not keep the same number of scores."""
    if mine != theirs:
        raise StateError(f"merge: expected an index with max_scores={mine}, got {theirs}")


class PortableScoreIndex:
    """Exact state of everything that depends on the ranking of binary scores.

    Holds the weight of both classes at each distinct score, and on demand

        W2 = Σ over (positive, negative) pairs of 2·[s⁺ > s⁻] + [s⁺ = s⁻]

    so that AUC = W2 / (2·P·N). W2 is derived when :attr:`twice_wins` is first
    read. From then each event keeps it current: a positive at s adds the weight
    of negatives below s plus that at or below s; a negative, the like. A large
    ``update_many`` or ``merge`` discards it until the next read.

    Args:
        events: Pairs (positive, score).
        max_scores: Most distinct scores, beyond which they are coarsened; see
            :mod:`~streameval.states.ranking.coarse_score`. None keeps all.

    Cost:
        An event: 0.5 µs before W2 is first read, 2.5 µs after, among 10⁶
        scores. ``update_many``: 25 ns an event. Memory at rest: 8 bytes a
        distinct score of a class while every weight is 1, else 16.

    >>> index = PortableScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)])
    >>> index.twice_wins, index.positives, index.negatives
    (6, 2, 2)
    >>> index.update(True, 0.4)
    >>> index.twice_wins / (2 * index.positives * index.negatives)
    0.75
    """

    __slots__ = ("_distinct", "_level", "_limit", "_negatives", "_positives", "_room", "_wins")

    def __init__(
        self, events: Iterable[tuple[bool, float]] = (), *, max_scores: int | None = None
    ) -> None:
        self._limit = checked_limit(max_scores)
        self._level = 0
        # Distinct scores, known to be within the limit; None until that is seen to.
        self._distinct: int | None = None
        # Events that may be counted before it has to be, so that memory stays bounded.
        self._room = 0 if self._limit is None else 2 * self._limit
        self._positives = RankedWeights()
        self._negatives = RankedWeights()
        # W2, or None until it is read again.
        self._wins: Weight | None = None
        for positive, score in events:
            self.update(positive, score)

    @property
    def max_scores(self) -> int | None:
        """Most distinct scores; None where all are kept."""
        return self._limit

    @property
    def level(self) -> int:
        """The level of the cells that scores are coarsened to; 0 while all are kept."""
        self._fit()
        return self._level

    def _fit(self) -> None:
        """Raise the level to the least at which the distinct scores are within the limit."""
        if self._limit is None or self._distinct is not None:
            return
        self._room = 2 * self._limit
        scores = group_scores(self._positives, self._negatives).scores
        level = least_level(scores, self._level, self._limit)
        self._coarsen(level)
        self._distinct = len(np.unique(coarse_column(scores, level)))

    def _coarsen(self, level: int) -> None:
        if level > self._level:
            self._level, self._wins, self._distinct = level, None, None
            self._positives = self._positives.coarsened(level)
            self._negatives = self._negatives.coarsened(level)

    @property
    def positives(self) -> Weight:
        """P, the weight of all positives; O(1) while :attr:`exact`."""
        return self._positives.total

    @property
    def negatives(self) -> Weight:
        """N, the weight of all negatives; O(1) while :attr:`exact`."""
        return self._negatives.total

    @property
    def exact(self) -> bool:
        """Whether every weight so far is an integer, and so every answer exact."""
        return self._positives.exact

    @property
    def twice_wins(self) -> Weight:
        """W2: twice the weight of pairs that the positive wins, a tie counting one half.

        An int, or a float once a weight was a fraction.

        Cost:
            O(1), or 10 to 30 ns a distinct score when it has to be derived anew:
            at the first read, after a large ``update_many`` or ``merge``, and
            after every event with weights that are fractions.
        """
        self._fit()
        if self._wins is None:
            self._wins = twice_wins(self._positives, self._negatives)
        return self._wins

    def delong_sums(self) -> tuple[Weight, Weight]:
        """(Q10, Q01), the sums that DeLong's variance of the AUC is made of.

        With p positives and n negatives at each score, N_< the negatives below
        it and P_> the positives above it:

            Q10 = Σ p·(2·N_< + n)²,  Q01 = Σ n·(2·P_> + p)²

        Integers of any size, or floats once a weight was a fraction.

        Cost:
            O(n) at each read: 70 to 120 ns a distinct score, 0.6 µs from 2³¹ events
            of a class. The compiled index keeps both current.

        >>> PortableScoreIndex([(False, 0.1), (True, 0.2), (False, 0.3)]).delong_sums()
        (4, 4)
        """
        return delong_sums(self.groups())

    def auc_variance(self, unit: float = 1) -> float:
        """DeLong's variance of the AUC; its root is the standard error.

        With the placements of the positives (V⁺: the share of negatives that each outscores) and
        those of the negatives (V⁻: the share of positives that outscore each), a tie counting one
        half:

            Var(A) = S10 / P + S01 / N,
            S10 = Σ (V⁺ − A)² / (P − 1),  S01 = Σ (V⁻ − A)² / (N − 1)

        Computed from W2 and :meth:`delong_sums` in exact integers and divided once: nothing
        is lost however close the AUC is to 0 or 1, and the bits do not depend on arrival or
        merge order.

        Args:
            unit: The weight that counts as one event: 1 where weights are counts, else the
                total weight by Kish's effective size.

        Returns:
            At least 0; ``nan`` unless both classes weigh more than a unit.

        Cost:
            As :meth:`delong_sums`.

        Source:
            DeLong, DeLong & Clarke-Pearson (1988).

        >>> PortableScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]).auc_variance()
        0.125
        """
        return delong_variance(self, unit)

    @property
    def won_share(self) -> float | None:
        """W2 / (2·P·N), the share of pairs that the positive wins: the AUC.

        None while a class is missing.

        Cost:
            As :attr:`twice_wins`.

        >>> PortableScoreIndex([(True, 0.5), (False, 0.5)]).won_share
        0.5
        """
        wins = self._wins
        if type(wins) is int:  # without the calls below, which would take most of the time
            pairs: Weight = self._positives.whole * self._negatives.whole
            return wins / (2 * pairs) if pairs else None
        pairs = self.positives * self.negatives
        return self.twice_wins / (2 * pairs) if pairs else None

    @property
    def largest_gap(self) -> float | None:
        """The largest ``|TPR − FPR|`` over all thresholds, rounded once; O(n) at each read.

        None while a class is missing.

        >>> PortableScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]).largest_gap
        0.5
        """
        return largest_gap(self.groups())

    @property
    def distinct(self) -> int:
        """Number of distinct scores; O(n)."""
        self._fit()
        own, _ = self._positives.arrays()
        scores, _ = self._negatives.arrays()
        _, tied = count_at_or_below(scores, own)
        return len(own) + len(scores) - int(np.count_nonzero(tied))

    def groups(self) -> ScoreGroups:
        """The distinct scores, ascending, with the weight of each class; O(n).

        >>> PortableScoreIndex([(True, 0.5), (False, 0.5), (True, 0.7)]).groups()
        ScoreGroups(scores=array([0.5, 0.7]), positives=array([1, 1]), negatives=array([1, 0]))
        """
        self._fit()
        return group_scores(self._positives, self._negatives)

    def group_blocks(self, *, descending: bool = False) -> Iterator[ScoreGroups]:
        """:meth:`groups` a block at a time, for reading in memory that does not grow.

        Args:
            descending: From the highest scores down. Inside a block the scores
                ascend all the same.

        Cost:
            As :meth:`groups`; about 10 MB whatever n is.

        >>> index = PortableScoreIndex([(True, 0.5), (False, 0.5), (True, 0.7)])
        >>> [block.positives.tolist() for block in index.group_blocks()]
        [[1, 1]]
        """
        self._fit()
        return group_blocks(self._positives, self._negatives, descending=descending)

    def update(self, positive: bool, score: float, weight: Weight = 1) -> None:
        """Count one event.

        Args:
            positive: Whether its true class is the positive one.
            score: Any finite number; higher means more likely positive.
            weight: Above 0. The first fraction makes the state inexact.

        Raises:
            InputError: One of them is none of that. Nothing is counted.
        """
        if positive is not True and positive is not False:
            positive = canonical_positive(positive)
        # Chained comparison is False for nan; adding 0.0 turns -0.0 into 0.0.
        finite = type(score) is float and -inf < score < inf
        score = score + 0.0 if finite else canonical_score(score)
        if type(weight) is not int or weight != 1:
            weight = canonical_weight(weight)
            if type(weight) is float:
                self._promote()
        self._count(positive, score, weight)

    def _count(self, positive: bool, score: float, weight: Weight) -> None:
        if self._level:
            score = coarse(score, self._level)
        wins = self._wins
        if type(wins) is not int or type(weight) is not int:
            (self._positives if positive else self._negatives).queue(score, weight)
            self._wins = None
            if self._limit is not None:
                self._arrived(1)
            return
        if self._distinct is not None:
            self._distinct += not self._holds(score)
        (self._positives if positive else self._negatives).change(score, weight)
        self._wins = wins + weight * self._won(positive, score)
        if self._distinct is not None and self._distinct > cast("int", self._limit):
            self._distinct = None
            self._fit()

    def _won(self, positive: bool, score: float) -> int:
        """What one event of weight 1 adds to W2."""
        if positive:
            return self._negatives.twice_below(score)
        return 2 * self._positives.whole - self._positives.twice_below(score)

    def _holds(self, score: float) -> bool:
        return bool(self._positives.weight_at(score) or self._negatives.weight_at(score))

    def _arrived(self, events: int) -> None:
        """Note events of which it is unknown whether their scores are new."""
        self._distinct = None
        self._room -= events
        if self._room < 0:
            self._fit()

    def _promote(self) -> None:
        self._positives.promote()
        self._negatives.promote()
        self._wins = None

    def check(self, positive: bool, score: float, weight: Weight = 1) -> None:
        """Raise what :meth:`update` of a validated event would raise; nothing is counted.

        That is InputError for whole weights of one class beyond 2⁶² − 1.
        """
        if self.exact and type(weight) is not float:
            check_total((self._positives if positive else self._negatives).total, weight)

    def check_many(self, positive: BoolArray, score: FloatArray, weight: object = None) -> None:
        """:meth:`check` of validated columns."""
        weights = cast("WeightArray | None", weight)
        if not self.exact or (weights is not None and weights.dtype.kind == "f"):
            return
        for own, chosen in ((self._positives, positive), (self._negatives, ~positive)):
            own.check_room(int(chosen.sum()), None if weights is None else weights[chosen])

    def update_many(self, positive: object, score: object, weight: object = None) -> None:
        """Count many events given as columns: lists, arrays or series of one length.

        Args:
            positive: Booleans, or 0 and 1.
            score: Finite numbers.
            weight: Weights above 0; None stands for 1 each.

        Raises:
            InputError: With the position of the first bad value. Nothing is counted.

        >>> index = PortableScoreIndex()
        >>> index.update_many([True, False, True], [0.9, 0.5, 0.2], weight=[1, 2, 1])
        >>> index.twice_wins, index.negatives
        (4, 2)
        """
        scores = coarse_column(score_column(score), self._level)
        flags = positive_column(positive)
        check_same_length(len(scores), len(flags), "positive")
        weights = weight_column(weight, len(scores))
        if weights is not None and weights.dtype.kind == "f":
            self._promote()
        one_by_one = self._wins is not None and len(scores) * _ONE_BY_ONE < self._entries()
        parts = []
        for own, chosen in ((self._positives, flags), (self._negatives, ~flags)):
            # Taking by position is twice as fast as by a boolean array.
            positions = np.flatnonzero(chosen)
            part_weights = None if weights is None else weights[positions]
            own.check_room(len(positions), part_weights)
            if not one_by_one:
                parts.append((own, scores[positions], part_weights))
        if one_by_one:
            each = [1] * len(scores) if weights is None else weights.tolist()
            for event in zip(flags.tolist(), scores.tolist(), each, strict=True):
                self._count(*event)
            return
        for own, part, part_weights in parts:
            own.add_many(part, part_weights, reuse=True)
        if len(scores):
            self._wins = None
            if self._limit is not None:
                self._arrived(len(scores))

    def _entries(self) -> int:
        return self._positives.entries + self._negatives.entries

    def revert(self, positive: bool, score: float, weight: Weight = 1) -> None:
        """Take one event back, exactly.

        Args:
            positive: As it was counted.
            score: As it was counted.
            weight: As it was counted, or less.

        Raises:
            InputError: No such event was counted, or a weight is or was a
                fraction. Nothing is changed.

        Cost:
            4 µs among 10⁶ scores; :attr:`twice_wins` is derived if it is not yet.

        >>> index = PortableScoreIndex([(True, 0.9), (False, 0.5), (True, 0.2)])
        >>> index.revert(True, 0.2)
        >>> index == PortableScoreIndex([(True, 0.9), (False, 0.5)])
        True
        """
        if positive is not True and positive is not False:
            positive = canonical_positive(positive)
        finite = type(score) is float and -inf < score < inf
        score = score + 0.0 if finite else canonical_score(score)
        wins = self._wins
        if wins is None:
            # Derived before, not after: a window reverts for each event it counts,
            # and W2 that is None would queue the next event and sort it in here, O(n).
            wins = self.twice_wins
        if self._level:
            score = coarse(score, self._level)
        whole = (self._positives if positive else self._negatives).remove(score, weight)
        if self._distinct is not None:
            self._distinct -= not self._holds(score)
        self._wins = wins - whole * self._won(positive, score)

    def _slide(self, positive: bool, score: float, old_positive: bool, old_score: float) -> None:
        """:meth:`update` with a validated event of weight 1 and :meth:`revert` of one that is known
        to have been counted: half the cost where W2 is kept current."""
        wins = self._wins
        if type(wins) is not int or self._limit is not None:
            self.update(positive, score)
            self.revert(old_positive, old_score)
            return
        (self._positives if positive else self._negatives).change(score, 1)
        wins += self._won(positive, score)
        (self._positives if old_positive else self._negatives).change(old_score, -1)
        self._wins = wins - self._won(old_positive, old_score)

    def merge(self, other: PortableScoreIndex) -> None:
        """Count all events of another index, whose content stays as it is.

        Raises:
            InputError: A class would weigh more than 2⁶² − 1. Nothing is changed.
            StateError: ``other`` is no score index of this kind.

        Cost:
            O(1): arrays are shared, and merged at the next read in about 20 ns
            a score, W2 included. A small ``other`` is counted one by one when
            W2 is being kept current.

        >>> index = PortableScoreIndex([(True, 0.9)])
        >>> index.merge(PortableScoreIndex([(False, 0.5)]))
        >>> index.twice_wins
        2
        """
        if not isinstance(other, PortableScoreIndex):
            raise StateError(f"merge: expected a score index, got {type(other).__name__}")
        check_same_limit(self._limit, other._limit)
        check_room(self, other)
        exact = self.exact and other.exact
        if self._limit is not None:
            other = self._levelled(other)
        if exact and self._wins is not None and other._entries() * _ONE_BY_ONE < self._entries():
            for positive, more in ((True, other._positives), (False, other._negatives)):
                scores, weights = more.arrays()
                for score, weight in zip(scores.tolist(), weights.tolist(), strict=True):
                    self._count(positive, score, weight)
            return
        self._wins = None
        for own, more in self._both(other):
            own.merge(more)
        if self._limit is not None:
            self._arrived(other._entries())

    def _levelled(self, other: PortableScoreIndex) -> PortableScoreIndex:
        """The other at the higher level of the two, which is made this one's too."""
        self._coarsen(other.level)
        if self.level > other._level:
            other = other.copy()
            other._coarsen(self._level)
        return other

    def subtract(self, other: PortableScoreIndex) -> None:
        """Take out all of another index that was merged in; both exact. Cost: as :meth:`merge`."""
        if self._limit is not None:
            self._fit()
            other = self._levelled(other)
            self._distinct = None
        self._wins = None
        for own, less in self._both(other):
            own.subtract(less)

    def _both(
        self, other: PortableScoreIndex
    ) -> tuple[tuple[RankedWeights, RankedWeights], tuple[RankedWeights, RankedWeights]]:
        return (self._positives, other._positives), (self._negatives, other._negatives)

    def copy(self) -> PortableScoreIndex:
        """An independent index of the same events; its arrays are shared."""
        twin = PortableScoreIndex()
        twin._positives, twin._negatives = self._positives.copy(), self._negatives.copy()
        twin._wins = self._wins
        twin._limit, twin._level = self._limit, self._level
        twin._distinct, twin._room = self._distinct, self._room
        return twin

    def to_state(self) -> dict[str, Any]:
        """The written form: ``exact``, and the arrays of :meth:`groups`; O(n).

        Equal content gives equal arrays, whatever the order of arrival.

        >>> PortableScoreIndex([(True, 0.5)]).to_state()
        {'exact': True, 'scores': array([0.5]), 'positives': array([1]), 'negatives': array([0])}
        """
        return groups_to_state(self.groups(), self.exact, self._limit, self._level)

    @classmethod
    def from_state(cls, data: object) -> PortableScoreIndex:
        """The index that :meth:`to_state` wrote.

        Raises:
            StateError: The data is anything else; the message names the key.
        """
        groups, exact, max_scores, level = groups_from_state(data)
        index = cls(max_scores=max_scores)
        index._level = level
        if not exact:
            index._promote()
        for own, weights in (
            (index._positives, groups.positives),
            (index._negatives, groups.negatives),
        ):
            present = weights != 0
            own.add_many(groups.scores[present], weights[present])
        return index

    def __reduce__(self) -> tuple[object, ...]:
        # For pickle and copy.copy, which would share what changes.
        return PortableScoreIndex.from_state, (self.to_state(),)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PortableScoreIndex):
            return NotImplemented
        if (self._limit, self.level) != (other._limit, other.level):
            return False
        return all(own == more for own, more in self._both(other))

    __hash__ = None  # type: ignore[assignment]

    def _check(self) -> None:
        """Assert every invariant, W2 against its definition; slow."""
        assert self._limit is None or self._wins is None or self._distinct is not None
        self._positives._check()
        self._negatives._check()
        assert self._positives.exact == self._negatives.exact
        groups = self.groups()
        if self._limit is not None:
            assert len(groups.scores) <= self._limit
            assert self._distinct == len(groups.scores)
        assert (coarse_column(groups.scores, self._level) == groups.scores).all()
        if self._wins is not None:
            wins: Weight = 0
            below: Weight = 0
            for _, positive, negative in zip(*map(np.ndarray.tolist, groups), strict=True):
                wins += positive * (2 * below + negative)
                below += negative
            assert type(self._wins) is (int if self.exact else float)
            assert self._wins == wins or (not self.exact and isclose(self._wins, wins))
