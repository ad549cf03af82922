"""Intervals of calibration errors, from the gaps in reliability bins."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from streameval.events.values import FloatArray
from streameval.metrics.calibration import CalibrationCurve, calibration_curve, filled_bins
from streameval.states.sums.fixed_point import UNIT
from streameval.uncertainty.interval import Ends, IntervalRequest, no_ends, normal_quantile
from streameval.uncertainty.losses import NOT_KEPT, RESOLUTION, variance
from streameval.uncertainty.proportions import clopper_pearson

_MOST_STEPS = 60
_PRECISION = 1e-12
_SQRT_2 = math.sqrt(2.0)


class Gap(NamedTuple):
    """One bin's part of the expected calibration error: |share of events · gap|."""

    size: float
    error: float
    """Its standard error, above 0."""


def expected_absolute(mean: float, error: float) -> float:
    """E|X| of a normal X: the mean of the folded normal distribution."""
    ratio = mean / error
    return error * math.sqrt(2.0 / math.pi) * math.exp(-0.5 * ratio * ratio) + mean * math.erf(
        ratio / _SQRT_2
    )


def gap_sum_ends(gaps: list[Gap], level: float) -> tuple[float, float]:
    """The interval of Σ|δ_b| where independent D_b ~ N(δ_b, error_b²) were observed."""
    # Σ|D_b| is too large on average, by how the gaps are spread over bins. Each end assumes the
    # spread that puts it furthest out: few bins with a gap, or every one.
    z = normal_quantile(level)
    few = [gap.size if gap.size > z * gap.error else 0.0 for gap in gaps]
    many = [
        math.sqrt(max(gap.size * gap.size - gap.error * gap.error, gap.error * gap.error))
        for gap in gaps
    ]
    return _end(gaps, few, z), _end(gaps, many, -z)


def _end(gaps: list[Gap], shape: list[float], z: float) -> float:
    """t·Σ d_b with (T − M(t)) = z·√V(t); 0 where T is as small without any gap."""
    seen = sum(gap.size for gap in gaps)

    def excess(t: float) -> tuple[float, float]:
        """(T − M(t)) − z·√V(t), and its derivative."""
        mean = spread = mean_slope = spread_slope = 0.0
        for gap, part in zip(gaps, shape, strict=True):
            center = t * part
            folded = expected_absolute(center, gap.error)
            slope = part * math.erf(center / (gap.error * _SQRT_2))
            mean += folded
            mean_slope += slope
            spread += max(0.0, center * center + gap.error * gap.error - folded * folded)
            spread_slope += 2.0 * (center * part - folded * slope)
        root = math.sqrt(spread)
        # Gaps of 10⁸ times their errors round the spread to 0.
        spread_slope = spread_slope / (2.0 * root) if root else 0.0
        return seen - mean - z * root, -mean_slope - z * spread_slope

    return _root(excess) * sum(shape) if any(shape) and excess(0.0)[0] > 0.0 else 0.0


def _root(value_and_slope: Callable[[float], tuple[float, float]]) -> float:
    """The root of a function that is above 0 at 0 and falls: Newton's method, bracketed."""
    low, high, t = 0.0, math.inf, 1.0
    for _ in range(_MOST_STEPS):
        value, slope = value_and_slope(t)
        low, high = (t, high) if value > 0.0 else (low, t)
        following = t - value / slope if slope < 0.0 else math.inf
        if abs(following - t) <= _PRECISION * t:
            return following
        if not low < following < high or following > 2.0 * t:
            following = 2.0 * t if high == math.inf else 0.5 * (low + high)
        t = following
    return t


def calibration_band(
    curve: CalibrationCurve, level: float, n: float | None = None
) -> tuple[FloatArray, FloatArray]:
    """Clopper and Pearson's interval of the observed frequency in each bin, each by itself."""
    weights = curve.weight.tolist()
    scale = 1.0 if n is None else n / sum(weights)
    ends = [
        clopper_pearson(share * weight * scale, weight * scale, level)
        for share, weight in zip(curve.observed.tolist(), weights, strict=True)
    ]
    return np.array([low for low, _ in ends]), np.array([high for _, high in ends])


def calibration_ends(request: IntervalRequest) -> Ends:
    """The interval of the expected, the L2 or the largest calibration error of a state's bins."""
    expected = request.metric.name == "expected_calibration_error"
    ends = _expected_error_ends(request) if expected else _error_of_bins_ends(request)
    if ends.reason:
        return ends
    # An interval contains its value, so that it can be drawn around it.
    low, high = min(ends.low, request.value), max(ends.high, request.value)
    return Ends(low, min(high, request.metric.high))


def _error_of_bins_ends(request: IntervalRequest) -> Ends:
    curve = calibration_curve(request.states[0])
    # Of independent intervals, all are right with the product of their levels.
    level = request.level ** (1.0 / len(curve.weight))
    low, high = calibration_band(curve, level, None if request.whole else request.n)
    least = np.maximum(np.maximum(low - curve.predicted, curve.predicted - high), 0.0)
    most = np.maximum(high - curve.predicted, curve.predicted - low)
    if request.metric.name == "max_calibration_error":
        return Ends(float(least.max()), float(most.max()))
    shares = curve.weight / curve.weight.sum()
    squares = float((shares * least * least).sum()), float((shares * most * most).sum())
    return Ends(math.sqrt(squares[0]), math.sqrt(squares[1]))


def _expected_error_ends(request: IntervalRequest) -> Ends:
    squares = request.state("loss_squares")
    if squares is None:
        return no_ends(NOT_KEPT)
    sums, of_bins, gaps = request.states[0], squares.bin_gap_squares, []
    for position, _, happened, units in filled_bins(sums):
        # Of each event: its gap if it is in this bin, else 0.
        total = abs(happened * UNIT - units)
        spread = variance(sums.weight, total, of_bins[position])
        size = total / (sums.weight * UNIT)
        if spread > RESOLUTION:
            gaps.append(Gap(size, math.sqrt(spread / request.n)))
        elif size > math.sqrt(RESOLUTION):
            return no_ends("all events have the same gap: its spread is unknown")
    if not gaps:
        return no_ends("no gap is above the resolution of the sums")
    return Ends(*gap_sum_ends(gaps, request.level))
