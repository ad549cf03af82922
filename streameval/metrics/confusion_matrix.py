"""The confusion as a matrix of shares: of the true classes, of the predicted ones, or of all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from streameval.events.values import FloatArray, Label
from streameval.metrics.averages import check_choice, chosen_labels
from streameval.metrics.thresholds import column_list, quotients
from streameval.states.confusion import ConfusionCounts

__all__ = ["ConfusionMatrix", "confusion_matrix"]


@dataclass(frozen=True, slots=True, eq=False)
class ConfusionMatrix:
    """A confusion of some labels: rows are true classes, columns predicted ones.

    An undefined cell is nan: it belongs to a row, or a column, without events.
    """

    labels: list[Label]
    matrix: FloatArray

    def to_dict(self) -> dict[str, Any]:
        """Plain lists for JSON; nan becomes None."""
        return {"labels": list(self.labels), "matrix": [column_list(row) for row in self.matrix]}


def confusion_matrix(
    counts: ConfusionCounts,
    *,
    labels: Iterable[object] | None = None,
    normalize: Literal["true", "pred", "all"] | None = None,
) -> ConfusionMatrix:
    """The confusion of all labels or some, in weights or in shares: a float64 matrix, (K, K).

    `labels` is the order of rows and columns; other classes are left out, and one never seen has no
    events. None: all. `normalize` is ``"true"``, each row over its sum, so that the diagonal is the
    recall; ``"pred"``, each column over its sum (the precision); ``"all"``, each cell over the
    total; None, the weights. The shares of a sum of 0 are nan; scikit-learn's
    ``confusion_matrix`` has 0 there. Raises MetricError for another `normalize` or no label,
    InputError for a label twice or more than 10⁸ cells. Cost: O(classes²).

    >>> counts = ConfusionCounts.from_matrix([[3, 1], [2, 4]], ["cat", "dog"])
    >>> confusion_matrix(counts, normalize="true").matrix.tolist()
    [[0.75, 0.25], [0.3333333333333333, 0.6666666666666666]]
    >>> confusion_matrix(counts, labels=["dog"], normalize="all").matrix.tolist()
    [[1.0]]
    """
    check_choice("normalize", normalize, (None, "true", "pred", "all"))
    names = counts.labels if labels is None else chosen_labels(labels)
    matrix = counts.to_array(names)
    if normalize is None:
        return ConfusionMatrix(names, matrix.astype(np.float64))
    axis = {"true": 1, "pred": 0, "all": None}[normalize]
    sums = np.broadcast_to(matrix.sum(axis=axis, keepdims=True), matrix.shape)
    return ConfusionMatrix(names, quotients(matrix, sums))
