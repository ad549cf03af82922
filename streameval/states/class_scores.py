"""Pairwise wins between classes in each column of scores: the basis of multi-class AUC.

The probability that a random event of class c outscores, in column c, a random
event of class j comes from the scores of column c for events of class c against
those for events of class j. One-vs-one AUC needs all these pairs; one-vs-rest
their sums over j.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streameval.errors import InputError, StateError, shown
from streameval.events.event import EventBatch
from streameval.events.values import (
    MAX_CLASSES,
    Label,
    Weight,
    check_same_kind,
)
from streameval.states.fields import never_came, removable_weight
from streameval.states.ranking.ranked_weights import MAX_TOTAL
from streameval.states.ranking.score_columns import PairWins, ScoreColumns, read_form, write_form
from streameval.states.ranking.score_groups import ScoreGroups
from streameval.states.sums.fixed_point import total_weight


class ClassScores:
    """Scores of each class's column by true class, and the pairwise wins between classes.

    A label belongs to the state while some event has it as true class or gives
    it a probability above 0; a probability of 0 is the same as none.

    Cost:
        An event with K classes: 1 µs a class until wins are read, 6 µs a
        class while they are read often. A batch: 50 ns a cell. All K² wins of
        n events: 60 ns · K · n. Memory: 8 bytes a score above 0, and about
        1 kB for each pair (column, true class) that occurs.

    >>> scores = ClassScores()
    >>> scores.update("cat", {"cat": 0.75, "dog": 0.25})
    >>> scores.update("dog", {"cat": 0.25, "dog": 0.5, "cow": 0.25})
    >>> scores.labels
    ['cat', 'cow', 'dog']
    >>> scores.pair_wins("cat", "dog"), scores.pair_wins("cow", "dog")
    (2, 0)
    """

    __slots__ = ("_scores", "_wins")

    def __init__(self) -> None:
        self._scores = ScoreColumns()
        self._wins = PairWins()

    # -- reading ---------------------------------------------------------

    @property
    def labels(self) -> list[Label]:
        """All labels met, ascending. A new list."""
        return self._scores.labels()

    @property
    def exact(self) -> bool:
        """False from the first weight that is not whole: wins are floats then."""
        return self._scores.exact

    @property
    def total(self) -> Weight:
        """The weight of all events."""
        return self._scores.total()

    def true_count(self, label: Label) -> Weight:
        """The weight of the events of one true class; 0 for a label never met."""
        return self._scores.counts.get(label, 0 if self.exact else 0.0)

    def pair_wins(self, column: Label, other: Label) -> Weight:
        """How often events of class ``column`` outscore those of ``other`` in that column.

        Twice the weight of the pairs (event of class ``column``, event of class
        ``other``) in which the first has the higher score in ``column``, a tie
        counting one half; so A(column | other) = wins / (2 · n_column · n_other).

        Returns:
            An int, or a float once a weight was not whole; 0 when a class has
            no events, or is compared with itself.

        Cost:
            O(1) when it was read before and not too many events have been counted
            since; else 30 ns a score of the two classes.
        """
        counts = self._scores.counts
        if column == other or column not in counts or other not in counts:
            return 0 if self.exact else 0.0
        return self._wins.read(self._scores, column, other)

    def one_vs_rest_wins(self, column: Label) -> Weight:
        """:meth:`pair_wins` of a class over all others together.

        Cost:
            O(K) when the pairs were read before.
        """
        wins = [self.pair_wins(column, other) for other in self._scores.counts if other != column]
        return sum(wins) if self.exact else math.fsum(wins)

    def pooled(self) -> ScoreGroups:
        """Every (event, label) as one binary event, positive where the label is true.

        What the micro average ranks: n · K scores, zeros included.

        Cost:
            O(n · K).
        """
        return self._scores.pooled()

    # -- counting --------------------------------------------------------

    def update(
        self,
        y_true: Label,
        proba: Mapping[Label, float],
        weight: Weight = 1,
        y_pred: Label | None = None,
    ) -> None:
        """Count one validated event that :meth:`check` accepts.

        Args:
            y_true: The true class, canonical.
            proba: Canonical label -> probability.
            weight: Canonical.
            y_pred: Not used; all states of class probabilities take it.
        """
        scores = self._scores
        if type(weight) is float:
            self._promote()
        if not scores.exact:
            self._wins.forget()  # wins of floats are derived anew, in one order of summing
        # Sorted in at once only where wins are read often; queued, it costs a tenth.
        often = bool(self._wins)
        if often:
            self._wins.follow(scores, y_true, proba, int(weight))
        for column, score in proba.items():
            if score:
                ranked = scores.ranked(column, y_true)
                if often:
                    ranked.add(score, weight)
                else:
                    ranked.queue(score, weight)
        scores.count(y_true, weight)

    def check(
        self,
        y_true: Label,
        proba: Mapping[Label, float],
        weight: Weight = 1,
        y_pred: Label | None = None,
    ) -> None:
        """Whether an event can be counted.

        Raises:
            InputError: A str label in a state of numbers, or the reverse; too
                many labels or too much weight.
        """
        self._check_capacity((y_true, *proba), weight)

    def check_many(self, batch: EventBatch) -> None:
        """:meth:`check` of all events of a batch together."""
        counted = np.flatnonzero(np.bincount(batch.y_true)).tolist()
        names = batch.score_labels
        if batch.named is not None:
            held = np.flatnonzero(np.logical_or.reduce(batch.named)).tolist()
            names = tuple(names[column] for column in held)
        total = len(batch) if batch.weight is None else total_weight(batch.weight)
        if total:
            self._check_capacity((*(batch.labels[code] for code in counted), *names), total)

    def _check_capacity(self, labels: Sequence[Label], weight: Weight) -> None:
        scores = self._scores
        counts, columns = scores.counts, scores.columns
        new = [label for label in labels if label not in counts and label not in columns]
        if new and counts:
            known = next(iter(counts))
            for label in new:
                check_same_kind(known, label, "y_true")
        total = scores.total() + weight
        if not new and total <= MAX_TOTAL // MAX_CLASSES:
            return
        classes = len(counts.keys() | columns.keys() | set(new))
        if classes > MAX_CLASSES:
            raise InputError(
                "proba",
                expected=f"at most {MAX_CLASSES} classes in all",
                got=f"{shown(new[-1])} beside {classes - 1} others",
                remedy="ids are no classes",
            )
        # The pooled scores of all columns weigh this much.
        if self.exact and total * classes > MAX_TOTAL:
            raise InputError(
                "weight",
                expected=f"weights that add up to at most {MAX_TOTAL // classes}",
                got=f"{weight} beside {scores.total()} counted before",
                remedy="scale the weights down",
            )

    def update_many(self, batch: EventBatch) -> None:
        """Count a batch that :meth:`check_many` accepts: the same bits as its events one by one."""
        n, proba = len(batch), batch.score
        if not n or proba is None:
            return
        # Events of one class together, so that each multiset gets one array.
        order = np.argsort(batch.y_true, kind="stable")
        codes = batch.y_true[order]
        starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1])).tolist()
        true = [batch.labels[code] for code in codes[starts].tolist()]
        spans = [slice(a, b) for a, b in zip(starts, [*starts[1:], n], strict=True)]
        weights = None if batch.weight is None else batch.weight[order]
        if weights is not None and weights.dtype.kind == "f":
            self._promote()
        self._wins.forget()
        scores = self._scores
        for at, column in enumerate(batch.score_labels):
            values = proba[order, at]
            for label, span in zip(true, spans, strict=True):
                held = np.flatnonzero(values[span]) + span.start
                if len(held):
                    among = None if weights is None else weights[held]
                    scores.ranked(column, label).add_many(values[held], among)
        for label, span in zip(true, spans, strict=True):
            scores.count(
                label, span.stop - span.start if weights is None else total_weight(weights[span])
            )

    def revert(
        self,
        y_true: Label,
        proba: Mapping[Label, float],
        weight: Weight = 1,
        y_pred: Label | None = None,
    ) -> None:
        """Remove one earlier event, exactly; arguments as of :meth:`update`.

        Raises:
            InputError: The weight is not whole, or was not for some event of
                this state; or no event with these scores was counted. (That
                they belong to one event is not recorded.) Nothing is changed.
        """
        whole = removable_weight(weight, self.exact)
        if not self._scores.holds(y_true, proba, whole):
            raise never_came("proba", {"y_true": y_true, **proba})
        if self._wins:
            self._wins.follow(self._scores, y_true, proba, -whole)
        self._scores.remove(y_true, proba, whole)
        if y_true not in self._scores.counts:
            self._wins.forget_class(y_true)

    def merge(self, other: ClassScores) -> None:
        """Add the other's events; its content is unchanged.

        Raises:
            StateError: Labels of two kinds, or too many, or too much weight.
                Nothing is changed.

        Cost:
            O(K²) once the other is settled; scores are merged at the next read.
        """
        if not isinstance(other, ClassScores):
            raise StateError(f"merge: expected ClassScores, got {shown(other)}")
        try:
            self._check_capacity(other.labels, other.total)
        except InputError as error:
            raise StateError(f"merge: {error}") from None
        self._wins.forget()
        self._scores.merge(other._scores)

    def subtract(self, other: ClassScores) -> None:
        """Take out all of another that was merged in; both exact. Cost: as :meth:`merge`."""
        self._wins.forget()
        self._scores.subtract(other._scores)

    def _promote(self) -> None:
        if self.exact:
            self._scores.promote()
            self._wins.forget()

    # -- written form ----------------------------------------------------

    def copy(self) -> ClassScores:
        """An independent state of the same events; score arrays are shared."""
        new = ClassScores()
        new._scores = self._scores.copy()
        new._wins = self._wins.copy()
        return new

    def to_state(self) -> dict[str, Any]:
        """Plain data, described in :mod:`streameval.states.ranking.score_columns`."""
        scores = self._scores
        return write_form(self.labels, scores.counts, scores.columns, scores.exact)

    @classmethod
    def from_state(cls, data: dict[str, Any]) -> ClassScores:
        """The state that :meth:`to_state` wrote.

        Raises:
            StateError: The data is not that of class scores.
        """
        new = cls()
        new._scores = ScoreColumns.of(*read_form(data))
        return new

    def _check(self) -> None:
        self._scores._check()
        self._wins._check(self._scores)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClassScores):
            return NotImplemented
        return self._scores == other._scores

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"<ClassScores of weight {self.total}, {len(self.labels)} classes>"
