"""Intervals of means, of losses and of scores, from their exact second moments."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from streameval.events.values import Weight
from streameval.states.loss_squares import LOG_LOSS_SCALE, LossSquares
from streameval.states.moments import ScoreMoments
from streameval.states.sums.fixed_point import UNIT
from streameval.uncertainty.interval import Ends, IntervalRequest, no_ends
from streameval.uncertainty.proportions import beta_fraction, beta_shares

NOT_KEPT = "the spread of the losses is not kept: pass intervals=True to the Evaluator"

RESOLUTION = 2.0**-52
"""A variance below this is of the rounding of squares, which is below 2**-54 each."""

_CLIPPED_SQUARE = 36**2 * UNIT
"""Less than the square of a clipped log loss, −ln 2⁻⁵² = 36.04, in units."""

LEAST_FREEDOM = 3.0
"""Fewest degrees of freedom of an interval."""


def student_quantile(level: float, freedom: float) -> float:
    """t with P(−t < T < t) = `level` for Student's T, to 3·10⁻⁵: Hill, Algorithm 396 (1970)."""
    tails = 1.0 - level
    a = 1.0 / (freedom - 0.5)
    b = 48.0 / (a * a)
    c = ((20700.0 * a / b - 98.0) * a - 16.0) * a + 96.36
    d = ((94.5 / (b + c) - 3.0) / b + 1.0) * math.sqrt(a * math.pi / 2.0) * freedom
    y = (d * tails) ** (2.0 / freedom)
    if y > 0.05 + a:
        # Near the normal: its quantile, and an asymptotic series.
        x = NormalDist().inv_cdf(tails / 2.0)
        y = x * x
        if freedom < 5:
            c += 0.3 * (freedom - 4.5) * (x + 0.6)
        c = (((0.05 * d * x - 5.0) * x - 7.0) * x - 2.0) * x + b + c
        y = (((((0.4 * y + 6.3) * y + 36.0) * y + 94.5) / c - y - 3.0) / b + 1.0) * x
        y = math.expm1(a * y * y)
    else:
        tail = 1.0 / (((freedom + 6.0) / (freedom * y) - 0.089 * d - 0.822) * (freedom + 2.0) * 3.0)
        y = ((tail + 0.5 / (freedom + 4.0)) * y - 1.0) * (freedom + 1.0) / (freedom + 2.0) + 1.0 / y
    return math.sqrt(freedom * y)


def student_p_value(t: float, freedom: float) -> float:
    """The chance that the absolute value of Student's T exceeds `t`; 1 for t below 10⁻⁸."""
    # T² / (ν + T²) is of Beta(½, ν/2).
    rest = freedom / (freedom + t * t)
    if rest < 0.01:
        if not rest:
            return 0.0
        # Far out, where 1 − rest would lose the digits of the rest.
        half = freedom / 2
        log_beta = math.lgamma(half) + math.lgamma(0.5) - math.lgamma(half + 0.5)
        kernel = math.exp(half * math.log(rest) + 0.5 * math.log1p(-rest) - log_beta)
        return kernel / half * beta_fraction(half, 0.5, rest)
    share = t * t / (freedom + t * t)
    if share * freedom < 1e-16:
        return 1.0
    return beta_shares(0.5, freedom / 2, share)[1]


def variance(weight: Weight, units: Weight, squares: Weight, scale: int = 1) -> float:
    """Σ w·x² / Σ w − (Σ w·x / Σ w)² of sums in units of 2**-60: one subtraction, one division."""
    spread = squares * scale * UNIT * weight - units * units
    return max(0.0, spread / (weight * weight * UNIT * UNIT))


def mean_ends(mean: float, spread: float, n: float, level: float) -> Ends:
    """The interval of the mean of a non-negative quantity, Student's on the log scale."""
    if n <= 1:
        return no_ends("a single event has no spread")
    if spread <= RESOLUTION:
        return no_ends("the losses are all the same, to the resolution of their sums")
    # Losses are skewed: on their own scale too many intervals lie below the mean. With c = s/mean,
    # of a gamma distribution the log of c² has the variance 2·(1 + c²)/n.
    square = spread * n / (n - 1.0) / (mean * mean)
    freedom = n / (1.0 + square) - 1.0
    if freedom < LEAST_FREEDOM:
        return no_ends("too few events for losses that differ as much")
    ratio = math.exp(student_quantile(level, freedom) * math.sqrt(square / n))
    return Ends(mean / ratio, mean * ratio)


def _holds_clipped(request: IntervalRequest, squares: LossSquares) -> bool:
    """Whether some true label is known to have had the probability 0: an infinite loss, clipped."""
    if request.whole and squares.log_loss_squares * LOG_LOSS_SCALE < _CLIPPED_SQUARE:
        return False
    index, scores = request.state("index"), request.state("class_scores")
    if index is not None:
        # A block is at most 65,536 scores, however many there are.
        lowest, highest = (next(index.group_blocks(descending=down)) for down in (False, True))
        missed = lowest.positives[0] if lowest.scores[0] == 0.0 else 0
        return bool(missed or (highest.scores[-1] == 1.0 and highest.negatives[-1]))
    if scores is None:
        return False
    own = (scores.column_scores(label, label)[0] for label in scores.labels)
    return any(len(column) and column[0] == 0.0 for column in own)


def score_ends(request: IntervalRequest) -> Ends:
    """The interval of a mean of scores: Student's, of independent events."""
    state, n = request.states[0], request.n
    if n <= 1:
        return no_ends("a single event has no spread")
    if isinstance(state, ScoreMoments):
        spread = state.variance(False)
    else:
        spread = _confidence_spread(request)
    if spread is None:
        return no_ends(NOT_KEPT)
    half = student_quantile(request.level, n - 1.0) * math.sqrt(spread / (n - 1.0))
    low, high = request.metric.low, request.metric.high
    index = request.state("index")
    if index is not None:
        first, last = (next(index.group_blocks(descending=down)) for down in (False, True))
        if first.scores[0] >= 0 and last.scores[-1] <= 1:
            low, high = 0.0, 1.0  # scores that may all be probabilities have such a mean
    return Ends(max(request.value - half, low), min(request.value + half, high))


def _confidence_spread(request: IntervalRequest) -> float | None:
    """Variance of the predicted labels' probabilities; None where these are not kept."""
    scores = request.state("class_scores")
    if scores is None:
        return None
    moments = ScoreMoments()
    for label in scores.labels:
        # Without true labels an event counts as one of its predicted label.
        own, weights = scores.column_scores(label, label)
        moments.update_many(np.zeros(len(own), dtype=np.bool_), own, weights)
    return moments.variance(False)


def loss_ends(request: IntervalRequest) -> Ends:
    """The interval of ``log_loss`` or ``brier_score``; see :func:`mean_ends`."""
    squares = request.state("loss_squares")
    if squares is None:
        return no_ends(NOT_KEPT)
    sums = request.states[0]
    if request.metric.name == "log_loss":
        spread = variance(
            sums.weight, sums.log_loss_units, squares.log_loss_squares, LOG_LOSS_SCALE
        )
    else:
        spread = variance(sums.weight, sums.brier_units, squares.brier_squares)
    ends = mean_ends(request.value, spread, request.n, request.level)
    if request.metric.name == "log_loss" and not ends.reason and _holds_clipped(request, squares):
        ends = ends._replace(method="log_t (clipped)")
    return ends._replace(high=min(ends.high, request.metric.high))
