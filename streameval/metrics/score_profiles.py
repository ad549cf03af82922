"""What each threshold of a score would give, and how the scores of both classes lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from streameval.errors import MetricError, shown
from streameval.events.values import FloatArray, Weight
from streameval.metrics.class_metrics import F1, PRECISION, RECALL, SPECIFICITY
from streameval.metrics.thresholds import (
    Counts,
    CurveColumns,
    class_missing,
    number_option,
    quotients,
    threshold_counts,
    widened,
)
from streameval.metrics.undefined import NO_EVENTS
from streameval.states.error_residuals import ResidualIndex
from streameval.states.prediction_histogram import LARGEST, PredictionHistogram, cell_edge
from streameval.states.score_index import ScoreIndex

__all__ = [
    "ActualVsPredicted",
    "GainCurve",
    "ResidualDistribution",
    "ScoreDistribution",
    "ThresholdMetrics",
    "actual_vs_predicted",
    "gain_curve",
    "residual_distribution",
    "score_distribution",
    "threshold_metrics",
]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GainCurve(CurveColumns):
    """Cumulative gain and lift as the threshold falls; columns of one length.

    ``share`` is the share of all events predicted positive, ``gain`` the share of the positive
    events among them (the recall), and ``lift`` the quotient of the two: how many times more
    positives than in as many events drawn at random. At a share of 0 the lift is nan.
    """

    share: FloatArray
    gain: FloatArray
    lift: FloatArray
    threshold: FloatArray
    reason: str = ""
    _name: ClassVar[str] = "gain"


def gain_curve(index: ScoreIndex) -> GainCurve:
    """The cumulative gain, or capture, curve, and the lift, at every distinct threshold.

    The first point is (0, 0) at threshold ``+inf``. nan while no positive was seen. Cost:
    O(distinct scores).

    >>> curve = gain_curve(ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]))
    >>> curve.share.tolist(), curve.gain.tolist()
    ([0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 0.5, 0.5, 1.0, 1.0])
    >>> curve.lift.tolist()[1:]
    [2.0, 1.0, 1.3333333333333333, 1.0]
    """
    counts = threshold_counts(index.groups())
    positives, events = counts.positives, counts.positives + counts.negatives
    predicted = counts.tp + counts.fp
    # TP/P over (TP + FP)/(P + N), divided once.
    bound = positives * events
    above, below = widened(counts.tp, bound) * events, widened(predicted, bound) * positives
    return GainCurve(
        share=quotients(predicted, events),
        gain=quotients(counts.tp, positives),
        lift=quotients(above, below),
        threshold=counts.threshold,
        reason="" if positives else class_missing(positives, counts.negatives),
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ThresholdMetrics(CurveColumns):
    """Metrics at every distinct score as the threshold, ascending; columns of one length.

    ``share`` is the share of the events predicted positive. A metric without a denominator at a
    threshold is nan there.
    """

    threshold: FloatArray
    precision: FloatArray
    recall: FloatArray
    specificity: FloatArray
    f1: FloatArray
    share: FloatArray
    reason: str = ""
    _name: ClassVar[str] = "threshold_metrics"


def threshold_metrics(index: ScoreIndex) -> ThresholdMetrics:
    """Precision, recall, specificity and F1 at every distinct threshold.

    Each is the metric of that name of the events classified by the threshold. Cost: O(distinct
    scores).

    >>> curve = threshold_metrics(ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]))
    >>> curve.threshold.tolist(), curve.recall.tolist()
    ([0.1, 0.35, 0.4, 0.8], [1.0, 1.0, 0.5, 0.5])
    >>> curve.f1.tolist()
    [0.6666666666666666, 0.8, 0.5, 0.6666666666666666]
    """
    counts = threshold_counts(index.groups())
    positives, events = counts.positives, counts.positives + counts.negatives
    # A rule's polynomials are those of integers, and of columns of them.
    tp: Any = counts.tp[:0:-1]
    fp: Any = counts.fp[:0:-1]
    p: Any = positives
    s: Any = events
    columns = {
        rule.name: quotients(*_parts(rule.parts(tp, p, tp + fp, s), len(tp)))
        for rule in (PRECISION, RECALL, SPECIFICITY, F1)
    }
    return ThresholdMetrics(
        threshold=counts.threshold[:0:-1],
        share=quotients(tp + fp, events),
        reason=class_missing(positives, counts.negatives),
        **columns,
    )


def _parts(parts: Sequence[object], length: int) -> tuple[Counts, Counts]:
    """A rule's numerator and denominator as columns; a number is one for all thresholds."""
    above, below = (np.broadcast_to(np.asarray(part), (length,)) for part in parts)
    return above, below


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ScoreDistribution(CurveColumns):
    """The histogram of the scores of each class; a row for each bin.

    ``low`` and ``high`` are a bin's edges; an inner edge belongs to the bin below it.
    ``positives`` and ``negatives`` are weights of events.
    """

    low: FloatArray
    high: FloatArray
    positives: Counts
    negatives: Counts
    reason: str = ""
    _name: ClassVar[str] = "score_distribution"


def score_distribution(
    index: ScoreIndex, *, bins: int = 40, limits: tuple[float, float] | None = None
) -> ScoreDistribution:
    """How many events of each class have a score in each of some bins of equal width.

    Scores beyond the outer edges, `limits`, are in no bin. By default these are 0 and 1 where all
    scores are between them, else the lowest and the highest score. Raises MetricError where `bins`
    is not from 1 to 10,000, or the limits do not ascend. Cost: O(distinct scores).

    >>> index = ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)])
    >>> histogram = score_distribution(index, bins=2)
    >>> histogram.positives.tolist(), histogram.negatives.tolist(), histogram.high.tolist()
    ([1, 1], [2, 0], [0.5, 1.0])
    """
    _check_bins(bins, 1, 10_000)
    scores, positives, negatives = index.groups()
    first, last = _limits(scores, limits)
    share = np.arange(bins + 1) / bins
    # Not first + share * (last - first), whose difference may overflow.
    edges = first * (1 - share) + last * share
    edges[0], edges[-1] = first, last
    ends = np.searchsorted(scores, edges, side="right")
    ends[0] = np.searchsorted(scores, first, side="left")
    return ScoreDistribution(
        low=edges[:-1],
        high=edges[1:],
        positives=_between(positives, ends),
        negatives=_between(negatives, ends),
        reason="" if len(scores) else NO_EVENTS,
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ResidualDistribution(CurveColumns):
    """A histogram of the residuals y_true − y_pred: the events of each bin, from ``low`` on."""

    low: FloatArray
    high: FloatArray
    events: Counts
    reason: str = ""
    _name: ClassVar[str] = "residuals"


def residual_distribution(
    residuals: ResidualIndex, *, bins: int = 40, limits: tuple[float, float] | None = None
) -> ResidualDistribution:
    """How many events have a residual y_true − y_pred in each of some bins of equal width.

    By default the outer edges are the lowest and the highest residual; raises MetricError as
    :func:`score_distribution`. Cost: O(distinct residuals).

    >>> residuals = ResidualIndex()
    >>> for true, predicted in [(3.0, 2.5), (1.0, 2.5), (2.0, 2.0)]:
    ...     residuals.update(true, predicted)
    >>> residual_distribution(residuals, bins=2).events.tolist()
    [1, 2]
    """
    values, _ = residuals.weights()
    if limits is None and len(values) and values[0] < values[-1]:
        limits = float(values[0]), float(values[-1])
    # The index has one class only.
    found = score_distribution(residuals.index, bins=bins, limits=limits)
    return ResidualDistribution(found.low, found.high, found.negatives, found.reason)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ActualVsPredicted(CurveColumns):
    """A histogram of true and predicted numbers: the events of each square that has some."""

    true_low: FloatArray
    true_high: FloatArray
    predicted_low: FloatArray
    predicted_high: FloatArray
    events: Counts
    reason: str = ""
    _name: ClassVar[str] = "actual_vs_predicted"


def actual_vs_predicted(
    histogram: PredictionHistogram,
    *,
    bins: int = 40,
    limits: tuple[float, float] | None = None,
) -> ActualVsPredicted:
    """How many events have their true and their predicted number in each square of a grid.

    The squares with events, at most 500, ascending by the true number; a square has its lower
    edges. Their sides are a power of two, the least with which there are at most `bins` along
    either axis and which the state still tells apart. Squares that begin outside of `limits` are
    left out. Raises MetricError where `bins` is not from 4 to 1,000, or the limits do not ascend.
    Cost: O(squares).

    >>> histogram = PredictionHistogram()
    >>> for true, predicted in [(3.0, 2.5), (9.0, 9.5), (9.25, 9.75), (1.0, 7.0)]:
    ...     histogram.update(true, predicted)
    >>> cells = actual_vs_predicted(histogram, bins=8)
    >>> cells.true_low.tolist(), cells.predicted_low.tolist(), cells.events.tolist()
    ([0.0, 2.0, 8.0], [6.0, 2.0, 8.0], [1, 1, 2])
    """
    _check_bins(bins, 4, 1000)
    true, predicted, events = histogram.cells()
    first, last = (-LARGEST, LARGEST) if limits is None else _limits(true, limits)
    kept = (np.minimum(true, predicted) >= first) & (np.maximum(true, predicted) <= last)
    side = _shown_side(histogram.side, [true[kept], predicted[kept]], bins)
    squares: dict[tuple[float, float], Weight] = {}
    for one, other, inside, by in zip(true, predicted, kept, events, strict=True):
        if inside:
            square = cell_edge(float(one), side), cell_edge(float(other), side)
            squares[square] = squares.get(square, 0) + by
    low = np.array(sorted(squares), dtype=np.float64).reshape(-1, 2)
    with np.errstate(over="ignore"):
        high = np.minimum(low + side, LARGEST)
    # The lowest edge may stand for −2**1024, which is no float.
    high[(low == -LARGEST) & (side > math.ulp(LARGEST))] = -2.0 * (2.0**1023 - side / 2)
    weights = np.array([squares[square] for square in sorted(squares)])
    reason = "" if len(low) else NO_EVENTS
    return ActualVsPredicted(low[:, 0], high[:, 0], low[:, 1], high[:, 1], weights, reason)


def _shown_side(side: float, axes: Sequence[FloatArray], bins: int) -> float:
    """The least power of two, from this one on, with at most so many cells along each axis."""
    ends = [(float(axis.min()), float(axis.max())) for axis in axes if len(axis)]
    largest = max((abs(number) for pair in ends for number in pair), default=0.0)
    if all(low == high for low, high in ends):
        # A single square: of at most half the size of its numbers.
        return max(side, math.ldexp(1.0, math.frexp(largest)[1] - 2))
    half = max(high / 2 - low / 2 for low, high in ends)
    # Both edges of a square are floats.
    side = max(side, math.ulp(largest), math.ldexp(1.0, math.frexp(half)[1] - bins.bit_length()))
    while any((cell_edge(high, side) - cell_edge(low, side)) / side >= bins for low, high in ends):
        side *= 2
    return side


def _check_bins(bins: object, least: int, most: int) -> None:
    if type(bins) is not int or not least <= bins <= most:
        raise MetricError(
            f"bins: expected a number of bins from {least} to {most}, got {shown(bins)}"
        )


def _limits(scores: FloatArray, given: tuple[float, float] | None) -> tuple[float, float]:
    if given is not None:
        expected = "two finite numbers, ascending"
        top = float(np.finfo(np.float64).max)
        try:
            first, last = (
                float(number_option("limits", end, expected, low=-top, high=top)) for end in given
            )
        except (TypeError, ValueError):
            raise MetricError(f"limits: expected {expected}, got {shown(given)}") from None
        if first < last:
            return first, last
        raise MetricError(f"limits: expected {expected}, got {shown(given)}")
    if not len(scores) or (scores[0] >= 0.0 and scores[-1] <= 1.0):
        return 0.0, 1.0
    first, last = float(scores[0]), float(scores[-1])
    if first == last:
        half = max(0.5, abs(first) / 4)
        return first - half, last + half
    return first, last


def _between(weights: Counts, ends: Counts) -> Counts:
    """The sums of the weights between neighbouring positions; exact in integers."""
    running = np.concatenate((np.zeros(1, dtype=weights.dtype), np.cumsum(weights)))
    return np.diff(running[ends])
