"""Losses and reliability of the scores of each label, as probabilities."""

from __future__ import annotations

from typing import Any, Self

from streameval.events.values import Label, Weight
from streameval.states.fields import Fields
from streameval.states.label_columns import LabelColumns
from streameval.states.label_scores import LabelScores
from streameval.states.probability import ProbabilitySums
from streameval.states.sums.loss_sums import MOST_BINS


class LabelLosses(LabelColumns):
    """Log loss, Brier score and reliability bins of each label, as exact sums.

    Args:
        declared: The closed list of labels, or None where they are discovered.
        bins: Reliability bins of equal width.

    >>> losses = LabelLosses()
    >>> losses.update(frozenset({"spam"}), {"spam": 0.75, "ad": 0.5})
    >>> losses.update(frozenset(), {"spam": 0.5})
    >>> losses.of_label("spam").weight, losses.of_label("ad").bin_weights[:5]
    (2, [1, 0, 0, 0, 1])
    """

    __slots__ = ("bins",)
    NAME = "label_losses"
    SETTINGS = ("bins",)
    KEYS = LabelColumns.KEYS | {"bins"}
    COLUMN = ProbabilitySums
    SCALED = ProbabilitySums.scaled

    def __init__(self, declared: tuple[Label, ...] | None = None, *, bins: int = 10) -> None:
        super().__init__(declared)
        self.bins = bins

    def _held(self, column: ProbabilitySums) -> Weight:
        return column.weight + column.outside

    @classmethod
    def _of_settings(cls, fields: Fields, *settings: Any) -> Self:
        return cls(*settings, bins=fields.integer("bins", 1, MOST_BINS))

    @classmethod
    def from_scores(cls, scores: LabelScores, bins: int) -> Self:
        """The losses of the events of another state, to the same bits."""
        columns = {
            label: ProbabilitySums.from_blocks(index.group_blocks(), bins)
            for label, index in scores._columns.items()
        }
        return cls(scores.declared, bins=bins)._holding(scores, columns)

    def of_label(self, label: Label) -> ProbabilitySums:
        """The sums of one label, zeros included, as those of a binary task; O(bins)."""
        column = self._columns.get(label)
        sums: ProbabilitySums = self._new() if column is None else column.copy()
        for positive, weight in zip((True, False), self.zeros(label), strict=True):
            if type(weight) is float:
                sums._promote()
            if weight:
                sums.add_whole(positive, 0.0, weight)
        return sums
