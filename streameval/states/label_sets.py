"""The histogram of how many labels of an event are true, were predicted, and were rightly so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from streameval.errors import StateError
from streameval.events.event import EventBatch
from streameval.events.label_rows import LabelRows
from streameval.events.values import Weight
from streameval.states.fields import Fields
from streameval.states.sums.cell_sums import CellSums, weights_of_rows


class SetSizes(NamedTuple):
    """How many labels of an event were predicted rightly, were predicted, and are true."""

    hits: int
    predicted: int
    true: int


class LabelSetCounts(CellSums):
    """Weight of the events of each number of right, predicted and true labels.

    The ratios of an event (its precision, recall, F-measure of any beta, Jaccard index) are
    functions of these numbers, so that their means and variances follow.

    >>> sets = LabelSetCounts()
    >>> sets.update({"ad", "spam"}, {"spam"})
    >>> sets.update({"spam"}, {"ad"}, weight=2)
    >>> list(sets.sizes())
    [(SetSizes(hits=0, predicted=1, true=1), 2), (SetSizes(hits=1, predicted=1, true=2), 1)]
    """

    __slots__ = ()
    NAME = "label_sets"
    TALLY = "NativeSizeTally"
    COLUMNS = dict.fromkeys(SetSizes._fields, False)

    def sizes(self) -> Iterator[tuple[SetSizes, Weight]]:
        """The cells, ascending, each with its weight."""
        return ((SetSizes(*cell), weight) for cell, weight in sorted(self._held().items()))

    def _terms_of(self, y_true: Any, given: Any, y_pred: Any) -> list[tuple[int, int, int]]:
        return [(len(y_true & given), len(given), len(y_true))]

    def _cells_of(self, batch: EventBatch, hits: LabelRows) -> Iterator[tuple[Any, Weight]]:
        right, predicted, true = (rows.lengths for rows in (hits, batch.y_pred, batch.y_true))
        yield from weights_of_rows((right, predicted, true), batch.weight)

    def _read(self, fields: Fields) -> None:
        super()._read(fields)
        if any(hits > min(predicted, true) for hits, predicted, true in self._cells):
            raise StateError("label_sets: more labels were right than were predicted or true")
        if self._exact and sum(self._cells.values()) != self._values[0]:
            raise StateError("label_sets.weight: expected the sum of cells")
