"""Quality of probabilities: log loss, Brier score, and top-k accuracy.

Functions of :class:`ProbabilitySums` (binary: the probability of the positive
class) or of :class:`ClassProbabilitySums` (multi-class: a probability for each
label). The sums are integers in units of 2⁻⁶⁰, so a value does not depend on
the order of the events.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from streameval.errors import MetricError, shown
from streameval.events.values import Weight
from streameval.metrics.averages import exact_sum
from streameval.metrics.undefined import NO_EVENTS, ratio, undefined_value
from streameval.states.class_probability import ClassProbabilitySums
from streameval.states.probability import ProbabilitySums
from streameval.states.sums.fixed_point import UNIT

__all__ = ["brier_score", "log_loss", "top_k_accuracy"]

AnySums: TypeAlias = ProbabilitySums | ClassProbabilitySums


def missing_probability(sums: AnySums, what: str) -> str:
    """Why a metric of probabilities has no value; empty when it has one.

    >>> sums = ProbabilitySums()
    >>> sums.update(True, 1.5)
    >>> sums.update(True, 0.5)
    >>> missing_probability(sums, "log loss")
    '1 of 2 scores lies outside [0, 1]; log loss needs probabilities'
    """
    outside: Weight = sums.outside if isinstance(sums, ProbabilitySums) else 0
    if outside:
        lie = "lies" if outside == 1 else "lie"
        share = f"{_spelled(outside)} of {_spelled(sums.weight + outside)} scores"
        return f"{share} {lie} outside [0, 1]; {what} needs probabilities"
    return "" if sums.weight else NO_EVENTS


def _spelled(weight: Weight) -> str:
    return str(int(weight)) if weight == int(weight) else f"{weight:.6g}"


def _mean(units: Weight, sums: AnySums, what: str, undefined: float | None) -> float:
    reason = missing_probability(sums, what)
    if reason:
        return undefined_value(reason, undefined)
    return units / (sums.weight * UNIT)


def log_loss(sums: AnySums, *, undefined: float | None = None) -> float:
    """Mean of −ln(probability given to the true class), in nats.

    Probabilities are clipped to [ε, 1 − ε] with ε = 2⁻⁵², as scikit-learn's
    ``log_loss`` clips, so one event adds at most about 36.

    Returns:
        A number from 0 up; nan with a reason while there is no event or,
        binary, while some score lies outside [0, 1].

    Cost:
        O(1).

    >>> sums = ProbabilitySums()
    >>> sums.update(True, 0.8)
    >>> sums.update(False, 0.5)
    >>> round(log_loss(sums), 12)
    0.458145365937
    """
    return _mean(sums.log_loss_units, sums, "log loss", undefined)


def brier_score(sums: AnySums, *, undefined: float | None = None) -> float:
    """Mean squared distance between probabilities and outcomes.

    Binary: mean of (p − y)², in [0, 1]. Multi-class: mean over events of
    Σ_k (p_k − y_k)² over the labels, in [0, 2]: scikit-learn's
    ``brier_score_loss`` in its default scale for three or more classes.

    Returns:
        nan with a reason in the cases of :func:`log_loss`.

    Cost:
        O(1).

    >>> sums = ProbabilitySums()
    >>> sums.update(True, 0.75)
    >>> sums.update(False, 0.5)
    >>> brier_score(sums)
    0.15625
    """
    return _mean(sums.brier_units, sums, "the Brier score", undefined)


def top_k_accuracy(
    sums: ClassProbabilitySums, k: int = 2, *, undefined: float | None = None
) -> float:
    """Share of events whose true label is among the k most probable.

    Of equal probabilities the label that sorts later ranks higher, as in
    scikit-learn's ``top_k_accuracy_score``.

    Args:
        sums: Where the true labels ranked.
        k: At least 1.

    Returns:
        A fraction in [0, 1]; nan with a reason while no event was counted.

    Raises:
        MetricError: ``k`` is not a whole number above 0.

    Cost:
        O(distinct ranks).

    >>> sums = ClassProbabilitySums()
    >>> sums.update("cat", {"cat": 0.5, "dog": 0.25, "fox": 0.25})
    >>> sums.update("dog", {"cat": 0.5, "dog": 0.125, "fox": 0.375})
    >>> top_k_accuracy(sums, k=1), top_k_accuracy(sums, k=2), top_k_accuracy(sums, k=3)
    (0.5, 0.5, 1.0)
    """
    if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 1:
        raise MetricError(f"k: expected a whole number above 0, got {shown(k)}")
    hits = exact_sum([weight for rank, weight in sums.ranks.items() if 0 <= rank < k])
    return ratio(hits, sums.weight, NO_EVENTS, undefined)
