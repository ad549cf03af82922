"""Agreement between truth and prediction beyond chance or a trivial classifier."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from streameval.events.values import Label
from streameval.metrics.averages import (
    WholeCounts,
    check_choice,
    chosen_labels,
    pooled_counts,
    whole_cells,
    whole_counts,
)
from streameval.metrics.undefined import NO_EVENTS, ratio, undefined_value
from streameval.states.confusion import ConfusionCounts
from streameval.states.label_persistence import LabelPersistence

__all__ = ["cohen_kappa", "kappa_m", "kappa_temporal", "matthews_corrcoef"]


def matthews_corrcoef(counts: ConfusionCounts, *, undefined: float | None = None) -> float:
    """The correlation of the true and the predicted class, for any number of classes.

        (c·s − Σ tₖpₖ) / √((s² − Σ pₖ²)·(s² − Σ tₖ²))

    with c correct of s events, tₖ the true and pₖ the predicted count of class k: the phi
    coefficient of two classes. In [−1, 1], exactly 1 when every prediction is right; undefined
    while all events are of one class, or predicted one class. Cost: O(1) for each class touched
    since the last read; O(cells) with fractional weights.

    >>> matthews_corrcoef(ConfusionCounts.from_matrix([[3, 1], [1, 3]], ["cat", "dog"]))
    0.5
    """
    sums: Any = counts.sums
    total = sums.total
    if type(total) is not int:
        sums = _scaled_sums(counts)
        total = sums.total
    square = total * total
    spread_true, spread_predicted = square - sums.true_squared, square - sums.predicted_squared
    if spread_true and spread_predicted:
        covariance = sums.hits * total - sums.true_predicted
        return _correlation(covariance, spread_true, spread_predicted)
    whole = whole_counts(counts)
    if not whole.total:
        return undefined_value(NO_EVENTS, undefined)
    if not spread_true:
        only = whole.labels[whole.true.index(whole.total)]
        return undefined_value("every event is truly {}", undefined, only)
    only = whole.labels[whole.predicted.index(whole.total)]
    return undefined_value("every event was predicted {}", undefined, only)


class _Sums(NamedTuple):
    """Sums over the classes, in integers up to one common factor."""

    hits: int
    total: int
    true_squared: int
    predicted_squared: int
    true_predicted: int


def _scaled_sums(counts: ConfusionCounts) -> _Sums:
    """The sums of weights that are not whole, from :func:`whole_counts`."""
    whole = whole_counts(counts)
    pairs = list(zip(whole.true, whole.predicted, strict=True))
    return _Sums(
        sum(whole.correct),
        whole.total,
        sum(t * t for t, _ in pairs),
        sum(p * p for _, p in pairs),
        sum(t * p for t, p in pairs),
    )


def _correlation(covariance: int, spread_true: int, spread_predicted: int) -> float:
    if spread_true == spread_predicted:
        # The root of a square: the same, rounded once, and a perfect prediction is 1.
        return covariance / spread_true
    # Two ratios, not the product of the spreads, which passes int64 at 10⁵
    # events. Three roundings below a root cannot lift it above 1.
    value = math.sqrt((covariance / spread_true) * (covariance / spread_predicted))
    return value if covariance >= 0 else -value


def cohen_kappa(
    counts: ConfusionCounts,
    *,
    weights: Literal["linear", "quadratic"] | None = None,
    labels: Iterable[object] | None = None,
    undefined: float | None = None,
) -> float:
    """Cohen's kappa: agreement beyond the agreement expected by chance.

        (p_o − p_e) / (1 − p_e),  p_e = Σ tₖpₖ / s²

    In [−1, 1]; 0 is agreement by chance. Undefined while all events are of one class and
    predicted that class. Cost: as :func:`matthews_corrcoef`; O(cells) with `weights`.

    `weights` of ``"linear"`` or ``"quadratic"``, for ordinal classes, weights a disagreement by the
    distance of the two classes, or its square, in the order of `labels`. These are the classes that
    count: an event of another class, or predicted so, is left out, as with scikit-learn's
    ``labels``. None: all, in the order of ``counts.labels`` (a closed list as declared, else
    ascending). Raises MetricError for other `weights` or no label, InputError for a label twice.

    >>> counts = ConfusionCounts.from_matrix([[2, 1, 0], [0, 2, 0], [0, 0, 1]], [1, 2, 3])
    >>> cohen_kappa(counts), cohen_kappa(counts, weights="linear")
    (0.7391304347826086, 0.7857142857142857)
    """
    if labels is not None:
        counts = _among(counts, chosen_labels(labels))
    if weights is None:
        sums: Any = counts.sums
        total = sums.total
        if type(total) is not int:
            sums = _scaled_sums(counts)
            total = sums.total
        square, chance = total * total, sums.true_predicted
        if chance != square:
            share: float = (sums.hits * total - chance) / (square - chance)
            return share
        return _no_chance(whole_counts(counts), undefined)
    check_choice("weights", weights, (None, "linear", "quadratic"))
    whole = whole_counts(counts)
    row = {label: n for n, label in enumerate(whole.labels)}
    square_it = weights == "quadratic"
    seen = 0
    for y_true, y_pred, weight in whole_cells(counts):
        distance = abs(row[y_true] - row[y_pred])
        seen += weight * (distance * distance if square_it else distance)
    expected = _squared_distance(whole) if square_it else _distance(whole)
    if not expected:
        return _no_chance(whole, undefined)
    return (expected - seen * whole.total) / expected


def _among(counts: ConfusionCounts, labels: list[Label]) -> ConfusionCounts:
    """The events whose true and predicted class are among some labels, in their order."""
    kept, chosen = ConfusionCounts(labels), set(labels)
    kept.add_cells(cell for cell in counts.cells() if cell[0] in chosen and cell[1] in chosen)
    return kept


def _no_chance(whole: WholeCounts, undefined: float | None) -> float:
    if not whole.total:
        return undefined_value(NO_EVENTS, undefined)
    only = whole.labels[whole.true.index(whole.total)]
    return undefined_value("every event is truly {} and was predicted so", undefined, only)


def _distance(whole: WholeCounts) -> int:
    """Σ |i − j|·tᵢ·pⱼ: for each gap between adjacent classes, the pairs that it separates."""
    total = whole.total
    expected = true = predicted = 0
    for t, p in zip(whole.true, whole.predicted, strict=True):
        true += t
        predicted += p
        expected += true * (total - predicted) + (total - true) * predicted
    return expected


def _squared_distance(whole: WholeCounts) -> int:
    """Σ (i − j)²·tᵢ·pⱼ, multiplied out."""
    first = sum(n * t for n, t in enumerate(whole.true))
    second = sum(n * p for n, p in enumerate(whole.predicted))
    squares = sum(
        n * n * (t + p) for n, (t, p) in enumerate(zip(whole.true, whole.predicted, strict=True))
    )
    return whole.total * squares - 2 * first * second


def kappa_m(counts: ConfusionCounts, *, undefined: float | None = None) -> float:
    """Accuracy beyond a classifier that always predicts the most frequent class.

        1 − (1 − accuracy) / (1 − maxₖ tₖ/s)

    At most 1; 0 for that classifier, without a lower bound. Undefined while all events are of
    one class. Cost: O(classes).

    >>> kappa_m(ConfusionCounts.from_matrix([[5, 1], [1, 3]], ["cat", "dog"]))
    0.5
    """
    whole = whole_counts(counts)
    if not whole.total:
        return undefined_value(NO_EVENTS, undefined)
    most = max(whole.true)
    return ratio(
        sum(whole.correct) - most,
        whole.total - most,
        "every event is truly {}",
        undefined,
        whole.labels[whole.true.index(most)],
    )


def kappa_temporal(
    counts: ConfusionCounts, succession: LabelPersistence, *, undefined: float | None = None
) -> float:
    """Accuracy beyond a classifier that predicts the previous event's true label.

        1 − (1 − accuracy) / (1 − pₙ)

    with pₙ the share of events whose true label is the previous event's, among the events that
    have one; `succession` holds the same events in their order. At most 1; 0 for that classifier,
    without a lower bound. Undefined until some event has another label than the one before.
    Cost: O(1); O(cells) with fractional weights.

    >>> counts, order = ConfusionCounts(), LabelPersistence()
    >>> for y_true, y_pred in [(0, 0), (0, 0), (1, 0), (0, 0), (0, 0)]:
    ...     counts.update(y_true, y_pred)
    ...     order.update(y_true)
    >>> kappa_temporal(counts, order)
    0.6
    """
    correct, total = pooled_counts(counts)
    pairs, repeats = succession.pairs, succession.repeats
    if not total:
        return undefined_value(NO_EVENTS, undefined)
    if not pairs:
        return undefined_value("no event has one before it", undefined)
    return ratio(
        correct * pairs - total * repeats,
        total * (pairs - repeats),
        "every event has the true label of the one before it",
        undefined,
    )
