"""Scores of each class's column by true class, with the zeros that nobody stores.

``S[c][y]`` is the multiset of the scores that column c gave to events of true
class y. Only scores above 0 are kept. An event that does not name a class gave
it 0, and so did all events before a class was first met: how many zeros a
multiset has follows from the weight of its true class.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from streameval.events import Label, Weight
from streameval.states.class_scores_form import Columns
from streameval.states.ranked_weights import RankedWeights
from streameval.states.score_groups import ScoreGroups, group_scores
from streameval.states.wins import twice_wins

__all__ = ["RESIDUE", "ScoreColumns"]

RESIDUE = 1e-9
"""Float sums of equal terms differ by less than this share: it is no weight of zeros."""


class ScoreColumns:
    """All multisets ``S[c][y]`` of one stream of multi-class events.

    Attributes:
        counts: Weight of each true class.
        columns: Column -> true class -> its scores above 0.
        exact: Whether all weights are integers.

    >>> columns = ScoreColumns()
    >>> columns.count("cat", 2)
    >>> columns.ranked("cat", "cat").add(0.75, 1)
    >>> columns.zeros("cat", "cat"), columns.zeros("dog", "cat")
    (1, 2)
    """

    __slots__ = ("_whole", "columns", "counts", "exact")

    def __init__(self) -> None:
        self.counts: dict[Label, Weight] = {}
        self.columns: Columns = {}
        self.exact = True
        self._whole = 0  # sum of counts while exact

    def labels(self) -> list[Label]:
        """True classes and columns, ascending."""
        return sorted(self.counts.keys() | self.columns.keys())

    def total(self) -> Weight:
        """The weight of all events; O(1) while exact."""
        return self._whole if self.exact else math.fsum(self.counts.values())

    def count(self, true: Label, weight: Weight) -> None:
        """Add to the weight of a true class; its scores are added by themselves."""
        self.counts[true] = self.counts.get(true, 0 if self.exact else 0.0) + weight
        if self.exact:
            self._whole += int(weight)

    def ranked(self, column: Label, true: Label) -> RankedWeights:
        """The scores above 0 of a column for a true class, made if there are none."""
        rows = self.columns.get(column)
        if rows is None:
            rows = self.columns[column] = {}
        ranked = rows.get(true)
        if ranked is None:
            ranked = rows[true] = RankedWeights()
            if not self.exact:
                ranked.promote()
        return ranked

    def holds(self, true: Label, scores: Mapping[Label, float], weight: int) -> bool:
        """Whether every column has an event like this one to give back."""
        left = self.counts.get(true, 0) - weight
        if left < 0:
            return False
        for column, rows in self.columns.items():
            score, ranked = scores.get(column, 0.0), rows.get(true)
            held = 0 if ranked is None else ranked.total
            if score:
                if ranked is None or ranked.weight_at(score) < weight:
                    return False
                held -= weight
            if held > left:  # as many zeros are not there
                return False
        return all(column in self.columns for column, score in scores.items() if score)

    def remove(self, true: Label, scores: Mapping[Label, float], weight: int) -> None:
        """Take out an event that :meth:`holds` has found."""
        for column, score in scores.items():
            if score:
                self.columns[column][true].remove(score, weight)
                self._drop_empty(column, true)
        self._take_count(true, weight)

    def _drop_empty(self, column: Label, true: Label) -> None:
        rows = self.columns[column]
        if not rows[true].total:
            del rows[true]
            if not rows:
                del self.columns[column]

    def _take_count(self, true: Label, weight: Weight) -> None:
        self.count(true, -weight)
        if not self.counts[true]:
            del self.counts[true]

    def subtract(self, other: ScoreColumns) -> None:
        """Take out all of another that was merged in; both exact."""
        for column, rows in other.columns.items():
            for true, ranked in rows.items():
                self.columns[column][true].subtract(ranked)
                self._drop_empty(column, true)
        for true, count in other.counts.items():
            self._take_count(true, count)

    @classmethod
    def of(cls, counts: dict[Label, Weight], columns: Columns, exact: bool) -> ScoreColumns:
        """These scores; the dictionaries are taken over."""
        new = cls()
        new.columns, new.exact = columns, exact
        for true, weight in counts.items():
            new.count(true, weight)
        return new

    def merge(self, other: ScoreColumns) -> None:
        """Add the other's events; its content is unchanged."""
        if not other.exact:
            self.promote()
        for column, rows in list(other.columns.items()):
            for true, ranked in list(rows.items()):
                self.ranked(column, true).merge(ranked)
        for true, count in list(other.counts.items()):
            self.count(true, count)

    def promote(self) -> None:
        """Make all weights floats, for good."""
        if not self.exact:
            return
        self.exact = False
        self.counts = {label: float(count) for label, count in self.counts.items()}
        for rows in self.columns.values():
            for ranked in rows.values():
                ranked.promote()

    def copy(self) -> ScoreColumns:
        """Independent columns of the same events; score arrays are shared."""
        new = ScoreColumns()
        new.counts, new.exact, new._whole = self.counts.copy(), self.exact, self._whole
        new.columns = {
            column: {true: ranked.copy() for true, ranked in rows.items()}
            for column, rows in self.columns.items()
        }
        return new

    def zeros(self, column: Label, true: Label) -> Weight:
        """The weight of the events of a true class that gave the column 0."""
        count = self.counts[true]
        ranked = self.columns.get(column, {}).get(true)
        if ranked is None:
            return count
        zeros = count - ranked.total
        return zeros if self.exact or zeros > RESIDUE * count else 0.0

    def standing(self, column: Label, true: Label, score: float) -> int:
        """Weight below plus weight at or below a score, zeros included; whole weights only."""
        zeros = self.zeros(column, true)
        if not score:
            return int(zeros)
        ranked = self.columns.get(column, {}).get(true)
        below, at_or_below = (0, 0) if ranked is None else ranked.rank(score)
        return int(below + at_or_below + 2 * zeros)

    def wins(self, column: Label, other: Label) -> Weight:
        """Twice the weight of pairs that class ``column`` wins over ``other`` in its column.

        Cost:
            O(n) of the two classes.
        """
        rows = self.columns.get(column, {})
        own, against = rows.get(column), rows.get(other)
        own_zeros, other_zeros = self.zeros(column, column), self.zeros(column, other)
        wins = own_zeros * other_zeros
        if own is not None:
            wins += 2 * own.total * other_zeros
            if against is not None:
                wins += twice_wins(own, against)
        return wins

    def pooled(self) -> ScoreGroups:
        """Every (event, label) as one binary event, positive where the label is true."""
        sides = (RankedWeights(), RankedWeights())  # negative, positive
        zeros: list[Weight] = [0, 0]
        if not self.exact:
            sides[0].promote()
            sides[1].promote()
        for label in self.labels():
            for true in sorted(self.counts):
                ranked = self.columns.get(label, {}).get(true)
                if ranked is not None:
                    sides[label == true].merge(ranked)
                zeros[label == true] += self.zeros(label, true)
        dtype = np.int64 if self.exact else np.float64
        for side, weight in zip(sides, zeros, strict=True):
            if weight:
                side.add_many(np.zeros(1), np.array([weight], dtype=dtype))
        negatives, positives = sides
        return group_scores(positives, negatives)

    def _check(self) -> None:
        kind = int if self.exact else float
        assert all(type(count) is kind and count > 0 for count in self.counts.values())
        if self.exact:
            assert self._whole == sum(self.counts.values())
        for rows in self.columns.values():
            assert rows
            for true, ranked in rows.items():
                ranked._check()
                scores, _ = ranked.arrays()
                assert ranked.exact is self.exact
                assert len(scores)
                assert scores[0] > 0.0
                assert scores[-1] <= 1.0
                slack = 0 if self.exact else RESIDUE * self.counts[true]
                assert ranked.total <= self.counts[true] + slack

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ScoreColumns):
            return NotImplemented
        return (
            self.exact == other.exact
            and self.counts == other.counts
            and self.columns == other.columns
        )

    __hash__ = None  # type: ignore[assignment]  # mutable
