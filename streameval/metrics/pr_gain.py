"""Precision–recall–gain: precision and recall on a scale with meaningful arithmetic means.

Flach & Kull, "Precision-Recall-Gain Curves: PR Analysis Done Right", NIPS 2015.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from streameval.events.values import FloatArray
from streameval.metrics.thresholds import (
    Counts,
    class_missing,
    columns_of,
    iterate_columns,
    plain,
    quotients,
    threshold_counts,
    to_dict_as,
    widened,
)
from streameval.metrics.undefined import undefined_value
from streameval.states.score_index import ScoreIndex

__all__ = ["PrGainCurve", "pr_gain_auc", "pr_gain_curve"]


@dataclass(frozen=True, slots=True, eq=False)
class PrGainCurve:
    """Recall gain in [0, 1] against precision gain, as the threshold falls.

    Where no threshold gives a recall gain of exactly 0, the curve starts with
    the crossing of that axis, whose threshold is nan.
    """

    recall_gain: FloatArray
    precision_gain: FloatArray
    threshold: FloatArray
    reason: str = ""

    columns = columns_of
    __iter__ = iterate_columns
    to_dict = to_dict_as("pr_gain")


def pr_gain_curve(index: ScoreIndex) -> PrGainCurve:
    """The precision–recall–gain curve.

    With π the share of positives, a value v of precision or recall becomes
    the gain (v − π)/((1 − π)·v): 0 if every event is predicted
    positive, 1 at best. Between two thresholds the curve is a straight line, ties included.

    Args:
        index: Scores in any unit.

    Returns:
        The part with recall gain ≥ 0 (recall ≥ π), starting on the axis;
        precision gain may be negative. Without both classes the curve is
        empty, with a reason.

    Cost:
        O(distinct scores).

    >>> curve = pr_gain_curve(ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]))
    >>> curve.recall_gain.tolist()
    [0.0, 0.0, 1.0, 1.0]
    >>> curve.precision_gain.tolist()
    [1.0, 0.0, 0.5, 0.0]
    """
    counts = threshold_counts(index.groups())
    reason = class_missing(counts.positives, counts.negatives)
    if reason:
        nothing = np.zeros(0)
        return PrGainCurve(nothing, nothing, nothing, reason)
    positives, negatives = counts.positives, counts.negatives
    # recall ≥ π  ⇔  TP·(P + N) ≥ P²
    wide = widened(counts.tp, 2 * positives * (positives + negatives))
    lead = wide * (positives + negatives) - positives * positives
    first = int(np.searchsorted(lead, 0))
    tp, fp = wide[first:], widened(counts.fp[first:], 2 * positives * negatives)
    recall_gain = quotients(lead[first:], negatives * tp)
    precision_gain = quotients(negatives * tp - positives * fp, negatives * tp)
    threshold = counts.threshold[first:]
    if lead[first] > 0:
        start = _crossing(counts.tp, counts.fp, first, positives, negatives)
        recall_gain = np.concatenate(([0.0], recall_gain))
        precision_gain = np.concatenate(([start], precision_gain))
        threshold = np.concatenate(([math.nan], threshold))
    return PrGainCurve(recall_gain, precision_gain, threshold)


def _crossing(tp: Counts, fp: Counts, row: int, positives: float, negatives: float) -> float:
    """Precision gain where the line from row − 1 to row of the counts crosses recall = π."""
    tp0, fp0 = plain(tp[row - 1]), plain(fp[row - 1])
    tp1, fp1 = plain(tp[row]), plain(fp[row])
    total = positives + negatives
    # All over (tp1 − tp0)·total, to divide once.
    wanted_tp = positives * positives * (tp1 - tp0)
    wanted_fp = fp0 * (tp1 - tp0) * total + (positives * positives - tp0 * total) * (fp1 - fp0)
    return (negatives * wanted_tp - positives * wanted_fp) / (negatives * wanted_tp)


def pr_gain_auc(index: ScoreIndex, *, undefined: float | None = None) -> float:
    """Area under the precision–recall–gain curve, over recall gain from 0 to 1.

    Returns:
        At most 1; 0 for a constant score, below 0 for worse. nan with a reason
        while a class is missing.

    Cost:
        O(distinct scores).

    >>> pr_gain_auc(ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]))
    0.25
    """
    curve = pr_gain_curve(index)
    if curve.reason:
        return undefined_value(curve.reason, undefined)
    widths = np.diff(curve.recall_gain)
    heights = curve.precision_gain[1:] + curve.precision_gain[:-1]
    return math.fsum((widths * heights).tolist()) / 2
