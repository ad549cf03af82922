"""How often two labels have their outcomes in one event: what variances of averages read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np

from streameval.errors import StateError
from streameval.events.event import EventBatch
from streameval.events.label_rows import LabelRows
from streameval.events.values import Weight
from streameval.states.fields import Fields
from streameval.states.label_counts import MISS, outcomes
from streameval.states.sums.cell_sums import CellSums, weights_of_rows


class LabelPairs(CellSums):
    """Weight of the events in which two labels have an outcome each: right, false or missed.

    An event of k such labels costs k·(k − 1)/2 cells.

    >>> pairs = LabelPairs()
    >>> pairs.update({"ad", "spam"}, {"spam"})
    >>> list(pairs.cells())
    [('ad', 2, 'spam', 0, 1)]
    """

    __slots__ = ()
    NAME = "label_pairs"
    COLUMNS = {"first": True, "outcome": False, "second": True, "other": False}  # noqa: RUF012
    MOST = MISS

    def cells(self) -> Iterator[tuple[Any, ...]]:
        """A label and its outcome, a later label and its outcome, and their weight."""
        return ((*cell, weight) for cell, weight in self._cells.items())

    def _terms_of(self, y_true: Any, given: Any, y_pred: Any) -> list[tuple[Any, ...]]:
        return [(*a, *b) for a, b in combinations(sorted(outcomes(y_true, given)), 2)]

    def _cells_of(self, batch: EventBatch, hits: LabelRows) -> Iterator[tuple[Any, Weight]]:
        labels = batch.labels
        # Ranks, because the cells of a pair are of the label that comes first.
        ascending = sorted(range(len(labels)), key=labels.__getitem__)
        rank = np.argsort(np.array(ascending, dtype=np.int64))
        right, predicted, true = (
            rows.rows * len(labels) + rank[rows.codes]
            for rows in (hits, batch.y_pred, batch.y_true)
        )
        false, missed = (
            np.setdiff1d(part, right, assume_unique=True) for part in (predicted, true)
        )
        keys = np.sort(np.concatenate([right * 3, false * 3 + 1, missed * 3 + 2]))
        row, code = np.divmod(keys, max(1, 3 * len(labels)))
        # Each key with the following ones of its event, one distance after the other.
        for apart in range(1, len(keys)):
            same = np.flatnonzero(row[apart:] == row[:-apart])
            if not len(same):
                break
            weight = None if batch.weight is None else batch.weight[row[same]]
            for pair, by in weights_of_rows((code[same], code[same + apart]), weight):
                (a, first), (b, second) = (divmod(one, 3) for one in pair)
                yield (labels[ascending[a]], first, labels[ascending[b]], second), by

    def _read(self, fields: Fields) -> None:
        super()._read(fields)
        if any(not first < second for first, _, second, _ in self._cells):
            raise StateError("label_pairs: expected two labels, the first before the second")
