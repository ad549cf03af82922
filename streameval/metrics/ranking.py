"""Ranking metrics: functions of a ScoreIndex that depend on the order of scores only.

With whole weights every value is one division of exact integers (or an exactly
rounded sum of quotients), so it does not depend on the order of arrival.
``undefined=`` is a number in place of an undefined value, which is otherwise
nan with a reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction

import numpy as np

from streameval.events.values import Weight
from streameval.metrics.thresholds import (
    Counts,
    class_missing,
    coarsened,
    number_option,
    pair_lead,
    plain,
    quotients,
    threshold_counts,
    widened,
)
from streameval.metrics.undefined import undefined_value
from streameval.states.ranking.score_groups import ScoreGroups
from streameval.states.score_index import ScoreIndex

__all__ = [
    "average_precision",
    "break_even",
    "eleven_point_average_precision",
    "gini",
    "ks",
    "partial_roc_auc",
    "roc_auc",
]


def roc_auc(index: ScoreIndex, *, undefined: float | None = None) -> float:
    """Area under the ROC curve of the scores seen so far, exactly.

    The probability that a random positive outscores a random negative, a tie
    counting one half:

        AUC = (#{s⁺ > s⁻} + ½ #{s⁺ = s⁻}) / (P · N)

    Pairs are counted in integers and divided once, so the value does not
    depend on arrival or merge order.

    Args:
        index: Scores in any unit; only their order matters.

    Returns:
        A fraction in [0, 1]; nan with a reason while P or N is 0.

    Cost:
        O(1) once the index keeps its wins current (after the first read).

    >>> roc_auc(ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]))
    0.75
    """
    share = index.won_share
    return _needs_both(index, undefined) if share is None else share


def gini(index: ScoreIndex, *, undefined: float | None = None) -> float:
    """Gini coefficient of the ranking, 2·AUC − 1: wins minus losses over all pairs.

    Returns:
        A fraction in [−1, 1], 0 for random scores; nan with a reason while a class is missing.

    Cost:
        As :func:`roc_auc`.

    >>> gini(ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]))
    0.5
    """
    pairs = index.positives * index.negatives
    if pairs:
        return (index.twice_wins - pairs) / pairs
    return _needs_both(index, undefined)


def ks(index: ScoreIndex, *, undefined: float | None = None) -> float:
    """Kolmogorov–Smirnov distance: the largest ``|TPR − FPR|`` over all thresholds.

    Returns:
        A fraction in [0, 1]; nan with a reason while a class is missing.

    Cost:
        O(distinct scores).

    >>> ks(ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]))
    0.5
    """
    if not index.positives * index.negatives:
        return _needs_both(index, undefined)
    counts = threshold_counts(index.groups())
    return float(np.abs(pair_lead(counts)).max() / (counts.positives * counts.negatives))


def average_precision(index: ScoreIndex, *, undefined: float | None = None) -> float:
    """Precision averaged over the positives, each at its own threshold.

        AP = Σ (R_n − R_{n−1}) · P_n   over the distinct scores, descending

    This is the step form (scikit-learn's ``average_precision_score``), not
    the trapezoid, which is optimistic. The sum is rounded once.

    Returns:
        A fraction in [0, 1]; nan with a reason while no positive was seen.

    Cost:
        O(distinct scores) time; no copy of the curve is held.

    >>> average_precision(ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]))
    0.8333333333333333
    """
    if not index.positives:
        return _needs_both(index, undefined)
    total = math.fsum(_precision_terms(index.group_blocks(descending=True)))
    # The groups' own sum: in float mode the index's running total may round differently.
    positives = index.positives
    if not index.exact:
        positives = math.fsum(w for block in index.group_blocks() for w in block.positives)
    return total / positives


def _precision_terms(blocks: Iterable[ScoreGroups]) -> Iterator[float]:
    """Weight of positives times the precision there, for each group holding a positive.

    The blocks descend; a large index is read block by block, not copied.
    """
    tp: Weight = 0
    predicted: Weight = 0
    for block in blocks:
        gained = block.positives[::-1]
        both = gained + block.negatives[::-1]
        tps, sizes = _running_on(tp, gained), _running_on(predicted, both)
        tp, predicted = tps[-1], sizes[-1]
        with_positive = gained > 0
        precision = quotients(tps[with_positive], sizes[with_positive])
        yield from (gained[with_positive] * precision).tolist()


def _running_on(before: Weight, weights: Counts) -> Counts:
    """Running sums that continue those of earlier blocks: the same bits for any block size."""
    sums = weights.copy()
    sums[0] += before
    return np.cumsum(sums, out=sums)


def eleven_point_average_precision(index: ScoreIndex, *, undefined: float | None = None) -> float:
    """Mean interpolated precision at the recall levels 0, 0.1, …, 1.

    At each level, the highest precision of any threshold whose recall
    reaches the level.

    Returns:
        A fraction in [0, 1]; nan with a reason while no positive was seen,
        and once scores have been coarsened.

    Cost:
        O(distinct scores).

    >>> eleven_point_average_precision(ScoreIndex([(False, .1), (False, .4), (True, .35),
    ...                                            (True, .8)]))
    0.8484848484848485
    """
    if not index.positives:
        return _needs_both(index, undefined)
    if reason := coarsened(index):
        return undefined_value(reason, undefined)
    counts = threshold_counts(index.groups())
    tp, fp = counts.tp[1:], counts.fp[1:]
    best_onwards = np.maximum.accumulate(quotients(tp, tp + fp)[::-1])[::-1]
    levels = [_tenths(counts.positives, tenth) for tenth in range(11)]
    return math.fsum(best_onwards[np.searchsorted(tp, levels)].tolist()) / 11


def _tenths(whole: Weight, tenth: int) -> Weight:
    """The least count that is at least ``tenth`` tenths of the whole."""
    if isinstance(whole, int):
        return -(-tenth * whole // 10)
    # Fractions that add up to three tenths may fall short of it by their rounding.
    return whole * tenth / 10 * (1 - 1e-12)


def break_even(index: ScoreIndex, *, undefined: float | None = None) -> float:
    """The value at which precision equals recall.

    They are equal where as many events are predicted positive as are positive.
    Inside a group of equal scores the counts are interpolated linearly, as the
    ROC curve interpolates ties.

    Returns:
        A fraction in [0, 1]; nan with a reason while no positive was seen,
        and once scores have been coarsened.

    Cost:
        O(distinct scores).

    >>> break_even(ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]))
    0.5
    """
    if not index.positives:
        return _needs_both(index, undefined)
    if reason := coarsened(index):
        return undefined_value(reason, undefined)
    counts = threshold_counts(index.groups())
    positives = counts.positives
    predicted = counts.tp + counts.fp
    row = int(np.searchsorted(predicted, positives, side="right")) - 1
    tp, missing = plain(counts.tp[row]), positives - plain(predicted[row])
    if not missing:
        return tp / positives
    gained = plain(counts.tp[row + 1]) - tp
    entered = plain(predicted[row + 1]) - plain(predicted[row])
    return (tp * entered + missing * gained) / (entered * positives)


def partial_roc_auc(
    index: ScoreIndex,
    max_fpr: float = 0.1,
    *,
    mcclish: bool = True,
    undefined: float | None = None,
) -> float:
    """Area under the ROC curve up to a false positive rate.

    Standardised as McClish (1989), so that 0.5 is random and 1 perfect for
    any ``max_fpr``: ½(1 + (A − x²/2)/(x − x²/2)), scikit-learn's
    ``roc_auc_score(max_fpr=x)``.

    Args:
        index: Scores in any unit.
        max_fpr: x, above 0 and at most 1; at 1 the value is the AUC.
        mcclish: False gives the plain area A, in [0, x].

    Returns:
        A fraction; nan with a reason while a class is missing. The
        standardised value is below 0.5 for a ranking worse than random.

    Raises:
        MetricError: ``max_fpr`` is not in (0, 1].

    Cost:
        O(distinct scores).

    >>> index = ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)])
    >>> partial_roc_auc(index, 0.5), partial_roc_auc(index, 0.5, mcclish=False)
    (0.6666666666666666, 0.25)
    """
    expected = "a number above 0 and at most 1"
    limit = Fraction(number_option("max_fpr", max_fpr, expected, low=0, high=1, above=True))
    if not index.positives * index.negatives:
        return _needs_both(index, undefined)
    counts = threshold_counts(index.groups())
    pairs = Fraction(counts.positives) * Fraction(counts.negatives)
    area = _area_to(counts.tp, counts.fp, limit * Fraction(counts.negatives)) / pairs
    if not mcclish:
        return float(area)
    coin = limit * limit / 2
    return float((1 + (area - coin) / (limit - coin)) / 2)


def _area_to(tp: Counts, fp: Counts, limit: Fraction) -> Fraction:
    """Area under (fp, tp) from fp = 0 to ``limit``, in pairs of events."""
    bound = float(limit) if fp.dtype.kind == "f" else int(limit)
    last = int(np.searchsorted(fp, bound, side="right")) - 1
    pairs = 2 * plain(tp[-1]) * plain(fp[-1])
    heights, along = widened(tp[: last + 1], pairs), widened(fp[: last + 1], pairs)
    twice = (heights[1:] + heights[:-1]) * np.diff(along)
    area = Fraction(math.fsum(twice.tolist()) if twice.dtype.kind == "f" else int(twice.sum()))
    rest = limit - Fraction(plain(fp[last]))
    if last + 1 < len(fp) and rest > 0:
        low, high = Fraction(plain(tp[last])), Fraction(plain(tp[last + 1]))
        step = Fraction(plain(fp[last + 1])) - Fraction(plain(fp[last]))
        area += rest * (2 * low + (high - low) * rest / step)
    return area / 2


def _needs_both(index: ScoreIndex, undefined: float | None) -> float:
    return undefined_value(class_missing(index.positives, index.negatives), undefined)
