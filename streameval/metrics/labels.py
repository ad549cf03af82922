"""How often the predicted label was right, and right about each class.

Functions of :class:`~streameval.states.confusion.ConfusionCounts`. For a
class, against all others: TP were it and predicted so, FP predicted but not
it, FN it but not predicted, TN neither.

Those of one class take ``average=``: ``"binary"`` is the class ``positive``;
``"macro"`` the mean over the classes; ``"micro"`` pools their TP, FP, FN and
TN; ``"weighted"`` is the mean weighted by how often each class is true; None
gives a dictionary of every class's own value. ``undefined=`` is a number in
place of a value whose denominator is 0; a mean without it leaves such classes
out (:func:`~streameval.metrics.registry.left_out` names them).
"""

from __future__ import annotations

from typing import Literal, overload

from streameval.errors import MetricError, shown
from streameval.events import Label, Weight
from streameval.metrics.averages import Average, Rule, averaged, typed_by_average
from streameval.metrics.macro import precision_macro, recall_macro
from streameval.metrics.undefined import NO_EVENTS, ratio
from streameval.metrics.whole_counts import whole_counts
from streameval.states.confusion import ConfusionCounts

__all__ = [
    "accuracy",
    "error_rate",
    "precision",
    "recall",
    "support",
]

PRECISION = Rule("precision", lambda c, t, p, s: (c, p), needs=("predicted",))
RECALL = Rule("recall", lambda c, t, p, s: (c, t), needs=("true",))


def accuracy(counts: ConfusionCounts, *, undefined: float | None = None) -> float:
    """The share of events whose predicted label is the true one.

    Args:
        counts: The events.
        undefined: A number to return while there are no events.

    Returns:
        A fraction in [0, 1]; undefined before the first event.

    Cost:
        O(1).

    >>> accuracy(ConfusionCounts.from_matrix([[3, 1], [0, 4]], ["cat", "dog"]))
    0.875
    """
    total = counts.total
    if type(total) is int and total:
        return counts.correct / total
    whole = whole_counts(counts)
    return ratio(sum(whole.correct), whole.total, NO_EVENTS, undefined)


def error_rate(counts: ConfusionCounts, *, undefined: float | None = None) -> float:
    """The share of events whose predicted label is not the true one: 1 − accuracy.

    Args:
        counts: The events.
        undefined: A number to return while there are no events.

    Returns:
        A fraction in [0, 1]; undefined before the first event.

    Cost:
        O(1).

    >>> error_rate(ConfusionCounts.from_matrix([[3, 1], [0, 4]], ["cat", "dog"]))
    0.125
    """
    total = counts.total
    if type(total) is int and total:
        return (total - counts.correct) / total
    whole = whole_counts(counts)
    return ratio(whole.total - sum(whole.correct), whole.total, NO_EVENTS, undefined)


@typed_by_average
def precision(
    counts: ConfusionCounts,
    *,
    average: Average | None = "binary",
    positive: Label | None = None,
    undefined: float | None = None,
) -> float | dict[Label, float]:
    """Of the events predicted a class, the share that are it: TP / (TP + FP).

    Also called positive predictive value.

    Args:
        counts: The events.
        average: ``"binary"``, ``"macro"``, ``"micro"``, ``"weighted"``, or
            None for each class's own (see the head of this module).
        positive: The class, for ``"binary"``.
        undefined: A number for classes that were never predicted.

    Returns:
        A fraction in [0, 1], or a dictionary of them; undefined for a class
        that was never predicted.

    Raises:
        MetricError: No `positive` with ``"binary"``, or an unknown average.

    Cost:
        O(1) for one class and micro, O(classes) else.

    >>> counts = ConfusionCounts.from_matrix([[3, 1], [0, 4]], ["cat", "dog"])
    >>> precision(counts, positive="dog"), precision(counts, average="macro")
    (0.8, 0.9)
    >>> precision(counts, average=None)
    {'cat': 1.0, 'dog': 0.8}
    """
    if average == "macro":
        return precision_macro(counts, undefined=undefined)
    return averaged(PRECISION, counts, average, positive, undefined)


@typed_by_average
def recall(
    counts: ConfusionCounts,
    *,
    average: Average | None = "binary",
    positive: Label | None = None,
    undefined: float | None = None,
) -> float | dict[Label, float]:
    """Of the events that are a class, the share predicted so: TP / (TP + FN).

    Also called sensitivity, true positive rate, hit rate and coverage. Its
    weighted average is the accuracy, bit for bit.

    Args:
        counts: The events.
        average: ``"binary"``, ``"macro"``, ``"micro"``, ``"weighted"``, or
            None for each class's own (see the head of this module).
        positive: The class, for ``"binary"``.
        undefined: A number for classes that no event has.

    Returns:
        A fraction in [0, 1], or a dictionary of them; undefined for a class
        that no event has.

    Raises:
        MetricError: No `positive` with ``"binary"``, or an unknown average.

    Cost:
        O(1) for one class and micro, O(classes) else.

    >>> counts = ConfusionCounts.from_matrix([[3, 1], [0, 4]], ["cat", "dog"])
    >>> recall(counts, positive="cat"), recall(counts, average="weighted")
    (0.75, 0.875)
    """
    if average == "macro":
        return recall_macro(counts, undefined=undefined)
    return averaged(RECALL, counts, average, positive, undefined)


@overload
def support(
    counts: ConfusionCounts,
    *,
    average: Literal["binary"] = "binary",
    positive: Label | None = None,
    undefined: float | None = None,
) -> float: ...


@overload
def support(
    counts: ConfusionCounts,
    *,
    average: None,
    positive: Label | None = None,
    undefined: float | None = None,
) -> dict[Label, Weight]: ...


def support(
    counts: ConfusionCounts,
    *,
    average: Literal["binary"] | None = "binary",
    positive: Label | None = None,
    undefined: float | None = None,
) -> float | dict[Label, Weight]:
    """The weight of the events that are truly a class, or of all events.

    Args:
        counts: The events.
        average: ``"binary"`` for one number, None for each class's own.
        positive: The class; None for all classes together.
        undefined: Ignored: a support always exists. Every metric takes it.

    Returns:
        A number of at least 0, or a dictionary of them.

    Raises:
        MetricError: An unknown average; there is nothing to be averaged.

    Cost:
        O(1); O(classes) for each class's own.

    >>> counts = ConfusionCounts.from_matrix([[3, 1], [0, 4]], ["cat", "dog"])
    >>> support(counts, positive="cat"), support(counts), support(counts, average=None)
    (4.0, 8.0, {'cat': 4, 'dog': 4})
    """
    if average is None:
        labels, _, true, _ = counts.per_class()
        return dict(zip(labels, true, strict=True))
    if average != "binary":
        raise MetricError(f"average of support: expected 'binary' or None, got {shown(average)}")
    return float(counts.total if positive is None else counts.true_count(positive))
