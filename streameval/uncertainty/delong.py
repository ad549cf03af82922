"""Intervals of the area under the ROC curve: DeLong's variance, and where it fails Newcombe's."""

from __future__ import annotations

import math
from collections.abc import Callable

from streameval.uncertainty.interval import Ends, IntervalRequest, no_ends, normal_quantile

FEWEST = 30
"""Events of each class from which DeLong's interval is chosen by default, and a sequence begins."""

SEQUENCE_SIZE = 2000
"""Size of a sample at which the confidence sequence is narrowest for its size."""


def logit_interval(won: float, lost: float, margin: float) -> tuple[float, float]:
    """The interval A ± margin of a share A (`won`; `lost` is 1 − A), on the logit scale."""
    half = margin / (won * lost)
    return _shifted(won, lost, -half), _shifted(won, lost, half)


def _shifted(won: float, lost: float, logits: float) -> float:
    """The share whose logit is so much above the logit of ``won``."""
    # Of a large number no exponential is taken, which could overflow.
    if logits > 0:
        return won / (won + lost * math.exp(-logits))
    return won * math.exp(logits) / (won * math.exp(logits) + lost)


def newcombe_interval(
    auc: float, positives: float, negatives: float, level: float
) -> tuple[float, float]:
    """Newcombe's interval of an AUC: method 5 (2006, part 2), for few events and AUCs of 0 or 1."""
    factor = normal_quantile(level) ** 2 / (positives * negatives)
    mean_size = (positives + negatives) / 2

    def inside(theta: float) -> bool:
        spread = (1 - theta) / (2 - theta) + theta / (1 + theta)
        variance = theta * (1 - theta) * (1 + (mean_size - 1) * spread)
        return (auc - theta) ** 2 <= factor * variance

    return (
        0.0 if auc == 0 else _boundary(inside, 0.0, auc),
        1.0 if auc == 1 else _boundary(inside, 1.0, auc),
    )


def _boundary(inside: Callable[[float], bool], out: float, within: float) -> float:
    """The point at which `inside` changes, by bisection until no float is between."""
    while out != (middle := (out + within) / 2) and middle != within:
        if inside(middle):
            within = middle
        else:
            out = middle
    return within


def sequence_factor(size: float, level: float) -> float:
    """How many standard errors an asymptotic confidence sequence is wide to each side."""
    doubt = -2 * math.log1p(-level)
    growth = size * (doubt + math.log1p(doubt)) / SEQUENCE_SIZE
    return math.sqrt((1 + 1 / growth) * (math.log1p(growth) + doubt))


def _sample(request: IntervalRequest) -> tuple[float, float, float, float]:
    """The shares of pairs won and lost, and the (effective) numbers of both classes."""
    index = request.states[0]
    positives, negatives, wins = index.positives, index.negatives, index.twice_u
    # 1 where there are no pairs, hence no value and no interval.
    pairs = 2 * (positives * negatives) or 1
    won, lost = wins / pairs, (pairs - wins) / pairs
    if request.whole:
        return won, lost, positives, negatives
    scale = request.n / (positives + negatives or 1)
    return won, lost, positives * scale, negatives * scale


def delong(request: IntervalRequest) -> Ends:
    """DeLong's interval on the logit scale, of an AUC or a metric that is linear in it."""
    return _of_error(request, _sample(request), normal_quantile(request.level))


def reliable_delong(request: IntervalRequest) -> Ends | None:
    """The same, or None where its variance is not to be relied on and Newcombe's interval is."""
    # It is too small where the low placements of a rare class are missing: of 30 and 3,000
    # events at an AUC of .98, 86 % of the intervals hold the truth.
    sample = _sample(request)
    won, lost, positives, negatives = sample
    rarer, other = (positives, negatives) if positives < negatives else (negatives, positives)
    least = won if won < lost else lost
    if rarer < FEWEST or least == 0 or (other > 3 * rarer and rarer * least < 5):
        return None
    if won == lost and request.states[0].distinct == 1:
        return None
    return _of_error(request, sample, normal_quantile(request.level))


def newcombe(request: IntervalRequest) -> Ends:
    """Newcombe's interval, likewise."""
    won, _, positives, negatives = _sample(request)
    return _ends(request, *newcombe_interval(won, positives, negatives, request.level))


def sequence(request: IntervalRequest) -> Ends:
    """The confidence sequence with the running error of DeLong's, likewise; asymptotic."""
    sample = _sample(request)
    _, _, positives, negatives = sample
    if min(positives, negatives) < FEWEST:
        return no_ends(f"the sequence begins with {FEWEST} events of each class")
    size = 4 * positives * negatives / (positives + negatives)
    ends = _of_error(request, sample, sequence_factor(size, request.level))
    return ends if ends.reason else ends._replace(method="anytime (asymptotic)")


def _of_error(
    request: IntervalRequest, sample: tuple[float, float, float, float], factor: float
) -> Ends:
    """The interval of so many standard errors to each side."""
    won, lost, positives, _ = sample
    index = request.states[0]
    variance = index.auc_variance(1 if request.whole else index.positives / positives)
    if math.isnan(variance):
        return no_ends("DeLong's error needs two events of each class")
    if not (variance and won and lost):
        return no_ends("DeLong's error of this sample is 0; newcombe has an interval")
    return _ends(request, *logit_interval(won, lost, factor * math.sqrt(variance)))


def _ends(request: IntervalRequest, low: float, high: float) -> Ends:
    """The ends of an AUC carried over to the range of the metric: to [−1, 1] for gini."""
    start, width = request.metric.low, request.metric.high - request.metric.low
    return Ends(start + width * low, start + width * high)
