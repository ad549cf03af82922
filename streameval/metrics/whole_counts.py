"""A confusion's class counts as integers, whatever its weights were.

Integer weights are integers already. Fractional weights are floats, each of
which is an integer times a power of two; brought to one power they are
integers again, and a ratio of counts does not notice the scale. So every
metric has one formula, in integers: nothing cancels, nothing overflows, and
a denominator is 0 exactly when there is nothing in it. That matters where
events fade: with one class at weight 1 and another at 1e-18, ``1 - p`` in
floats would be 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from streameval.events import Label
from streameval.states.confusion import ConfusionCounts

__all__ = ["WholeCounts", "whole_cells", "whole_counts"]


class WholeCounts(NamedTuple):
    """Class counts in integers, up to one common factor; lists aligned with `labels`."""

    labels: list[Label]
    correct: list[int]
    true: list[int]
    predicted: list[int]
    total: int


def whole_counts(counts: ConfusionCounts) -> WholeCounts:
    """What each class was right about, how often it was true and how often predicted.

    Cost:
        O(classes) with integer weights, O(cells) with others.

    >>> counts = ConfusionCounts()
    >>> counts.update("cat", "cat", 0.5)
    >>> counts.update("dog", "cat", 0.25)
    >>> whole_counts(counts)
    WholeCounts(labels=['cat', 'dog'], correct=[2, 0], true=[2, 1], predicted=[3, 0], total=3)
    """
    if counts.exact:
        return WholeCounts(*counts.per_class(), counts.total)  # type: ignore[arg-type]
    labels = counts.labels
    place = {label: n for n, label in enumerate(labels)}
    correct = [0] * len(labels)
    true = correct.copy()
    predicted = correct.copy()
    for y_true, y_pred, weight in _scaled_cells(counts):
        true[place[y_true]] += weight
        predicted[place[y_pred]] += weight
        if y_true == y_pred:
            correct[place[y_true]] += weight
    return WholeCounts(labels, correct, true, predicted, sum(true))


def whole_cells(counts: ConfusionCounts) -> Iterable[tuple[Label, Label, int]]:
    """The cells ``(true, predicted, weight)`` on the same scale as :func:`whole_counts`."""
    return counts.cells() if counts.exact else _scaled_cells(counts)  # type: ignore[return-value]


def _scaled_cells(counts: ConfusionCounts) -> list[tuple[Label, Label, int]]:
    cells = [(true, pred, weight.as_integer_ratio()) for true, pred, weight in counts.cells()]
    # Every denominator is a power of two: the largest is a multiple of the others.
    scale = max((denominator for _, _, (_, denominator) in cells), default=1)
    return [(true, pred, n * (scale // d)) for true, pred, (n, d) in cells]
