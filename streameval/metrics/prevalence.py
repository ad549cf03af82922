"""Precision and recall weighted by how frequent each class is, in the ratio form."""

from __future__ import annotations

from streameval.metrics.undefined import NO_EVENTS, ratio, undefined_value
from streameval.metrics.whole_counts import whole_counts
from streameval.states.confusion import ConfusionCounts

__all__ = ["prevalence_weighted_precision", "prevalence_weighted_recall"]


def prevalence_weighted_precision(
    counts: ConfusionCounts, *, undefined: float | None = None
) -> float:
    """Correct over predicted, every class counting as often as it is true.

        Σ Cᵢᵢtᵢ / Σ pᵢtᵢ

    The ratio of two weighted sums, where ``precision(average="weighted")`` is
    the weighted mean of ratios.

    Args:
        counts: The events.
        undefined: A number to return where the denominator is 0.

    Returns:
        A fraction in [0, 1]; undefined while no class is both true of some
        event and predicted for some.

    Cost:
        O(classes).

    >>> counts = ConfusionCounts.from_matrix([[1, 1], [0, 2]], ["cat", "dog"])
    >>> prevalence_weighted_precision(counts)
    0.75
    """
    _, correct, true, predicted, total = whole_counts(counts)
    if not total:
        return undefined_value(NO_EVENTS, undefined)
    return ratio(
        sum(c * t for c, t in zip(correct, true, strict=True)),
        sum(p * t for p, t in zip(predicted, true, strict=True)),
        "no class that was predicted is true of any event",
        undefined,
    )


def prevalence_weighted_recall(counts: ConfusionCounts, *, undefined: float | None = None) -> float:
    """Correct over true, every class counting as often as it is true.

        Σ Cᵢᵢtᵢ / Σ tᵢ²

    The ratio of two weighted sums; the weighted mean of recalls is the accuracy.

    Args:
        counts: The events.
        undefined: A number to return while there are no events.

    Returns:
        A fraction in [0, 1]; undefined before the first event.

    Cost:
        O(classes).

    >>> counts = ConfusionCounts.from_matrix([[1, 1], [0, 4]], ["cat", "dog"])
    >>> prevalence_weighted_recall(counts)
    0.9
    """
    _, correct, true, _, _ = whole_counts(counts)
    return ratio(
        sum(c * t for c, t in zip(correct, true, strict=True)),
        sum(t * t for t in true),
        NO_EVENTS,
        undefined,
    )
