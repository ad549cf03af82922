"""Means over the classes, for callers that read after every event.

The functions read :class:`~streameval.states.confusion_parts.label_sums.LabelSums`, which are
kept current, so the cost of a read does not depend on the number of classes.
"""

from __future__ import annotations

import math

from streameval.metrics.averages import mean_of_scaled, whole_counts
from streameval.metrics.undefined import NO_EVENTS, undefined_value
from streameval.states.confusion import ConfusionCounts
from streameval.states.confusion_parts.label_sums import FRACTION_BITS

__all__ = [
    "balanced_accuracy",
    "f1_macro",
    "geometric_mean",
    "precision_macro",
    "recall_macro",
]

_ONE_UNIT = 0.5**FRACTION_BITS


def precision_macro(counts: ConfusionCounts, *, undefined: float | None = None) -> float:
    """The mean precision of the classes: ``precision(counts, average="macro")``.

    Args:
        counts: The events.
        undefined: A number for each class that was never predicted; without
            one they are left out of the mean.

    Returns:
        A fraction in [0, 1]; undefined before the first event.

    Cost:
        O(1) for each class touched since the last read.

    >>> precision_macro(ConfusionCounts.from_matrix([[1, 1], [0, 1]], ["cat", "dog"]))
    0.75
    """
    sums = counts.sums
    if undefined is None and sums.with_predicted:
        return sums.precision / sums.with_predicted * _ONE_UNIT
    return _mean(counts, sums.precision, sums.with_predicted, undefined)


def recall_macro(counts: ConfusionCounts, *, undefined: float | None = None) -> float:
    """The mean recall of the classes: ``recall(counts, average="macro")``.

    Args:
        counts: The events.
        undefined: A number for each class that no event has; without one they
            are left out of the mean.

    Returns:
        A fraction in [0, 1]; undefined before the first event.

    Cost:
        O(1) for each class touched since the last read.

    >>> recall_macro(ConfusionCounts.from_matrix([[1, 1], [0, 1]], ["cat", "dog"]))
    0.75
    """
    sums = counts.sums
    if undefined is None and sums.with_true:
        return sums.recall / sums.with_true * _ONE_UNIT
    return _mean(counts, sums.recall, sums.with_true, undefined)


def f1_macro(counts: ConfusionCounts, *, undefined: float | None = None) -> float:
    """The mean F1 of the classes: ``f1(counts, average="macro")``.

    Args:
        counts: The events.
        undefined: A number for each class that is neither true nor predicted,
            possible in a closed list of classes only; without one they are
            left out of the mean.

    Returns:
        A fraction in [0, 1]; undefined before the first event.

    Cost:
        O(1) for each class touched since the last read.

    >>> f1_macro(ConfusionCounts.from_matrix([[1, 1], [0, 1]], ["cat", "dog"]))
    0.6666666666666666
    """
    sums = counts.sums
    if undefined is None and sums.active:
        return sums.f1 / sums.active * _ONE_UNIT
    return _mean(counts, sums.f1, sums.active, undefined)


def _mean(
    counts: ConfusionCounts, scaled: int | float, defined: int, undefined: float | None
) -> float:
    value = None
    if defined:
        value = mean_of_scaled(scaled, defined, len(counts.labels) - defined, undefined)
    # Some class is true and some class predicted as soon as there is an event.
    return undefined_value(NO_EVENTS, undefined) if value is None else value


def balanced_accuracy(counts: ConfusionCounts, *, undefined: float | None = None) -> float:
    """The mean recall of the classes that some event has.

    The accuracy if every class were equally frequent.

    Args:
        counts: The events.
        undefined: A number to return while there are no events. A class that
            no event has is left out in any case.

    Returns:
        A fraction in [0, 1]; undefined before the first event.

    Cost:
        O(1) for each class touched since the last read.

    >>> balanced_accuracy(ConfusionCounts.from_matrix([[1, 1], [0, 8]], ["cat", "dog"]))
    0.75
    """
    sums = counts.sums
    if sums.with_true:
        return sums.recall / sums.with_true * _ONE_UNIT
    return undefined_value(NO_EVENTS, undefined)


def geometric_mean(counts: ConfusionCounts, *, undefined: float | None = None) -> float:
    """The K-th root of the product of the K classes' recalls.

    It is 0 if one class has recall 0.

    Args:
        counts: The events.
        undefined: A number to return where a class has no recall.

    Returns:
        A fraction in [0, 1]; undefined before the first event, and while a
        class that was predicted is true of no event.

    Cost:
        O(classes).

    >>> geometric_mean(ConfusionCounts.from_matrix([[1, 1], [1, 1]], ["cat", "dog"]))
    0.5
    """
    labels, correct, true, _, total = whole_counts(counts)
    if not total:
        return undefined_value(NO_EVENTS, undefined)
    if not all(true):
        return undefined_value("no event is truly {}", undefined, labels[true.index(0)])
    if not all(correct):
        return 0.0
    if len(labels) == 2:
        return math.sqrt(correct[0] * correct[1] / (true[0] * true[1]))
    # The product of many recalls underflows; fsum rounds once, so the result
    # does not depend on the order of the classes.
    logs = math.fsum(math.log(c / t) for c, t in zip(correct, true, strict=True))
    return math.exp(logs / len(labels))
