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
from streameval.events.probabilities import (
    check_class_columns,
    check_probabilities,
    check_true_kind,
)
from streameval.events.values import (
    MAX_CLASSES,
    MAX_WEIGHT,
    FloatArray,
    IntArray,
    Label,
    Weight,
    canonical_label,
    canonical_weight,
    check_same_kind,
)
from streameval.states.fields import never_came, removable_weight
from streameval.states.ranking.ranked_weights import MAX_TOTAL
from streameval.states.ranking.score_columns import PairWins, ScoreColumns, read_form, write_form
from streameval.states.ranking.score_groups import ScoreGroups
from streameval.states.ranking.sorted_runs import WeightArray
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

    def update(self, y_true: Label, proba: Mapping[Label, float], weight: Weight = 1) -> None:
        """Count one event.

        Args:
            y_true: The true class.
            proba: Label -> probability in [0, 1]; they add up to 1 within 0.001.
            weight: Positive.

        Raises:
            InputError: A value is not as said; a str label in a state of
                numbers, or the reverse; too many labels or too much weight.
                Nothing is counted.
        """
        label = y_true if type(y_true) is str else canonical_label(y_true, "y_true")
        checked = check_probabilities(proba)
        check_true_kind(label, checked)
        if type(weight) is not int or not 0 < weight <= MAX_WEIGHT:
            weight = canonical_weight(weight)
        self.check(label, checked, weight)
        self.add(label, checked, weight)

    def add(
        self,
        y_true: Label,
        proba: Mapping[Label, float],
        weight: Weight = 1,
        y_pred: Label | None = None,
    ) -> None:
        """:meth:`update` for a caller that has validated the event and called :meth:`check`.

        Args:
            y_true: A canonical label.
            proba: As :func:`~streameval.events.probabilities.check_probabilities`
                returns it.
            weight: A canonical weight.
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
        """Raise what :meth:`add` of this event would raise; nothing is counted."""
        self._check_room((y_true, *proba), weight)

    def check_codes(
        self,
        y_true: IntArray,
        labels: Sequence[Label],
        proba: FloatArray,
        proba_labels: Sequence[Label],
        weight: WeightArray | None,
        y_pred: IntArray | None = None,
    ) -> None:
        """Raise what :meth:`add_codes` of these events would raise; nothing is counted."""
        true = [labels[code] for code in np.flatnonzero(np.bincount(y_true)).tolist()]
        total = len(y_true) if weight is None else total_weight(weight)
        if total:
            self._check_room((*true, *proba_labels), total)

    def _check_room(self, labels: Sequence[Label], weight: Weight) -> None:
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

    def update_many(
        self, y_true: object, proba: object, labels: Sequence[Label], weight: object | None = None
    ) -> None:
        """Count many events, to the same bits as :meth:`update` of each.

        Args:
            y_true: Column of n labels.
            proba: Matrix of shape (n, K).
            labels: The label of each of its columns.
            weight: Column of positive weights; None is 1 each.

        Raises:
            InputError: As :meth:`update`, with the position; or the shapes
                differ. Nothing is counted.
        """
        given = check_class_columns(y_true, proba, labels, weight)
        self.check_codes(*given)
        self.add_codes(*given)

    def add_codes(
        self,
        y_true: IntArray,
        labels: Sequence[Label],
        proba: FloatArray,
        proba_labels: Sequence[Label],
        weight: WeightArray | None,
        y_pred: IntArray | None = None,
    ) -> None:
        """:meth:`update_many` for a caller that has validated and called :meth:`check_codes`.

        Args:
            y_true: Codes into ``labels``.
            labels: Canonical labels.
            proba: Matrix of shape (n, K).
            proba_labels: Canonical labels of its columns, in any order.
            weight: Positive int64 or float64; None is 1 each.
            y_pred: Not used; all states of class probabilities take it.
        """
        n = len(y_true)
        if not n:
            return
        # Events of one class together, so that each multiset gets one array.
        order = np.argsort(y_true, kind="stable")
        codes = y_true[order]
        starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1])).tolist()
        true = [labels[code] for code in codes[starts].tolist()]
        spans = [slice(a, b) for a, b in zip(starts, [*starts[1:], n], strict=True)]
        if weight is not None and weight.dtype.kind == "f":
            self._promote()
        self._wins.forget()
        scores = self._scores
        weights = None if weight is None else weight[order]
        for at, column in enumerate(proba_labels):
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

    def revert(self, y_true: Label, proba: Mapping[Label, float], weight: int = 1) -> None:
        """Take one earlier event out, exactly.

        Raises:
            InputError: The weight is not whole, or was not for some event of
                this state; or no event with these scores was counted. (That
                they belong to one event is not recorded.) Nothing is changed.
        """
        self.remove(canonical_label(y_true, "y_true"), check_probabilities(proba), weight)

    def remove(
        self,
        y_true: Label,
        proba: Mapping[Label, float],
        weight: Weight = 1,
        y_pred: Label | None = None,
    ) -> None:
        """:meth:`revert` for a caller that has validated the event; arguments as of :meth:`add`."""
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
            self._check_room(other.labels, other.total)
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
