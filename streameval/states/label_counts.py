"""The counts of each label of events that have sets of labels."""

from __future__ import annotations

from collections import Counter
from typing import Any

from streameval.events.event import EventBatch
from streameval.events.values import Label, Weight
from streameval.states.sums.sum_vector import Field, SumVector


class LabelCounts(SumVector):
    """For each label the weight of events that have it and are predicted it, or either alone."""

    NAME = "label_counts"
    FIELD = "y_true"
    VALIDATED = True

    weight = Field[Weight](most=1)  # type: ignore[assignment]

    def _terms_of(self, y_true: Any, given: Any, y_pred: Any) -> Any:
        return (y_true, given)

    def _add(self, terms: Any, weight: Weight) -> None:
        true, predicted = terms
        self._values[0] += weight
        for label in true | predicted:
            side = 0 if label in true and label in predicted else 1 if label in predicted else 2
            self._add_cell((label, side), weight)

    def _add_many(self, y_true: Any, given: Any, weight: Any) -> None:
        raise NotImplementedError

    def update_many(self, batch: EventBatch) -> None:  # type: ignore[override]
        """Count a validated batch."""
        for true, predicted, _, weight in batch.events():
            self.update(true, predicted, weight)

    @property
    def labels(self) -> list[Label]:
        """Every label that occurs, ascending."""
        return sorted({label for label, _ in self._cells})

    def of(self, label: Label) -> tuple[Weight, Weight, Weight]:
        """True positives, false positives and false negatives of a label."""
        get = self._cells.get
        return get((label, 0), 0), get((label, 1), 0), get((label, 2), 0)

    def sums(self) -> tuple[Weight, Weight, Weight]:
        """True positives, false positives and false negatives, over all labels."""
        sums: Counter[int] = Counter()
        for (_, side), weight in self._cells.items():
            sums[side] += weight
        return sums[0], sums[1], sums[2]
