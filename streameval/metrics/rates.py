"""One class against the rest: the rates of being right and wrong.

Functions of :class:`~streameval.states.confusion.ConfusionCounts`, of one
class or averaged over all; the head of ``labels.py`` says what TP, FP, FN and
TN are and what ``average=`` and ``undefined=`` do.
"""

from __future__ import annotations

from streameval.events import Label
from streameval.metrics.averages import Average, Rule, averaged, typed_by_average
from streameval.states.confusion import ConfusionCounts

__all__ = ["fnr", "fpr", "npv", "specificity"]

# Of a class with c correct, t true, p predicted, of s events: TP = c, FP = p − c,
# FN = t − c, TN = s − t − p + c.
SPECIFICITY = Rule("specificity", lambda c, t, p, s: (s - t - p + c, s - t), needs=("others true",))
FPR = Rule("fpr", lambda c, t, p, s: (p - c, s - t), needs=("others true",))
FNR = Rule("fnr", lambda c, t, p, s: (t - c, t), needs=("true",))
NPV = Rule("npv", lambda c, t, p, s: (s - t - p + c, s - p), needs=("others predicted",))


@typed_by_average
def specificity(
    counts: ConfusionCounts,
    *,
    average: Average | None = "binary",
    positive: Label | None = None,
    undefined: float | None = None,
) -> float | dict[Label, float]:
    """Of the events that are not a class, the share not predicted so: TN / (TN + FP).

    Also called true negative rate; 1 − fpr.

    Args:
        counts: The events.
        average: ``"binary"``, ``"macro"``, ``"micro"``, ``"weighted"``, or
            None for each class's own.
        positive: The class, for ``"binary"``.
        undefined: A number for classes that every event has.

    Returns:
        A value in [0, 1], or a dictionary of them; undefined when every event
        is the class.

    Raises:
        MetricError: No `positive` with ``"binary"``, or an unknown average.

    Cost:
        O(1) for one class, O(classes) else.

    >>> counts = ConfusionCounts.from_matrix([[3, 1], [1, 4]], ["cat", "dog"])
    >>> specificity(counts, positive="cat")
    0.8
    """
    return averaged(SPECIFICITY, counts, average, positive, undefined)


@typed_by_average
def fpr(
    counts: ConfusionCounts,
    *,
    average: Average | None = "binary",
    positive: Label | None = None,
    undefined: float | None = None,
) -> float | dict[Label, float]:
    """Of the events that are not a class, the share predicted so: FP / (FP + TN).

    The false positive rate, or false alarm rate; 1 − specificity.

    Args:
        counts: The events.
        average: ``"binary"``, ``"macro"``, ``"micro"``, ``"weighted"``, or
            None for each class's own.
        positive: The class, for ``"binary"``.
        undefined: A number for classes that every event has.

    Returns:
        A value in [0, 1], or a dictionary of them; undefined when every event
        is the class.

    Raises:
        MetricError: No `positive` with ``"binary"``, or an unknown average.

    Cost:
        O(1) for one class, O(classes) else.

    >>> counts = ConfusionCounts.from_matrix([[3, 1], [1, 4]], ["cat", "dog"])
    >>> fpr(counts, positive="cat")
    0.2
    """
    return averaged(FPR, counts, average, positive, undefined)


@typed_by_average
def fnr(
    counts: ConfusionCounts,
    *,
    average: Average | None = "binary",
    positive: Label | None = None,
    undefined: float | None = None,
) -> float | dict[Label, float]:
    """Of the events that are a class, the share not predicted so: FN / (FN + TP).

    The false negative rate, or miss rate; 1 − recall.

    Args:
        counts: The events.
        average: ``"binary"``, ``"macro"``, ``"micro"``, ``"weighted"``, or
            None for each class's own.
        positive: The class, for ``"binary"``.
        undefined: A number for classes that no event has.

    Returns:
        A value in [0, 1], or a dictionary of them; undefined for a class that
        no event has.

    Raises:
        MetricError: No `positive` with ``"binary"``, or an unknown average.

    Cost:
        O(1) for one class, O(classes) else.

    >>> counts = ConfusionCounts.from_matrix([[3, 1], [1, 4]], ["cat", "dog"])
    >>> fnr(counts, positive="cat")
    0.25
    """
    return averaged(FNR, counts, average, positive, undefined)


@typed_by_average
def npv(
    counts: ConfusionCounts,
    *,
    average: Average | None = "binary",
    positive: Label | None = None,
    undefined: float | None = None,
) -> float | dict[Label, float]:
    """Of the events not predicted a class, the share that are not it: TN / (TN + FN).

    The negative predictive value.

    Args:
        counts: The events.
        average: ``"binary"``, ``"macro"``, ``"micro"``, ``"weighted"``, or
            None for each class's own.
        positive: The class, for ``"binary"``.
        undefined: A number for classes that every event was predicted.

    Returns:
        A value in [0, 1], or a dictionary of them; undefined when every event
        was predicted the class.

    Raises:
        MetricError: No `positive` with ``"binary"``, or an unknown average.

    Cost:
        O(1) for one class, O(classes) else.

    >>> counts = ConfusionCounts.from_matrix([[3, 1], [1, 4]], ["cat", "dog"])
    >>> npv(counts, positive="cat")
    0.8
    """
    return averaged(NPV, counts, average, positive, undefined)
