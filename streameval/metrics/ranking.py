"""Ranking metrics: functions of a ScoreIndex that depend on the order of scores only."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np

from streameval.errors import MetricError, shown
from streameval.events.values import Weight
from streameval.metrics.averages import exact_sum
from streameval.metrics.cut_points import precision_cut
from streameval.metrics.thresholds import (
    Counts,
    ThresholdCounts,
    class_missing,
    coarsened,
    number_option,
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
    "equal_error_rate",
    "gini",
    "ks",
    "partial_roc_auc",
    "precision_at_recall",
    "recall_at_precision",
    "roc_auc",
    "sensitivity_at_specificity",
    "specificity_at_sensitivity",
]


def roc_auc(index: ScoreIndex, *, undefined: float | None = None) -> float:
    """Area under the ROC curve of the scores seen so far, exactly.

    The probability that a random positive outscores a random negative, a tie counting one half:

        AUC = (#{s⁺ > s⁻} + ½ #{s⁺ = s⁻}) / (P · N)

    Pairs are counted in integers and divided once, so the value does not depend on arrival or
    merge order. Scores may be in any unit; only their order matters. In [0, 1]; undefined while P
    or N is 0. Cost: O(1) once the index keeps its U statistic current (after the first read).

    >>> roc_auc(ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]))
    0.75
    """
    share = index.auc
    return _needs_both(index, undefined) if share is None else share


def gini(index: ScoreIndex, *, undefined: float | None = None) -> float:
    """Gini coefficient of the ranking, 2·AUC − 1: pairs won minus pairs lost, over all pairs.

    In [−1, 1], 0 for random scores; undefined while a class is missing. Cost: as :func:`roc_auc`.

    >>> gini(ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]))
    0.5
    """
    pairs = index.positives * index.negatives
    if pairs:
        return (index.twice_u - pairs) / pairs
    return _needs_both(index, undefined)


def ks(index: ScoreIndex, *, undefined: float | None = None) -> float:
    """Kolmogorov–Smirnov distance: the largest ``|TPR − FPR|`` over all thresholds.

    In [0, 1]; undefined while a class is missing. Cost: by the compiled index, of whole weights, 10
    to 70 µs among 10⁶ scores; else O(distinct scores) at each read.

    >>> ks(ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]))
    0.5
    """
    gap = index.ks_statistic
    return _needs_both(index, undefined) if gap is None else gap


def average_precision(index: ScoreIndex, *, undefined: float | None = None) -> float:
    """Precision averaged over the positives, each at its own threshold.

        AP = Σ (R_n − R_{n−1}) · P_n   over the distinct scores, descending

    This is the step form (scikit-learn's ``average_precision_score``), not the trapezoid, which is
    optimistic. The sum is rounded once. In [0, 1]; undefined while no positive was seen.

    Cost: O(distinct scores) time at each read; no copy of the curve is held. A term is
    p·TP / (TP + FP): one event changes the precision at every lower score, each by another
    factor, so that no sum of a part can be kept.

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


def average_precision_of(blocks: Sequence[ScoreGroups]) -> float:
    """The average precision of blocks of score groups, descending, with some positive."""
    positives = exact_sum([weight for block in blocks for weight in block.positives.tolist()])
    return math.fsum(_precision_terms(blocks)) / positives


def _precision_terms(blocks: Iterable[ScoreGroups]) -> Iterator[float]:
    """Weight of positives times the precision there, for each group holding one; blocks descend."""
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

    At each level, the highest precision of any threshold whose recall reaches the level. In
    [0, 1]; undefined while no positive was seen, and once scores have been coarsened. Cost:
    O(distinct scores).

    >>> index = ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)])
    >>> eleven_point_average_precision(index)
    0.8484848484848485
    """
    if reason := _no_positive(index) or coarsened(index):
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

    They are equal where as many events are predicted positive as are positive. Inside a group of
    equal scores the counts are interpolated linearly, as the ROC curve interpolates ties. In
    [0, 1]; undefined while no positive was seen, and once scores have been coarsened. Cost:
    O(distinct scores).

    >>> break_even(ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]))
    0.5
    """
    if reason := _no_positive(index) or coarsened(index):
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


def equal_error_rate(index: ScoreIndex, *, undefined: float | None = None) -> float:
    """The error rate of the point of the ROC curve where FPR and FNR are equal.

    Between two thresholds the curve is a straight line, ties included. (Where no threshold has
    equal rates, some take the mean of the two nearest ones.) In [0, 1], 0 for a perfect ranking
    and ½ for a constant score; undefined while a class is missing. Cost: O(distinct scores).

    Source: Brümmer & de Villiers (2011), The BOSARIS toolkit.

    >>> equal_error_rate(ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]))
    0.5
    """
    if not index.positives * index.negatives:
        return _needs_both(index, undefined)
    counts = threshold_counts(index.groups())
    positives, negatives = counts.positives, counts.negatives
    bound = 2 * positives * negatives
    tp, fp = widened(counts.tp, bound), widened(counts.fp, bound)
    # FPR − FNR in pairs: rises from −P·N to P·N as the threshold falls.
    excess = fp * positives + tp * negatives - positives * negatives
    row = int(np.searchsorted(excess, 0))
    above, before = Fraction(plain(excess[row])), Fraction(plain(excess[row - 1]))
    first, last = Fraction(plain(fp[row - 1])), Fraction(plain(fp[row]))
    # At the crossing of the line between the two rows.
    return float((first * above - last * before) / ((above - before) * Fraction(negatives)))


_RATES: Mapping[str, Callable[[ThresholdCounts], tuple[Counts, Counts | Weight]]] = {
    "precision": lambda counts: (counts.tp, counts.tp + counts.fp),
    "recall": lambda counts: (counts.tp, counts.positives),
    "sensitivity": lambda counts: (counts.tp, counts.positives),
    "specificity": lambda counts: (counts.negatives - counts.fp, counts.negatives),
}
"""From the rates that a metric ``<value>_at_<rate>`` is of to their quotients."""


def precision_at_recall(
    index: ScoreIndex, min_recall: float = 0.9, *, undefined: float | None = None
) -> float:
    """The highest precision of the thresholds whose recall is at least `min_recall`.

    In [0, 1]; undefined while no positive was seen. Raises MetricError where `min_recall` is not
    in [0, 1]. Cost: O(distinct scores), here and in the three below.

    Source: torchmetrics' ``binary_precision_at_fixed_recall``.

    >>> index = ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)])
    >>> precision_at_recall(index, 0.5), precision_at_recall(index, 0.9)
    (1.0, 0.6666666666666666)
    """
    return _best_at(index, "precision", "recall", min_recall, undefined)


def recall_at_precision(
    index: ScoreIndex, min_precision: float = 0.9, *, undefined: float | None = None
) -> float:
    """The highest recall of the thresholds whose precision is at least `min_precision`.

    The value of the cut-point ``precision_at_least``. In [0, 1]; undefined while no positive was
    seen, and where no threshold reaches the precision. Errors: as :func:`precision_at_recall`.

    Source: torchmetrics' ``binary_recall_at_fixed_precision``, which then returns 0.

    >>> index = ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)])
    >>> recall_at_precision(index, 0.5), recall_at_precision(index, 0.9)
    (1.0, 0.5)
    """
    cut = precision_cut(index, _share_option("min_precision", min_precision))
    return undefined_value(cut.reason, undefined) if cut.reason else cut.value


def sensitivity_at_specificity(
    index: ScoreIndex, min_specificity: float = 0.9, *, undefined: float | None = None
) -> float:
    """The highest sensitivity (TPR) of thresholds of a specificity of `min_specificity` or more.

    In [0, 1]; undefined while a class is missing. Errors: as :func:`precision_at_recall`.

    Source: torchmetrics' ``binary_sensitivity_at_specificity``.

    >>> index = ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)])
    >>> sensitivity_at_specificity(index, 0.5), sensitivity_at_specificity(index, 0.9)
    (1.0, 0.5)
    """
    return _best_at(index, "sensitivity", "specificity", min_specificity, undefined)


def specificity_at_sensitivity(
    index: ScoreIndex, min_sensitivity: float = 0.9, *, undefined: float | None = None
) -> float:
    """The highest specificity of thresholds of a sensitivity (TPR) of `min_sensitivity` or more.

    In [0, 1]; undefined while a class is missing. Errors: as :func:`precision_at_recall`.

    Source: torchmetrics' ``binary_specificity_at_sensitivity``.

    >>> index = ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)])
    >>> specificity_at_sensitivity(index, 0.5), specificity_at_sensitivity(index, 0.9)
    (1.0, 0.5)
    """
    return _best_at(index, "specificity", "sensitivity", min_sensitivity, undefined)


def _best_at(
    index: ScoreIndex, value: str, rate: str, least: float, undefined: float | None
) -> float:
    """The highest value of the thresholds at which a rate is at least `least`."""
    least = _share_option(f"min_{rate}", least)
    if not (index.positives and (index.negatives or value == "precision")):
        return _needs_both(index, undefined)
    counts = threshold_counts(index.groups())
    reached = quotients(*_RATES[rate](counts)) >= least
    above, below = _RATES[value](counts)
    if isinstance(below, np.ndarray):
        # A threshold that predicts no event positive has no precision.
        return float(np.nanmax(quotients(above[reached], below[reached])))
    return plain(above[reached].max()) / below


def _share_option(name: str, value: object) -> float:
    return number_option(name, value, "a number from 0 to 1", low=0, high=1)


def partial_roc_auc(
    index: ScoreIndex,
    max_fpr: float | None = None,
    *,
    min_fpr: float | None = None,
    min_tpr: float | None = None,
    max_tpr: float | None = None,
    mcclish: bool = True,
    undefined: float | None = None,
) -> float:
    """Area under the ROC curve on an interval of the false or of the true positive rate.

    Over FPR from `min_fpr` (0 unless given) to `max_fpr` (0.1 unless given, 1 with `min_fpr`; at 1
    the value is the AUC). With `min_tpr` or `max_tpr` the area is between the curve and FPR = 1 at
    a TPR in that interval: specificity, integrated over sensitivity. Standardised as McClish
    (1989), so that 0.5 is random and 1 perfect for any interval: ½(1 + (A − C)/(M − C)), with C the
    area of the diagonal and M the interval's length; ``mcclish=False`` gives the plain area A. From
    0 this is scikit-learn's ``roc_auc_score(max_fpr=x)``. The standardised value is below 0.5 for a
    ranking worse than random, and may be below 0 on an interval that does not start at 0. Undefined
    while a class is missing. Raises MetricError where an end is not in [0, 1], the interval is
    empty, or an end of each rate is given. Cost: O(distinct scores).

    Source: McClish (1989), Analyzing a portion of the ROC curve; intervals and sensitivity as in
    Robin et al. (2011), pROC.

    >>> index = ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)])
    >>> partial_roc_auc(index, 0.5), partial_roc_auc(index, 0.5, mcclish=False)
    (0.6666666666666666, 0.25)
    >>> partial_roc_auc(index, min_fpr=0.5, mcclish=False), partial_roc_auc(index, min_tpr=0.5)
    (0.5, 0.6666666666666666)
    """
    by_tpr = min_tpr is not None or max_tpr is not None
    if by_tpr and (min_fpr is not None or max_fpr is not None):
        raise MetricError(
            "min_tpr and max_tpr conflict with min_fpr and max_fpr: give one rate's interval"
        )
    rate, ends = ("tpr", (min_tpr, max_tpr)) if by_tpr else ("fpr", (min_fpr, max_fpr))
    default = 1 if by_tpr or min_fpr is not None else 0.1
    low, high = _interval_of(rate, *ends, default)
    if not index.positives * index.negatives:
        return _needs_both(index, undefined)
    counts = threshold_counts(index.groups())
    tp, fp = counts.tp, counts.fp
    positives, negatives = Fraction(counts.positives), Fraction(counts.negatives)
    if by_tpr:
        # The curve of the other class as positive, whose FPR is the miss rate of this one.
        tp, fp = counts.negatives - fp[::-1], counts.positives - tp[::-1]
        positives, negatives = negatives, positives
        low, high = 1 - high, 1 - low
    area = _area_to(tp, fp, high * negatives)
    if low:
        area -= _area_to(tp, fp, low * negatives)
    area /= positives * negatives
    if not mcclish:
        return float(area)
    coin = (high * high - low * low) / 2
    return float((1 + (area - coin) / (high - low - coin)) / 2)


def _interval_of(
    rate: str, least: float | None, most: float | None, default: float
) -> tuple[Fraction, Fraction]:
    low, high = (
        Fraction(number_option(f"{end}_{rate}", value, expected, low=0, high=1, above=above))
        for end, value, expected, above in (
            ("min", 0 if least is None else least, "a number from 0 to 1", False),
            ("max", default if most is None else most, "a number above 0 and at most 1", True),
        )
    )
    if low >= high:
        raise MetricError(
            f"min_{rate}: expected a number below max_{rate}={shown(float(high))}, "
            f"got {shown(float(low))}"
        )
    return low, high


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


def _no_positive(index: ScoreIndex) -> str:
    return "" if index.positives else class_missing(index.positives, index.negatives)


def _needs_both(index: ScoreIndex, undefined: float | None) -> float:
    return undefined_value(class_missing(index.positives, index.negatives), undefined)
