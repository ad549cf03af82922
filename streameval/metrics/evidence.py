"""What a prediction tells about the truth, beyond chance: J, markedness, likelihood ratios.

Functions of :class:`~streameval.states.confusion.ConfusionCounts`, of one
class or averaged over all; the head of ``labels.py`` says what TP, FP, FN and
TN are and what ``average=`` and ``undefined=`` do.
"""

from __future__ import annotations

from streameval.events import Label
from streameval.metrics.averages import Average, Rule, averaged, typed_by_average
from streameval.states.confusion import ConfusionCounts

__all__ = [
    "informedness",
    "markedness",
    "negative_likelihood_ratio",
    "positive_likelihood_ratio",
]

# Of a class with c correct, t true, p predicted, of s events: TP = c, FP = p − c,
# FN = t − c, TN = s − t − p + c.
INFORMEDNESS = Rule(
    "informedness",
    lambda c, t, p, s: (c * (s - t - p + c) - (p - c) * (t - c), t * (s - t)),
    needs=("true", "others true"),
)
MARKEDNESS = Rule(
    "markedness",
    lambda c, t, p, s: (c * (s - t - p + c) - (p - c) * (t - c), p * (s - p)),
    needs=("predicted", "others predicted"),
)
POSITIVE_LIKELIHOOD_RATIO = Rule(
    "positive_likelihood_ratio",
    lambda c, t, p, s: (c * (s - t), t * (p - c)),
    needs=("true", "others true", "false positives"),
)
NEGATIVE_LIKELIHOOD_RATIO = Rule(
    "negative_likelihood_ratio",
    lambda c, t, p, s: ((t - c) * (s - t), t * (s - t - p + c)),
    needs=("true", "others true", "true negatives"),
)


@typed_by_average
def informedness(
    counts: ConfusionCounts,
    *,
    average: Average | None = "binary",
    positive: Label | None = None,
    undefined: float | None = None,
) -> float | dict[Label, float]:
    """How much better than chance a class is told from the rest: recall + specificity − 1.

    Also called Youden's J. 0 for any guess that does not look at the event.

    Args:
        counts: The events.
        average: ``"binary"``, ``"macro"``, ``"micro"``, ``"weighted"``, or
            None for each class's own.
        positive: The class, for ``"binary"``.
        undefined: A number for classes that no event or every event has.

    Returns:
        A value in [−1, 1], or a dictionary of them; undefined where recall or
        specificity is.

    Raises:
        MetricError: No `positive` with ``"binary"``, or an unknown average.

    Cost:
        O(1) for one class, O(classes) else.

    >>> counts = ConfusionCounts.from_matrix([[3, 1], [1, 4]], ["cat", "dog"])
    >>> informedness(counts, positive="cat")
    0.55
    """
    return averaged(INFORMEDNESS, counts, average, positive, undefined)


@typed_by_average
def markedness(
    counts: ConfusionCounts,
    *,
    average: Average | None = "binary",
    positive: Label | None = None,
    undefined: float | None = None,
) -> float | dict[Label, float]:
    """How much more than chance a prediction says of a class: precision + npv − 1.

    Informedness with truth and prediction exchanged.

    Args:
        counts: The events.
        average: ``"binary"``, ``"macro"``, ``"micro"``, ``"weighted"``, or
            None for each class's own.
        positive: The class, for ``"binary"``.
        undefined: A number for classes that no event or every event was predicted.

    Returns:
        A value in [−1, 1], or a dictionary of them; undefined where precision
        or npv is.

    Raises:
        MetricError: No `positive` with ``"binary"``, or an unknown average.

    Cost:
        O(1) for one class, O(classes) else.

    >>> counts = ConfusionCounts.from_matrix([[3, 1], [1, 4]], ["cat", "dog"])
    >>> markedness(counts, positive="cat")
    0.55
    """
    return averaged(MARKEDNESS, counts, average, positive, undefined)


@typed_by_average
def positive_likelihood_ratio(
    counts: ConfusionCounts,
    *,
    average: Average | None = "binary",
    positive: Label | None = None,
    undefined: float | None = None,
) -> float | dict[Label, float]:
    """How many times likelier a class is predicted where it is true: recall / fpr.

    1 says nothing, large values speak for the class.

    Args:
        counts: The events.
        average: ``"binary"``, ``"macro"``, ``"micro"``, ``"weighted"``, or
            None for each class's own.
        positive: The class, for ``"binary"``.
        undefined: A number for classes without a value.

    Returns:
        A value in [0, ∞), or a dictionary of them; undefined where recall or
        fpr is, and where fpr is 0.

    Raises:
        MetricError: No `positive` with ``"binary"``, or an unknown average.

    Cost:
        O(1) for one class, O(classes) else.

    >>> counts = ConfusionCounts.from_matrix([[3, 1], [1, 4]], ["cat", "dog"])
    >>> positive_likelihood_ratio(counts, positive="cat")
    3.75
    """
    return averaged(POSITIVE_LIKELIHOOD_RATIO, counts, average, positive, undefined)


@typed_by_average
def negative_likelihood_ratio(
    counts: ConfusionCounts,
    *,
    average: Average | None = "binary",
    positive: Label | None = None,
    undefined: float | None = None,
) -> float | dict[Label, float]:
    """How many times likelier a class is not predicted where it is true: fnr / specificity.

    1 says nothing, values near 0 speak for the predictions.

    Args:
        counts: The events.
        average: ``"binary"``, ``"macro"``, ``"micro"``, ``"weighted"``, or
            None for each class's own.
        positive: The class, for ``"binary"``.
        undefined: A number for classes without a value.

    Returns:
        A value in [0, ∞), or a dictionary of them; undefined where fnr or
        specificity is, and where specificity is 0.

    Raises:
        MetricError: No `positive` with ``"binary"``, or an unknown average.

    Cost:
        O(1) for one class, O(classes) else.

    >>> counts = ConfusionCounts.from_matrix([[3, 1], [1, 4]], ["cat", "dog"])
    >>> negative_likelihood_ratio(counts, positive="cat")
    0.3125
    """
    return averaged(NEGATIVE_LIKELIHOOD_RATIO, counts, average, positive, undefined)
