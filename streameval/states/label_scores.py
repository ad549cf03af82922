"""Ranking by the scores of each label: a score index for each label that occurs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import add
from typing import Any, Self

import numpy as np

from streameval.errors import InputError, StateError
from streameval.events.values import MAX_WEIGHT, Label, Weight
from streameval.states.fields import Fields
from streameval.states.label_columns import LabelColumns
from streameval.states.ranking.coarse_score import checked_limit, coarse_column
from streameval.states.ranking.score_groups import (
    ScoreGroups,
    auc_of_groups,
    group_scores,
    groups_to_state,
)
from streameval.states.score_index import ScoreIndex
from streameval.states.sums import weighted_sum


class LabelScores(LabelColumns):
    """A score index of each label: its scores, positive where an event has the label.

    Scores are any finite numbers. A label that an event leaves out has the score 0.

    Args:
        declared: The closed list of labels, or None where they are discovered.
        max_scores: Most distinct scores but 0 of each label, beyond which they are coarsened;
            None: all.

    >>> scores = LabelScores()
    >>> scores.update(frozenset({"spam"}), {"spam": 0.75, "ad": 0.25})
    >>> scores.update(frozenset({"ad"}), {"spam": 0.5})
    >>> scores.twice_u("spam"), scores.twice_u("ad"), scores.one_vs_rest("ad").columns()[0]
    (2, 0, array([0.  , 0.25]))
    """

    __slots__ = ("max_scores",)
    NAME = "label_scores"
    SETTINGS = ("max_scores",)
    KEYS = LabelColumns.KEYS | {"max_scores"}
    COLUMN = ScoreIndex
    SCALED = staticmethod(weighted_sum.index)

    def __init__(
        self, declared: tuple[Label, ...] | None = None, *, max_scores: int | None = None
    ) -> None:
        super().__init__(declared)
        self.max_scores = checked_limit(max_scores)

    def _held(self, column: ScoreIndex) -> Weight:
        return sum(_sides(column))

    @classmethod
    def _of_settings(cls, fields: Fields, *settings: Any) -> Self:
        try:
            return cls(*settings, max_scores=fields["max_scores"])
        except InputError as error:
            raise StateError(f"{cls.NAME}.{error}") from None

    def _restored(self, form: object) -> ScoreIndex:
        index: ScoreIndex = super()._restored(form)
        if index.groups().scores.all():
            return index
        raise StateError("scores: expected scores but 0")

    # Reading

    @property
    def level(self) -> int:
        """The highest level of a label's cells; 0 while all scores are kept."""
        if self.max_scores is None:
            return 0
        return max((index.level for index in self._columns.values()), default=0)

    @property
    def distinct(self) -> int:
        """The most distinct scores but 0 of a label."""
        return max((index.distinct for index in self._columns.values()), default=0)

    def sides(self, label: Label) -> tuple[Weight, Weight]:
        """The weight of the events that have a label, and of the others."""
        index = self._columns.get(label)
        own = (0, 0) if index is None else _sides(index)
        positives, negatives = map(add, self.zeros(label), own)
        return positives, negatives

    def twice_u(self, label: Label) -> int:
        """Twice the weight of the pairs in which an event with the label outscores another one.

        A tie counts half; of whole weights. O(1) after the first read, but where a label has
        both zeros and scores below them: O(its scores).
        """
        positives, negatives = self.zeros(label)
        index = self._columns.get(label)
        if index is None:
            return int(positives * negatives)
        if not (positives or negatives):
            return int(index.twice_u)
        if next(iter(index.group_blocks())).scores[0] < 0.0:
            return int(self.one_vs_rest(label).twice_u)
        return int(index.twice_u + positives * negatives + 2 * negatives * index.positives)

    def one_vs_rest(self, label: Label) -> ScoreIndex:
        """The scores of one label, zeros included, as a new binary index; O(its scores)."""
        index = self._columns.get(label)
        if index is None:
            new: ScoreIndex = self._new()
        elif index.max_scores is None:
            new = index.copy()
        else:
            # With room for the zeros, which coarsen nothing.
            limit = max(index.max_scores, index.distinct + 1)
            form = groups_to_state(index.groups(), index.exact, limit, index.level)
            new = ScoreIndex.from_state(form)
        return _with_zeros(new, self.zeros(label))

    def index(self, label: Label) -> ScoreIndex:
        """As :meth:`one_vs_rest`, for reading only: not copied where there are no zeros."""
        index = self._columns.get(label)
        return self.one_vs_rest(label) if index is None or any(self.zeros(label)) else index

    def pooled(self) -> ScoreIndex:
        """The scores of all classes in one index, zeros included; O(scores).

        Of coarsened scores the cells of all labels are those of :attr:`level`.
        """
        new, level = ScoreIndex(), self.level
        zeros: list[Weight] = [0, 0]
        for label in self.classes:
            if (index := self._columns.get(label)) is not None:
                if self.max_scores is not None:
                    scores, *sides = index.groups()
                    points = coarse_column(scores, level)
                    groups = group_scores(*([(points, side)] for side in sides))
                    index = ScoreIndex.from_state(groups_to_state(groups, index.exact))
                new.merge(index)
            for side, weight in enumerate(self.zeros(label)):
                zeros[side] += weight
        return _with_zeros(new, zeros)

    def with_columns(self, columns: dict[Label, ScoreIndex]) -> LabelScores:
        """The same events with other scores but 0, all of them kept."""
        return LabelScores(self.declared)._holding(self, columns)

    def true_count(self, label: Label) -> Weight:
        """The weight of the events that have a label."""
        return self.sides(label)[0]


def _sides(index: ScoreIndex) -> tuple[Weight, Weight]:
    """The weight of the positives, and of the negatives; of floats the same in any order."""
    if index.exact:
        return index.positives, index.negatives
    _, positives, negatives = index.groups()
    return math.fsum(positives.tolist()), math.fsum(negatives.tolist())


def area(index: ScoreIndex) -> float:
    """The AUC of an index, the same bits of the same content; nan without one of the sides."""
    if index.exact:
        share = index.auc
        return math.nan if share is None else share
    scores, *sides = index.groups()
    positives, negatives = ((scores[side > 0], side[side > 0]) for side in sides)
    return auc_of_groups(positives, negatives)


def _with_zeros(index: ScoreIndex, zeros: Iterable[Weight]) -> ScoreIndex:
    """The index with scores of 0 of so much weight, of any: of positives, then of negatives."""
    for side, weight in enumerate(zeros):
        if 0 < weight <= MAX_WEIGHT:
            index.update(not side, 0.0, weight)
        elif weight:
            sides = [np.array([weight * (n == side)]) for n in (0, 1)]
            groups = ScoreGroups(np.zeros(1), *sides)
            form = groups_to_state(groups, type(weight) is int, index.max_scores)
            index.merge(ScoreIndex.from_state(form))
    return index
