"""Second moments of what events add to metrics of label scores: what their intervals read."""

from __future__ import annotations

from operator import add
from typing import Any

import numpy as np

from streameval.events.event import EventBatch
from streameval.events.values import FloatArray, IntArray, Label, Weight
from streameval.states.fields import Fields
from streameval.states.label_ranking import LabelRanking, RankedGroup, entries_of, group_of
from streameval.states.loss_squares import LOG_LOSS_SCALE
from streameval.states.sums.fixed_point import UNIT, chunks, sum_units, to_units, total_weight
from streameval.states.sums.loss_terms import (
    FRACTION,
    HIGHEST,
    LEAST_LOSS,
    LOWEST,
    loss_column,
    portable_log,
)
from streameval.states.sums.sum_vector import DeclaredSums, Field

_LEAST = LEAST_LOSS * FRACTION
_EIGHTH = LOG_LOSS_SCALE**-0.5
_TERMS = (RankedGroup.precision, RankedGroup.wrong_pairs, RankedGroup.right_pairs)


class LabelSquares(DeclaredSums):
    """Σ of the squares of each event's metrics, of a closed list of labels.

    Without such a list how many labels an event ranks is not known when it is counted: then
    nothing is kept. An event without labels has no precision, and one with no or all labels no
    pairs; both count as 0. A loss is the mean over labels, 0 where a score is no probability.

    >>> squares = LabelSquares(("ad", "spam"))
    >>> squares.update(frozenset({"spam"}), {"ad": 0.5, "spam": 0.5})
    >>> squares.precision / UNIT, squares.right_pairs / UNIT, squares.brier / UNIT
    (0.25, 0.25, 0.0625)
    """

    __slots__ = ("_ranking",)
    NAME = "label_squares"

    weight = Field[Weight]()
    precision = Field[Weight](None, UNIT)
    """Σ weight · average precision², in units of 2**-60."""
    wrong_pairs = Field[Weight](None, UNIT)
    """Σ weight · (share of pairs in the wrong order)²."""
    right_pairs = Field[Weight](None, UNIT)
    """Σ weight · AUC²."""
    log_loss = Field[Weight](None, 21 * UNIT)
    """Σ weight · log loss², in units of 2**-54."""
    brier = Field[Weight](None, UNIT)
    """Σ weight · Brier term²."""

    def __init__(self, declared: tuple[Label, ...] | None = None) -> None:
        super().__init__(declared)
        self._ranking = LabelRanking(declared)

    def _read(self, fields: Fields) -> None:
        super()._read(fields)
        if self.declared is None and any(self._values):
            fields.refuse("weight", "0 without labels", self.weight)

    def _terms_of(self, y_true: Any, given: Any, y_pred: Any) -> list[tuple[int, int]]:
        if self.declared is None:
            return []
        labels, true = len(self.declared), len(y_true)
        keys = self._ranking._terms_of(y_true, given, None)
        groups = [group_of(key, labels) for key in keys if len(key) == 5] if true else []
        parts = [[term(group, labels) for group in groups] for term in _TERMS]
        shares = [sum([over / under for over, under in part], 0.0) for part in parts]
        loss = brier = 0.0
        count = 0
        for label in self.declared:
            score, has = given.get(label, 0.0), label in y_true
            if score or has:
                if not 0.0 <= score <= 1.0:
                    loss = brier = 0.0
                    break
                count += 1
                right = score if has else 1.0 - score
                loss += -portable_log(min(max(right, LOWEST), HIGHEST))
                brier += (1.0 - right) * (1.0 - right)
        else:
            loss += (labels - count) * _LEAST
        shares += [loss / labels * _EIGHTH, brier / labels]
        return [(0, 1), *((n, to_units(x * x)) for n, x in enumerate(shares, 1))]

    def _add_many(self, y_true: Any, given: Any, weight: Any) -> None:
        batch: EventBatch = y_true
        if self.declared is None or batch.score is None:
            return
        for rows in chunks(len(batch)):
            self._add_part(batch.take(rows))

    def _add_part(self, batch: EventBatch) -> None:
        assert self.declared is not None
        by, true = batch.weight, batch.y_true.lengths
        labels = len(self.declared)
        # By score, and by label in the declared order: in that order a single event adds.
        entries = entries_of(batch, self._ranking._order)
        own, columns = next(iter(entries.groups(true)), (true[:0], (true[:0],) * 5))
        group = group_of(columns, labels)
        shares = [
            _by_event(own, np.true_divide(*term(group, labels)), len(batch)) for term in _TERMS
        ]
        shares += self._losses(batch, entries)
        sums = [len(batch) if by is None else total_weight(by)]
        sums += [sum_units(x * x, by) for x in shares]
        self._values = list(map(add, self._values, sums))

    def _losses(self, batch: EventBatch, entries: Any) -> list[FloatArray]:
        assert self.declared is not None
        labels, length = len(self.declared), len(batch)
        rank = np.argsort([self._ranking._order[label] for label in self.declared])
        order = np.argsort(entries.events * labels + rank[entries.codes])
        events, scores, true = entries.events[order], entries.scores[order], entries.true[order]
        held = true | (scores != 0.0)
        events, scores, true = events[held], scores[held], true[held]
        outside = np.unique(events[(scores < 0.0) | (scores > 1.0)])
        right = np.where(true, scores, 1.0 - scores)
        loss = _by_event(events, loss_column(right), length)
        brier = _by_event(events, (1.0 - right) * (1.0 - right), length)
        loss += (labels - np.bincount(events, minlength=length)) * _LEAST
        loss[outside] = brier[outside] = 0.0
        return [loss / labels * _EIGHTH, brier / labels]


def _by_event(events: IntArray, values: FloatArray, length: int) -> FloatArray:
    """The sum of the values of each event, added in their order."""
    # Of no values numpy counts whole numbers.
    return np.bincount(events, values, length).astype(np.float64)
