"""Metrics of predictions alone, of which no true label is known."""

from __future__ import annotations

import math
from fractions import Fraction

from streameval.errors import MetricError, shown
from streameval.events.values import is_number
from streameval.metrics.undefined import NO_EVENTS, ratio, undefined_value
from streameval.states.class_probability import ClassProbabilitySums
from streameval.states.moments import ScoreMoments
from streameval.states.score_index import ScoreIndex
from streameval.states.sums.fixed_point import UNIT

__all__ = ["mean_confidence", "mean_score", "score_quantile"]


def mean_score(moments: ScoreMoments, *, undefined: float | None = None) -> float:
    """Mean of the scores, rounded once; nan before the first score. Cost: O(1).

    The moments are those of :class:`streameval.Predictions`, whose events are all negatives.

    >>> moments = ScoreMoments()
    >>> moments.update_many([False, False], [0.25, 0.75])
    >>> mean_score(moments)
    0.5
    """
    mean = moments.mean(False)
    return undefined_value(NO_EVENTS, undefined) if mean is None else mean


def score_quantile(index: ScoreIndex, *, q: float = 0.5, undefined: float | None = None) -> float:
    """The smallest score that at least the share `q` of the events do not exceed.

    Always one of the scores: ``numpy.quantile(..., method="inverted_cdf")``. `q` is in [0, 1]; 0
    gives the smallest score and 1 the largest. nan before the first score. Raises MetricError for
    another `q`. Cost: O(distinct scores).

    >>> index = ScoreIndex([(False, .1), (False, .4), (False, .6), (False, .8)])
    >>> score_quantile(index), score_quantile(index, q=0.9)
    (0.4, 0.8)
    """
    if not is_number(q) or not 0 <= q <= 1:
        raise MetricError(f"q: expected a number from 0 to 1, got {shown(q)}")
    total = index.positives + index.negatives
    if not total:
        return undefined_value(NO_EVENTS, undefined)
    # In fractions, as a product of floats may pass the weight that it should be equal to.
    wanted = Fraction(float(q)) * Fraction(total)
    below = Fraction(0)
    score = 0.0
    for block in index.group_blocks():
        weights = block.positives + block.negatives
        of_block = Fraction(weights.sum().item())
        if below + of_block < wanted:
            below, score = below + of_block, float(block.scores[-1])
            continue
        for score, weight in zip(block.scores.tolist(), weights.tolist(), strict=True):
            below += Fraction(weight)
            if below >= wanted:
                return float(score)
    return float(score)


def mean_confidence(sums: ClassProbabilitySums, *, undefined: float | None = None) -> float:
    """Mean probability of the predicted label; in [0, 1], nan before the first. Cost: O(bins).

    >>> sums = ClassProbabilitySums()
    >>> sums.update("cat", {"cat": 0.75, "dog": 0.25})
    >>> mean_confidence(sums)
    0.75
    """
    units = sums.bin_probability_units
    total = sum(units) if sums.exact else math.fsum(units)
    return ratio(total, sums.weight * UNIT, NO_EVENTS, undefined)
