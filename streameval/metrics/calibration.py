"""Calibration: observed frequency against predicted probability, in bins.

Multi-class, it is the predicted label's probability, its *confidence*. A probability on an
edge belongs to the bin below, as in scikit-learn's ``calibration_curve``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from streameval.errors import MetricError, shown
from streameval.events.values import FloatArray, Weight
from streameval.metrics.averages import check_choice, exact_sum
from streameval.metrics.probability import AnySums, missing_probability, no_probabilities
from streameval.metrics.thresholds import Counts, CurveColumns, coarsened, plain
from streameval.metrics.undefined import undefined_value
from streameval.states.probability import ProbabilitySums
from streameval.states.score_index import ScoreIndex
from streameval.states.sums.fixed_point import UNIT, sum_units_by_group, total_weight_by_group

__all__ = [
    "CalibrationCurve",
    "calibration_curve",
    "expected_calibration_error",
    "l2_calibration_error",
    "max_calibration_error",
    "quantile_calibration_curve",
    "quantile_calibration_error",
]

Bin: TypeAlias = tuple[int, Weight, Weight, Weight]
"""Position, weight, observed weight, and units of probability of a bin with events."""


def filled_bins(sums: AnySums) -> list[Bin]:
    """Each bin with events."""
    happened = sums.bin_positives if isinstance(sums, ProbabilitySums) else sums.bin_correct
    return _filled(sums.bin_weights, happened, sums.bin_probability_units)


def _filled(*columns: Sequence[Weight]) -> list[Bin]:
    rows: Any = zip(*columns, strict=True)
    return [(position, *row) for position, row in enumerate(rows) if row[0]]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CalibrationCurve(CurveColumns):
    """One row for each bin with events.

    ``observed`` is the observed frequency and ``predicted`` the mean probability, scikit-learn's
    ``prob_true`` and ``prob_pred``; ``weight`` is of its events, ``low`` and ``high`` its edges.
    """

    observed: FloatArray
    predicted: FloatArray
    weight: Counts
    low: FloatArray
    high: FloatArray
    reason: str = ""
    _name: ClassVar[str] = "calibration"


def calibration_curve(sums: AnySums) -> CalibrationCurve:
    """The reliability curve: observed frequency against mean probability in each bin with events.

    Empty, with a reason, while there is no event or, binary, while some score lies outside
    [0, 1]. Cost: O(bins).

    >>> sums = ProbabilitySums(bins=5)
    >>> for positive, probability in [(False, 0.1), (True, 0.125), (True, 0.75)]:
    ...     sums.update(positive, probability)
    >>> curve = calibration_curve(sums)
    >>> curve.observed.tolist(), curve.predicted.tolist(), curve.weight.tolist()
    ([0.5, 1.0], [0.1125, 0.75], [2, 1])
    """
    reason = missing_probability(sums, "calibration")
    rows = [] if reason else filled_bins(sums)
    edges = np.linspace(0.0, 1.0, len(sums.bin_weights) + 1)
    positions = np.array([position for position, *_ in rows], dtype=np.intp)
    return _curve_of(rows, edges[positions], edges[positions + 1], reason)


def _curve_of(rows: list[Bin], low: FloatArray, high: FloatArray, reason: str) -> CalibrationCurve:
    return CalibrationCurve(
        observed=np.array([happened / weight for _, weight, happened, _ in rows]),
        predicted=np.array([units / (weight * UNIT) for _, weight, _, units in rows]),
        weight=np.array([weight for _, weight, _, _ in rows]),
        low=low,
        high=high,
        reason=reason,
    )


def expected_calibration_error(sums: AnySums, *, undefined: float | None = None) -> float:
    """Mean gap between frequency and probability, over equal-width bins.

        ECE = Σ_b (w_b / W) · |observed_b − predicted_b|

    In [0, 1]; undefined where :func:`calibration_curve` is empty. Cost: O(bins).

    >>> sums = ProbabilitySums()
    >>> sums.update(True, 0.75)
    >>> sums.update(False, 0.25)
    >>> expected_calibration_error(sums)
    0.25
    """
    return _over_bins(_mean_gap, sums, undefined)


def _over_bins(
    gap: Callable[[list[Bin], Weight], float], sums: AnySums, undefined: float | None
) -> float:
    reason = missing_probability(sums, "the calibration error")
    return undefined_value(reason, undefined) if reason else gap(filled_bins(sums), sums.weight)


def _mean_gap(bins: list[Bin], total: Weight) -> float:
    return sum(abs(happened * UNIT - units) for _, _, happened, units in bins) / (total * UNIT)


def _root_mean_square_gap(bins: list[Bin], total: Weight) -> float:
    gaps = [(happened * UNIT - units, weight) for _, weight, happened, units in bins]
    if all(type(gap) is int and type(weight) is int for gap, weight in gaps):
        squares = (Fraction(int(gap) ** 2, int(weight)) for gap, weight in gaps)
        return math.sqrt(sum(squares, Fraction(0)) / (int(total) * UNIT * UNIT))
    return math.sqrt(math.fsum((gap / UNIT) ** 2 / weight for gap, weight in gaps) / total)


def _ks_statistic(bins: list[Bin], total: Weight) -> float:
    return max(abs(happened * UNIT - units) / (w * UNIT) for _, w, happened, units in bins)


def max_calibration_error(sums: AnySums, *, undefined: float | None = None) -> float:
    """Largest gap between frequency and probability in any bin with events.

    In [0, 1]; undefined where :func:`calibration_curve` is empty. Cost: O(bins).

    >>> sums = ProbabilitySums()
    >>> sums.update(True, 0.75)
    >>> sums.update(False, 0.125)
    >>> max_calibration_error(sums)
    0.25
    """
    return _over_bins(_ks_statistic, sums, undefined)


def l2_calibration_error(sums: AnySums, *, undefined: float | None = None) -> float:
    """Root of the mean squared gap between frequency and probability, over equal-width bins.

        √(Σ_b (w_b / W) · (observed_b − predicted_b)²)

    In [0, 1], between the expected and the largest gap; undefined where
    :func:`calibration_curve` is empty. Cost: O(bins).

    Source: Kumar, Liang & Ma (2019), Verified uncertainty calibration; torchmetrics'
    ``calibration_error(norm="l2")``.

    >>> sums = ProbabilitySums()
    >>> sums.update(True, 0.75)
    >>> sums.update(False, 0.25)
    >>> l2_calibration_error(sums)
    0.25
    """
    return _over_bins(_root_mean_square_gap, sums, undefined)


_NORMS: Mapping[str, Callable[[list[Bin], Weight], float]] = {
    "l1": _mean_gap,
    "l2": _root_mean_square_gap,
    "max": _ks_statistic,
}


def _quantile_bins(
    index: ScoreIndex, bins: int, what: str
) -> tuple[list[Bin], FloatArray, FloatArray, str]:
    """The bins, their least and their largest score, and why there are none."""
    if not isinstance(bins, (int, np.integer)) or isinstance(bins, bool) or not 1 <= bins <= 10_000:
        raise MetricError(f"bins: expected a whole number from 1 to 10000, got {shown(bins)}")
    scores, positives, negatives = index.groups()
    weights: Any = positives + negatives
    out = (scores < 0.0) | (scores > 1.0)
    outside = plain(weights[out].sum())
    reason = no_probabilities(plain(weights.sum()) - outside, outside, what) or coarsened(index)
    if reason:
        return [], np.zeros(0), np.zeros(0), reason
    running = np.cumsum(weights)
    total = plain(running[-1])
    # The k-th edge is the score at this place of all in order, from 0, as linearly interpolated
    # quantiles have it: no score lies between it and the interpolated one.
    places = [
        k * (total - 1) // bins if isinstance(total, int) else k * total / bins
        for k in range(1, bins)
    ]
    edges = np.minimum(np.searchsorted(running, places, side="right"), len(scores) - 1)
    bin_of = np.searchsorted(edges, np.arange(len(scores)))
    size = int(bins)
    filled = _filled(
        total_weight_by_group(bin_of, size, weights),
        total_weight_by_group(bin_of, size, positives),
        sum_units_by_group(scores, bin_of, size, weights),
    )
    at = [position for position, *_ in filled]
    first = np.searchsorted(bin_of, at)
    last = np.searchsorted(bin_of, at, side="right") - 1
    return filled, scores[first], scores[last], ""


def quantile_calibration_curve(index: ScoreIndex, *, bins: int = 10) -> CalibrationCurve:
    """The reliability curve over bins of equal mass: each holds as many events, ties aside.

    Equal to scikit-learn's ``calibration_curve(strategy="quantile")``. Equal scores are in one
    bin, so that there may be fewer than `bins` (1 to 10,000; raises MetricError for another
    number). With fractional weights the bins hold equal weight. The edges of a bin are its least
    and its largest score. Empty, with a reason, while there is no event, some score lies outside
    [0, 1], or scores have been coarsened. Cost: O(distinct scores).

    >>> curve = quantile_calibration_curve(
    ...     ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]), bins=2)
    >>> curve.observed.tolist(), curve.low.tolist(), curve.high.tolist()
    ([0.5, 0.5], [0.1, 0.4], [0.35, 0.8])
    """
    rows, low, high, reason = _quantile_bins(index, bins, "calibration")
    return _curve_of(rows, low, high, reason)


def quantile_calibration_error(
    index: ScoreIndex,
    *,
    bins: int = 10,
    norm: Literal["l1", "l2", "max"] = "l1",
    undefined: float | None = None,
) -> float:
    """Gap between frequency and probability over `bins` of equal mass (1 to 10,000).

    `norm` is ``"l1"``, the mean gap weighted by the bins' events; ``"l2"``, the root of the mean
    squared gap; or ``"max"``, the largest. Raises MetricError for others. In [0, 1]; undefined
    where :func:`quantile_calibration_curve` is empty. Cost: O(distinct scores).

    Source: Nguyen & O'Connor (2015), adaptive binning; bins as scikit-learn's
    ``calibration_curve(strategy="quantile")``.

    >>> index = ScoreIndex([(False, .125), (False, .375), (True, .25), (True, .75)])
    >>> quantile_calibration_error(index, bins=2)
    0.1875
    """
    check_choice("norm", norm, ("l1", "l2", "max"))
    rows, _, _, reason = _quantile_bins(index, bins, "the calibration error")
    if reason:
        return undefined_value(reason, undefined)
    return _NORMS[norm](rows, exact_sum([weight for _, weight, _, _ in rows]))
