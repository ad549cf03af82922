"""How well a class's predictions and its events overlap: F-measures and their kin.

Functions of :class:`~streameval.states.confusion.ConfusionCounts`, of one
class or averaged over all; the head of ``labels.py`` says what TP, FP and FN
are and what ``average=`` and ``undefined=`` do.
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Real
from typing import overload

from streameval.errors import MetricError, shown
from streameval.events import Label
from streameval.metrics.averages import Average, Rule, averaged, typed_by_average
from streameval.metrics.macro import f1_macro
from streameval.states.confusion import ConfusionCounts

__all__ = ["f1", "fbeta", "fowlkes_mallows", "jaccard"]

F1 = Rule("f1", lambda c, t, p, s: (2 * c, t + p), needs=("either",))
JACCARD = Rule("jaccard", lambda c, t, p, s: (c, t + p - c), needs=("either",))
FOWLKES_MALLOWS = Rule(
    "fowlkes_mallows", lambda c, t, p, s: (c * c, t * p), needs=("predicted", "true"), root=True
)


@typed_by_average
def f1(
    counts: ConfusionCounts,
    *,
    average: Average | None = "binary",
    positive: Label | None = None,
    undefined: float | None = None,
) -> float | dict[Label, float]:
    """The harmonic mean of precision and recall: 2·TP / (2·TP + FP + FN).

    Args:
        counts: The events.
        average: ``"binary"``, ``"macro"``, ``"micro"``, ``"weighted"``, or
            None for each class's own (see the head of this module).
        positive: The class, for ``"binary"``.
        undefined: A number for classes that are neither true nor predicted.

    Returns:
        A fraction in [0, 1], or a dictionary of them; undefined only for a
        class that no event has and none was predicted.

    Raises:
        MetricError: No `positive` with ``"binary"``, or an unknown average.

    Cost:
        O(1) for one class and micro, O(classes) else.

    >>> counts = ConfusionCounts.from_matrix([[1, 0], [1, 1]], ["cat", "dog"])
    >>> f1(counts, positive="cat")
    0.6666666666666666
    """
    if average == "macro":
        return f1_macro(counts, undefined=undefined)
    return averaged(F1, counts, average, positive, undefined)


def fbeta_rule(beta: float) -> Rule:
    """The rule of F-beta, exact for the float that `beta` is.

    Raises:
        MetricError: `beta` is not a positive finite number.
    """
    if not isinstance(beta, Real) or not 0 < beta < math.inf:
        raise MetricError(f"beta: expected a positive number, got {shown(beta)}")
    top, bottom = (Fraction(float(beta)) ** 2).as_integer_ratio()
    # (1+β²)TP / ((1+β²)TP + β²FN + FP) with TP + FN = t and TP + FP = p.
    return Rule(
        "fbeta",
        lambda c, t, p, s: ((top + bottom) * c, top * t + bottom * p),
        needs=("either",),
    )


@overload
def fbeta(
    counts: ConfusionCounts,
    *,
    beta: float = 1.0,
    average: Average = "binary",
    positive: Label | None = None,
    undefined: float | None = None,
) -> float: ...


@overload
def fbeta(
    counts: ConfusionCounts,
    *,
    beta: float = 1.0,
    average: None,
    positive: Label | None = None,
    undefined: float | None = None,
) -> dict[Label, float]: ...


def fbeta(
    counts: ConfusionCounts,
    *,
    beta: float = 1.0,
    average: Average | None = "binary",
    positive: Label | None = None,
    undefined: float | None = None,
) -> float | dict[Label, float]:
    """The mean of precision and recall in which recall counts β times as much.

        (1 + β²)·TP / ((1 + β²)·TP + β²·FN + FP)

    Args:
        counts: The events.
        beta: Above 1 favours recall, below 1 precision; 1 is F1.
        average: ``"binary"``, ``"macro"``, ``"micro"``, ``"weighted"``, or
            None for each class's own (see the head of this module).
        positive: The class, for ``"binary"``.
        undefined: A number for classes that are neither true nor predicted.

    Returns:
        A fraction in [0, 1], or a dictionary of them; undefined only for a
        class that no event has and none was predicted.

    Raises:
        MetricError: `beta` is not a positive finite number, no `positive`
            with ``"binary"``, or an unknown average.

    Cost:
        O(1) for one class and micro, O(classes) else.

    >>> counts = ConfusionCounts.from_matrix([[1, 0], [1, 1]], ["cat", "dog"])
    >>> fbeta(counts, beta=2, positive="dog")
    0.5555555555555556
    """
    return averaged(fbeta_rule(beta), counts, average, positive, undefined)


@typed_by_average
def jaccard(
    counts: ConfusionCounts,
    *,
    average: Average | None = "binary",
    positive: Label | None = None,
    undefined: float | None = None,
) -> float | dict[Label, float]:
    """Of the events that are a class or were predicted so, the share that are both.

    TP / (TP + FP + FN), also called intersection over union.

    Args:
        counts: The events.
        average: ``"binary"``, ``"macro"``, ``"micro"``, ``"weighted"``, or
            None for each class's own (see the head of this module).
        positive: The class, for ``"binary"``.
        undefined: A number for classes that are neither true nor predicted.

    Returns:
        A fraction in [0, 1], or a dictionary of them; undefined only for a
        class that no event has and none was predicted.

    Raises:
        MetricError: No `positive` with ``"binary"``, or an unknown average.

    Cost:
        O(1) for one class and micro, O(classes) else.

    >>> counts = ConfusionCounts.from_matrix([[1, 0], [1, 2]], ["cat", "dog"])
    >>> jaccard(counts, average=None)
    {'cat': 0.5, 'dog': 0.6666666666666666}
    """
    return averaged(JACCARD, counts, average, positive, undefined)


@typed_by_average
def fowlkes_mallows(
    counts: ConfusionCounts,
    *,
    average: Average | None = "binary",
    positive: Label | None = None,
    undefined: float | None = None,
) -> float | dict[Label, float]:
    """The geometric mean of precision and recall: √(precision · recall).

    Also called the G-measure. It lies between F1 and their arithmetic mean.

    Args:
        counts: The events.
        average: ``"binary"``, ``"macro"``, ``"micro"``, ``"weighted"``, or
            None for each class's own.
        positive: The class, for ``"binary"``.
        undefined: A number for classes that are never true or never predicted.

    Returns:
        A fraction in [0, 1], or a dictionary of them; undefined where
        precision or recall is.

    Raises:
        MetricError: No `positive` with ``"binary"``, or an unknown average.

    Cost:
        O(1) for one class and micro, O(classes) else.

    >>> counts = ConfusionCounts.from_matrix([[1, 3], [0, 4]], ["cat", "dog"])
    >>> fowlkes_mallows(counts, positive="cat")
    0.5
    """
    return averaged(FOWLKES_MALLOWS, counts, average, positive, undefined)
