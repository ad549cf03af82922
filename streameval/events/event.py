"""One validated event, and many of them column by column."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from streameval.events.label_rows import LabelRows
from streameval.events.values import BoolArray, FloatArray, IntArray, Label, Weight

EventFields: TypeAlias = tuple[Label, Any, Any, Weight]
"""A validated event: true label, predicted label, score and weight; of several models a tuple of
labels and one of scores. A fifth field is the key of the unit, if windows have replicates."""


class Event(NamedTuple):
    """One validated event.

    Binary: the labels are 1 (positive) and 0, or True and False, the score a float.
    Multi-class: canonical labels, the score a mapping label -> probability.
    Multi-label: frozen sets of labels, the score a mapping label -> number.
    Regression: numbers. ``None`` if the event has none.
    """

    y_true: Label
    y_pred: Label | None
    score: Any
    weight: Weight


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Many validated events, column by column.

    Binary: ``y_true`` and ``y_pred`` are booleans and ``score`` is one column.
    Multi-class: they are codes into ``labels``, and ``score`` has one column
    for each of ``score_labels``. Several models: as multi-class, but ``y_pred`` and ``score``
    have a column for each model, and single events have tuples. Multi-label: ``y_true`` and
    ``y_pred`` are rows of codes into ``labels``, and ``score`` has a column for each of
    ``score_labels``, or is rows of codes into ``labels`` with values.
    """

    y_true: Any
    y_pred: Any
    score: Any
    weight: IntArray | FloatArray | None
    # What the columns of labels have codes of; empty: they have the labels themselves.
    labels: tuple[Label, ...] = ()
    score_labels: tuple[Label, ...] = ()
    # Which cells of a multi-class ``score`` the events named; None: all of them. A label that an
    # event left out has probability 0 as well, but no rank.
    named: BoolArray | None = None
    # Keys of the events' units, if windows have replicates by unit.
    unit: npt.NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return len(self.y_true)

    def take(self, rows: IntArray | BoolArray | slice) -> EventBatch:
        """The batch of these rows, in this order."""
        return EventBatch(
            self.y_true[rows],
            None if self.y_pred is None else self.y_pred[rows],
            None if self.score is None else self.score[rows],
            None if self.weight is None else self.weight[rows],
            self.labels,
            self.score_labels,
            None if self.named is None else self.named[rows],
            None if self.unit is None else self.unit[rows],
        )

    def weighing(self) -> IntArray | None:
        """Rows of the events of a weight above 0; None: all of them."""
        if self.weight is None or self.weight.all():
            return None
        return np.flatnonzero(self.weight)

    def true_labels(self) -> npt.NDArray[Any]:
        """The true labels themselves, one for each event."""
        if not self.labels:
            own: npt.NDArray[Any] = self.y_true
            return own
        labels = np.empty(len(self.labels), dtype=object)
        labels[:] = self.labels
        named: npt.NDArray[Any] = labels[self.y_true]
        return named

    def weighted(self, weight: IntArray | FloatArray) -> EventBatch:
        """The same events with other weights."""
        return replace(self, weight=weight)

    def events(self) -> Iterable[Any]:
        """The events one by one, as :meth:`StateSet.update` takes them."""
        weights = [1] * len(self) if self.weight is None else self.weight.tolist()
        true, predicted, scores = self._named(self.y_true), self._named(self.y_pred), self._scores()
        if self.unit is not None:
            return zip(true, predicted, scores, weights, self.unit.tolist(), strict=True)
        return map(Event, true, predicted, scores, weights)

    def _named(self, column: Any) -> list[Any]:
        """The labels of a column; of a column for each model tuples of labels."""
        labels = self.labels
        if column is None:
            return [None] * len(self)
        if isinstance(column, LabelRows):
            return list(column.sets(labels))
        if not labels:
            return list(column.tolist() if column.ndim == 1 else map(tuple, column.tolist()))
        if column.ndim == 2:
            return [tuple([labels[code] for code in row]) for row in column.tolist()]
        return [labels[code] for code in column.tolist()]

    def _scores(self) -> list[Any]:
        """One score, one mapping, or one score of each model, for each event."""
        if self.score is None:
            return [None] * len(self)
        if isinstance(self.score, LabelRows):
            return list(self.score.mappings(self.labels))
        names, rows = self.score_labels, self.score.tolist()
        if self.score.ndim == 1:
            return list(rows)
        if not names:
            return list(map(tuple, rows))
        if self.named is None:
            return [dict(zip(names, row, strict=True)) for row in rows]
        return [
            {name: share for name, share, has in zip(names, row, given, strict=True) if has}
            for row, given in zip(rows, self.named.tolist(), strict=True)
        ]
