"""Wins of one class over another, kept current from the first read."""

from __future__ import annotations

from collections.abc import Mapping

from streameval.events import Label, Weight
from streameval.states.score_columns import ScoreColumns

__all__ = ["PairWins"]

_KEPT_LEAST = 100
_KEPT_SHARE = 50
# Keeping a pair current costs 1.5 µs an event, deriving it 30 ns for each event
# counted: with more than n/50 events between two reads the latter is cheaper.


class PairWins:
    """The answers to :meth:`ScoreColumns.wins`, remembered while that pays.

    >>> scores, wins = ScoreColumns(), PairWins()
    >>> scores.count("cat", 1)
    >>> scores.count("dog", 1)
    >>> wins.read(scores, "cat", "dog")
    1
    """

    __slots__ = ("_rows", "_unread")

    def __init__(self) -> None:
        # Column -> true class it is compared with -> wins.
        self._rows: dict[Label, dict[Label, Weight]] = {}
        self._unread = 0  # events since the last read

    def __bool__(self) -> bool:
        return bool(self._rows)

    def read(self, scores: ScoreColumns, column: Label, other: Label) -> Weight:
        """The wins of class ``column`` over ``other``; both have events.

        Cost:
            O(1) when remembered, else O(n) of the two classes.
        """
        self._unread = 0
        row = self._rows.get(column)
        if row is None:
            row = self._rows[column] = {}
        wins = row.get(other)
        if wins is None:
            wins = row[other] = scores.wins(column, other)
        return wins

    def forget(self) -> None:
        """Derive everything anew at the next read."""
        self._rows = {}

    def forget_class(self, label: Label) -> None:
        """The class has no event any more."""
        self._rows.pop(label, None)
        for row in self._rows.values():
            row.pop(label, None)

    def follow(
        self, scores: ScoreColumns, true: Label, proba: Mapping[Label, float], weight: int
    ) -> None:
        """Enter one event, or take it out with a negative weight.

        To be called before or after ``scores`` counts it: the event changes
        the scores of its own true class only, and those are not what its
        scores are compared with.

        Args:
            scores: Those of all events; whole weights only.
            true: The event's class.
            proba: Its probabilities.
            weight: Its weight.

        Cost:
            Two ranks for each class that was read.
        """
        self._unread += 1
        if self._unread > _KEPT_LEAST and self._unread > scores.total() // _KEPT_SHARE:
            self.forget()
            return
        for column, row in self._rows.items():
            score = proba.get(column, 0.0)
            if column == true:
                for other in row:
                    row[other] += weight * scores.standing(column, other, score)
            elif true in row:
                above = 2 * scores.counts[column] - scores.standing(column, column, score)
                row[true] += weight * above

    def copy(self) -> PairWins:
        """The same answers, kept independently."""
        new = PairWins()
        new._rows = {column: row.copy() for column, row in self._rows.items()}
        new._unread = self._unread
        return new

    def _check(self, scores: ScoreColumns) -> None:
        for column, row in self._rows.items():
            for other, wins in row.items():
                assert other != column
                if scores.exact:
                    assert wins == scores.wins(column, other)
