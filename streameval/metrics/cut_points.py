"""Cut-points: the threshold that is best by a rule.

Every distinct score is a candidate, and so is ``+inf``, which predicts no event
positive. Of equally good candidates the highest threshold is taken.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from streameval.events.values import Weight
from streameval.metrics.thresholds import (
    Counts,
    ThresholdCounts,
    class_missing,
    number_option,
    pair_lead,
    plain,
    quotients,
    threshold_blocks,
    threshold_counts,
    widened,
)
from streameval.metrics.undefined import NO_EVENTS, Undefined, json_number
from streameval.states.score_index import ScoreIndex
from streameval.tables import Table

__all__ = [
    "CUT_POINTS",
    "CutPoint",
    "closest_cut",
    "cost_cut",
    "f1_cut",
    "fbeta_cut",
    "fpr_cut",
    "mcc_cut",
    "precision_cut",
    "youden_cut",
]


class CutPoint(NamedTuple):
    """A threshold, its confusion counts (``score >= threshold`` is positive) and its value.

    All six are nan with a reason (:class:`~streameval.metrics.undefined.Undefined`) where no
    threshold can be chosen.
    """

    threshold: float
    tp: Weight
    fp: Weight
    fn: Weight
    tn: Weight
    value: float
    """The rule's criterion at this threshold: Youden's J, F-beta, the cost, …"""

    @property
    def reason(self) -> str:
        """Why there is no cut-point; empty where there is one."""
        return self.threshold.reason if isinstance(self.threshold, Undefined) else ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; nan and infinity become None.

        >>> index = ScoreIndex([(False, .1), (True, .8)])
        >>> youden_cut(index).to_dict() == {"threshold": 0.8, "tp": 1, "fp": 0, "fn": 0,
        ...     "tn": 1, "value": 1.0, "reason": None}
        True
        """
        numbers = {name: json_number(value) for name, value in self._asdict().items()}
        return {**numbers, "reason": self.reason or None}

    def _repr_html_(self) -> str:
        if self.reason:
            return f"<p>no cut-point: {html.escape(self.reason)}</p>"
        shares = {"threshold": f"{self.threshold:.4g}", "value": f"{self.value:.4g}"}
        cells = [shares.get(name, str(count)) for name, count in self._asdict().items()]
        return Table(self._fields, [cells]).to_html()


def _no_cut(reason: str) -> CutPoint:
    return CutPoint(*[Undefined(reason)] * 6)


def _cut(counts: ThresholdCounts, row: int, value: float) -> CutPoint:
    tp, fp = plain(counts.tp[row]), plain(counts.fp[row])
    fn, tn = counts.positives - tp, counts.negatives - fp
    return CutPoint(float(counts.threshold[row]), tp, fp, fn, tn, float(value))


def _counted(index: ScoreIndex, *, negatives: bool = True) -> tuple[ThresholdCounts, str]:
    """The counts at each threshold, and which class is missing of those that a rule needs."""
    counts = threshold_counts(index.groups())
    missing = class_missing(counts.positives, counts.negatives)
    return counts, missing if negatives or not counts.positives else ""


def _highest_recall(counts: ThresholdCounts, allowed: Counts) -> CutPoint:
    rows = np.flatnonzero(allowed)
    row = int(rows[np.argmax(counts.tp[rows])])
    return _cut(counts, row, plain(counts.tp[row]) / counts.positives)


def youden_cut(index: ScoreIndex) -> CutPoint:
    """The threshold with the highest Youden index J = TPR − FPR.

    Cost: O(distinct scores), here and in the cut-points below.

    >>> index = ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)])
    >>> youden_cut(index)
    CutPoint(threshold=0.8, tp=1, fp=0, fn=1, tn=2, value=0.5)
    """
    counts, reason = _counted(index)
    if reason:
        return _no_cut(reason)
    lead = pair_lead(counts)
    row = int(np.argmax(lead))
    return _cut(counts, row, plain(lead[row]) / (counts.positives * counts.negatives))


def closest_cut(index: ScoreIndex) -> CutPoint:
    """The threshold whose point of the ROC curve is closest to the upper left corner.

    ``value`` is the distance, √((1 − TPR)² + FPR²), from 0 to √2.

    Source: Perkins & Schisterman (2006), The inconsistency of "optimal" cut-points.

    >>> index = ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)])
    >>> closest_cut(index)
    CutPoint(threshold=0.8, tp=1, fp=0, fn=1, tn=2, value=0.5)
    """
    counts, reason = _counted(index)
    if reason:
        return _no_cut(reason)
    positives, negatives = counts.positives, counts.negatives
    bound = 2 * (positives * negatives) ** 2
    # Squared, in pairs: integers, so that equal distances are equal.
    missed = widened(positives - counts.tp, bound) * negatives
    alarms = widened(counts.fp, bound) * positives
    row = int(np.argmin(missed * missed + alarms * alarms))
    pairs = positives * negatives
    value = math.hypot(plain(missed[row]) / pairs, plain(alarms[row]) / pairs)
    return _cut(counts, row, value)


def fbeta_cut(index: ScoreIndex, beta: float = 1.0) -> CutPoint:
    """The threshold with the highest F-beta, (1+β²)·TP / ((1+β²)·TP + β²·FN + FP).

    `beta` is the weight of recall against precision: from 0 (the precision alone) to 1e100, or
    infinity (the recall alone). Raises MetricError for another.

    >>> index = ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)])
    >>> fbeta_cut(index)
    CutPoint(threshold=0.35, tp=2, fp=1, fn=0, tn=1, value=0.8)
    """
    only_recall = isinstance(beta, float) and beta == math.inf
    expected = "a number from 0 to 1e100, or infinity"
    square = number_option("beta", 1 if only_recall else beta, expected, low=0, high=1e100) ** 2
    if not index.positives:
        return _no_cut(class_missing(index.positives, index.negatives))
    if only_recall:
        counts, _ = _counted(index)
        return _highest_recall(counts, counts.tp == counts.tp)
    best: CutPoint | None = None
    for counts in threshold_blocks(index):
        # (1+β²)TP + β²FN + FP = β²P + TP + FP
        bound = (1 + square) * (counts.positives + counts.negatives)
        tp, fp = widened(counts.tp, bound), widened(counts.fp, bound)
        # Of a beta that is a fraction, both are rounded: a quotient of 1 may come out above it.
        below = square * counts.positives + tp + fp
        values = np.minimum(quotients((1 + square) * tp, below), 1.0)
        # With a beta of 0, no precision where no event is predicted positive.
        values = np.nan_to_num(values)
        row = int(np.argmax(values))
        if best is None or values[row] > best.value:
            best = _cut(counts, row, values[row])
    assert best is not None
    return best


def f1_cut(index: ScoreIndex) -> CutPoint:
    """The threshold with the highest F1: :func:`fbeta_cut` with β = 1.

    >>> f1_cut(ScoreIndex([(False, .1), (True, .8)])).threshold
    0.8
    """
    return fbeta_cut(index, 1)


def mcc_cut(index: ScoreIndex) -> CutPoint:
    """The threshold with the highest Matthews correlation.

    Undefined where no threshold predicts some events positive and some negative.

    >>> cut = mcc_cut(ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]))
    >>> cut.threshold, round(cut.value, 6)
    (0.8, 0.57735)
    """
    counts, reason = _counted(index)
    if reason:
        return _no_cut(reason)
    # TP·TN − FP·FN = TP·N − FP·P. Floats select the row; its value is one exact division below.
    lead = pair_lead(counts)
    positive = counts.tp + counts.fp
    negative = positive[-1] - positive
    between = (positive > 0) & (negative > 0)
    if not between.any():
        return _no_cut("all scores are equal, so no threshold separates any events")
    floats = positive[between].astype(np.float64), negative[between].astype(np.float64)
    correlation = lead[between].astype(np.float64) / np.sqrt(floats[0] * floats[1])
    row = int(np.flatnonzero(between)[np.argmax(correlation)])
    below = counts.positives * counts.negatives * plain(positive[row]) * plain(negative[row])
    return _cut(counts, row, plain(lead[row]) / math.sqrt(below))


def cost_cut(index: ScoreIndex, c_fp: float = 1, c_fn: float = 1) -> CutPoint:
    """The threshold with the lowest mean cost, (c_fp·FP + c_fn·FN) / events; it may be ``+inf``.

    `c_fp` and `c_fn` are the cost of a false positive and of a false negative. Raises MetricError
    where one is not a finite number of at least 0.

    >>> index = ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)])
    >>> cost_cut(index, c_fp=1, c_fn=5)
    CutPoint(threshold=0.35, tp=2, fp=1, fn=0, tn=1, value=0.25)
    """
    expected = "a number of at least 0"
    per_fp = number_option("c_fp", c_fp, expected, low=0, high=1e150)
    per_fn = number_option("c_fn", c_fn, expected, low=0, high=1e150)
    counts = threshold_counts(index.groups())
    events = counts.positives + counts.negatives
    if not events:
        return _no_cut(NO_EVENTS)
    highest = per_fp * counts.negatives + per_fn * counts.positives
    tp, fp = widened(counts.tp, highest), widened(counts.fp, highest)
    cost = per_fp * fp + per_fn * (counts.positives - tp)
    row = int(np.argmin(cost))
    return _cut(counts, row, plain(cost[row]) / events)


def precision_cut(index: ScoreIndex, precision: float = 0.9) -> CutPoint:
    """The threshold with the highest recall of those with at least a given precision.

    ``value`` is the recall. Raises MetricError where `precision` is not in [0, 1].

    >>> index = ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)])
    >>> precision_cut(index, 0.6)
    CutPoint(threshold=0.35, tp=2, fp=1, fn=0, tn=1, value=1.0)
    >>> precision_cut(ScoreIndex([(True, .1), (False, .4)]), 0.6).reason
    'no threshold has a precision of 0.6 or more; the highest is 0.5'
    """
    least = number_option("precision", precision, "a number from 0 to 1", low=0, high=1)
    counts, reason = _counted(index, negatives=False)
    if reason:
        return _no_cut(reason)
    reached = quotients(counts.tp, counts.tp + counts.fp)
    if not (reached >= least).any():
        return _no_cut(
            f"no threshold has a precision of {least} or more; "
            f"the highest is {float(np.nanmax(reached))}"
        )
    return _highest_recall(counts, reached >= least)


def fpr_cut(index: ScoreIndex, fpr: float = 0.1) -> CutPoint:
    """The threshold with the highest TPR of those with at most a given FPR.

    ``value`` is the true positive rate (TPR). The FPR of threshold ``+inf`` is 0. Raises
    MetricError where `fpr` is not in [0, 1].

    >>> index = ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)])
    >>> fpr_cut(index, 0.5)
    CutPoint(threshold=0.35, tp=2, fp=1, fn=0, tn=1, value=1.0)
    """
    most = number_option("fpr", fpr, "a number from 0 to 1", low=0, high=1)
    counts, reason = _counted(index)
    if reason:
        return _no_cut(reason)
    return _highest_recall(counts, quotients(counts.fp, counts.negatives) <= most)


CUT_POINTS: Mapping[str, Callable[..., CutPoint]] = MappingProxyType(
    {
        "youden": youden_cut,
        "closest_top_left": closest_cut,
        "f1": f1_cut,
        "fbeta": fbeta_cut,
        "mcc": mcc_cut,
        "cost": cost_cut,
        "precision_at_least": precision_cut,
        "fpr_at_most": fpr_cut,
    }
)
"""Every rule by name, a function of a ScoreIndex and the rule's own keywords."""
